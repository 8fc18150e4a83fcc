"""A permuted tower computes the same function in another basis."""

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules

from swiftlet.encoders import LOOKUP_QUERY_ENCODER, torch_weights
from tests.checkpoints import ARCHITECTURES
from training.companions.permutation import Permutation, permute, permute_basis
from training.model.errors import ModelError
from training.model.loading import load_model
from training.model.towers import Tower, TowerSettings

TEXTS = ["kalo", "kalo mine pura soti", "Rasé, 12 (mi-lo)!", "tira " * 90]


def outputs(tower: Tower) -> torch.Tensor:
    """Pooled outputs in double precision, where rounding hides no difference."""
    tower.double().eval()
    with torch.no_grad():
        return tower(tower.tokenise(TEXTS))


def scramble(tower: Tower) -> None:
    """Give norms and biases, which start as ones and zeros, different values for each unit."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in tower.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.rand(parameter.shape, generator=generator))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("pooling", ["cls", "mean", "first_tokens"])
@pytest.mark.parametrize("layers", [None, (1,)])
def test_outputs_are_the_same_up_to_permutation_and_sign(
    architecture, pooling, layers, checkpoints
):
    tower = Tower.load(TowerSettings(checkpoints[architecture], layers, pooling=pooling))
    scramble(tower)
    before = outputs(tower)
    permutation, signs = permute_basis(tower.encoder, seed=3)
    vectors = before.reshape(len(before), -1, 32)  # of some poolings, there are several
    expected = (vectors[:, :, permutation] * signs).flatten(1)
    torch.testing.assert_close(outputs(tower), expected, rtol=0, atol=1e-12)
    assert sorted(permutation.tolist()) == list(range(32))
    assert set(signs.tolist()) == {-1, 1}
    # Nothing of what it was about has stayed in place.
    assert (outputs(tower) - before).abs().mean() > 0.1


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_tower_without_layers_is_permuted_too(architecture, checkpoints):
    tower = Tower.load(TowerSettings(checkpoints[architecture], (), pooling="mean"))
    scramble(tower)
    before = outputs(tower)
    permutation, signs = permute_basis(tower.encoder, seed=4)
    torch.testing.assert_close(outputs(tower), before[:, permutation] * signs, rtol=0, atol=1e-12)


def test_the_real_weights_give_the_same_outputs_up_to_permutation_and_sign():
    folder = torch_weights()
    tower = Tower.load(TowerSettings(folder, pooling="cls", max_tokens=32))
    before = outputs(tower)
    permutation, signs = permute_basis(tower.encoder, seed=0)
    torch.testing.assert_close(outputs(tower), before[:, permutation] * signs, rtol=0, atol=1e-10)


def test_the_output_of_a_dense_after_the_pooling_is_unchanged(checkpoints):
    tower = Tower.load(TowerSettings(checkpoints["bert"], pooling="mean"))
    tower.encoder.append(modules.Dense(32, 16, activation_function=torch.nn.Tanh()))
    before = outputs(tower)
    permute_basis(tower.encoder, seed=3)
    torch.testing.assert_close(outputs(tower), before, rtol=0, atol=1e-12)


def test_the_seed_alone_decides_the_basis(checkpoints):
    first, again, other = (
        Tower.load(TowerSettings(checkpoints["mpnet"], pooling="cls")) for _ in range(3)
    )
    for tower, seed in ((first, 1), (again, 1), (other, 2)):
        permute(tower, Permutation(permute_basis=seed))
    assert torch.equal(outputs(first), outputs(again))
    assert not torch.allclose(outputs(first), outputs(other), atol=0.1)


def test_a_lookup_encoder_has_no_basis():
    tower = Tower.load(TowerSettings(LOOKUP_QUERY_ENCODER))
    with pytest.raises(ModelError, match="has no hidden basis: leave out permute_basis"):
        permute(tower, Permutation(permute_basis=1))


def test_an_unknown_architecture_is_refused_and_left_unchanged(checkpoints):
    model = load_model(checkpoints["bert"])
    model.append(modules.Pooling(32, "mean"))
    model[0].auto_model.encoder.layer[1].adapter = torch.nn.Linear(32, 32)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    with pytest.raises(ModelError, match=r"basis of a BertModel .* encoder\.layer\.1\.adapter"):
        permute_basis(model, seed=0)
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())


@pytest.mark.parametrize(
    ("pooling", "following", "culprit"),
    [("max", None, "pooling max"), ("mean", modules.LayerNorm(32), "module LayerNorm")],
)
def test_models_that_would_change_their_function_are_refused(
    pooling, following, culprit, checkpoints
):
    parts = [*load_model(checkpoints["bert"]), modules.Pooling(32, pooling)]
    if following is not None:
        parts.append(following)
    with pytest.raises(ModelError, match=culprit):
        permute_basis(SentenceTransformer(modules=parts, device="cpu"), seed=0)
