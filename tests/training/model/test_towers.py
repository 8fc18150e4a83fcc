"""Towers of all architectures compute the same as their checkpoint, and are saved completely."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules

from export.encoder_directory import export_encoder
from export.source import load_source
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.errors import InvalidArgumentError, RetrievalError
from tests.checkpoints import ARCHITECTURES
from training.companions.permutation import Permutation, permute
from training.model.errors import ModelError
from training.model.fingerprint import embedding_space
from training.model.quiet import quiet
from training.model.towers import Tower, TowerSettings

TEXTS = ["", "kalo", "kalo mine\tpura soti", "Rasé, 12 (mi-lo)!", "tira " * 90]


def outputs(tower: Tower) -> torch.Tensor:
    with torch.no_grad():
        return tower.eval()(tower.tokenise(TEXTS))


def refused(kind: type[RetrievalError], model: str | Path, **settings) -> str:
    with pytest.raises(kind) as caught:
        Tower.load(TowerSettings(model, **{"pooling": "mean", **settings}))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def bert(checkpoints, tmp_path) -> Path:
    """A plain checkpoint of one's own, to break."""
    return Path(shutil.copytree(checkpoints["bert"], tmp_path / "model"))


@pytest.fixture(scope="module")
def encoder_directory(checkpoints, tmp_path_factory) -> Path:
    """A Sentence Transformers directory with CLS pooling, Dense and Normalize."""
    folder = tmp_path_factory.mktemp("models") / "encoder"
    torch.manual_seed(8)
    parts = [
        modules.Transformer(str(checkpoints["bert"]), max_seq_length=20),
        modules.Pooling(32, "cls"),
        modules.Dense(32, 16, activation_function=torch.nn.Tanh()),
        modules.Normalize(),
    ]
    with quiet():
        SentenceTransformer(modules=parts, device="cpu").save(str(folder))
    return folder


# Outputs


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(("layers", "depth"), [(None, 2), ((0, 1), 2), ((0,), 1), ((), 0)])
def test_kept_layers_compute_the_same_as_in_the_whole_model(
    architecture, layers, depth, checkpoints
):
    tower = Tower.load(TowerSettings(checkpoints[architecture], layers, pooling="mean"))
    features = tower.tokenise(TEXTS)
    whole = transformers.AutoModel.from_pretrained(checkpoints[architecture]).eval()
    with torch.no_grad():
        tokens = whole(**features, output_hidden_states=True).hidden_states[depth]
    mask = features["attention_mask"].unsqueeze(-1)
    expected = (tokens * mask).sum(dim=1) / mask.sum(dim=1)
    torch.testing.assert_close(outputs(tower), expected, atol=1e-5, rtol=0)
    assert tower.width == expected.shape[1] == 32
    assert tower.encoder[0].auto_model.config.num_hidden_layers == depth


def test_layers_come_in_the_order_given(checkpoints):
    folder = checkpoints["roberta"]
    tower = Tower.load(TowerSettings(folder, (1, 0), pooling="mean"))
    whole = transformers.AutoModel.from_pretrained(folder)
    first, second = tower.encoder[0].auto_model.encoder.layer
    for kept, original in [(first, whole.encoder.layer[1]), (second, whole.encoder.layer[0])]:
        for weight, expected in zip(kept.parameters(), original.parameters(), strict=True):
            assert torch.equal(weight, expected)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_weight_gets_a_gradient(architecture, checkpoints):
    tower = Tower.load(TowerSettings(checkpoints[architecture], (1,), pooling="mean"))
    tower(tower.tokenise(TEXTS)).square().sum().backward()
    without = [name for name, weight in tower.named_parameters() if weight.grad is None]
    assert without == []


def test_a_directorys_own_pooling_and_dense_are_kept_but_not_its_normalisation(encoder_directory):
    tower = Tower.load(TowerSettings(encoder_directory))
    assert (tower.width, tower.max_tokens) == (16, 20)
    with quiet():
        whole = SentenceTransformer(str(encoder_directory), device="cpu")
    expected = whole.encode([text.replace("\t", " ") for text in TEXTS], show_progress_bar=False)
    embeddings = outputs(tower)
    lengths = embeddings.norm(dim=1, keepdim=True)
    np.testing.assert_allclose(embeddings / lengths, expected, atol=1e-5)
    assert not np.allclose(lengths, 1, atol=0.01)


def test_another_pooling_takes_the_place_of_a_directorys_own(encoder_directory):
    own = Tower.load(TowerSettings(encoder_directory))
    mean = Tower.load(TowerSettings(encoder_directory, pooling="mean"))
    assert [type(part).__name__ for part in mean.encoder] == ["Transformer", "Pooling", "Dense"]
    assert not torch.allclose(outputs(mean), outputs(own), atol=1e-3)


def test_dropout_is_that_of_the_settings(checkpoints):
    for architecture, folder in checkpoints.items():
        towers = [Tower.load(TowerSettings(folder, pooling="mean", dropout=p)) for p in (0, 0.5)]
        for tower, varies in zip(towers, [False, True], strict=True):
            features = tower.train().tokenise(TEXTS)
            same = torch.equal(tower(features), tower(features))
            assert same is not varies, architecture
        rates = {part.p for part in towers[1].modules() if isinstance(part, torch.nn.Dropout)}
        assert rates == {0.5}, architecture


def test_random_weights_are_fresh_ones_of_the_same_shapes(encoder_directory):
    trained = Tower.load(TowerSettings(encoder_directory))
    fresh = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        fresh.append(Tower.load(TowerSettings(encoder_directory, random_weights=True)))
    shapes = {name: weight.shape for name, weight in trained.named_parameters()}
    assert {name: weight.shape for name, weight in fresh[0].named_parameters()} == shapes
    for name, weight in fresh[0].named_parameters():
        assert torch.equal(weight, fresh[1].get_parameter(name))
        if weight.ndim == 2:
            for other in (trained, fresh[2]):
                assert not torch.allclose(weight, other.get_parameter(name), atol=1e-3), name


def test_random_weights_fill_the_layers_that_are_kept(checkpoints):
    settings = TowerSettings(checkpoints["mpnet"], (1,), pooling="mean", random_weights=True)
    tower = Tower.load(settings)
    assert len(tower.encoder[0].auto_model.encoder.layer) == 1
    assert outputs(tower).isfinite().all()


def test_attention_is_the_fastest_that_the_architecture_has(checkpoints):
    tower = Tower.load(TowerSettings(checkpoints["bert"], pooling="mean"))
    assert tower.encoder[0].auto_model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("architecture", ["bert", "roberta", "distilbert", "electra"])
def test_gradient_checkpointing_leaves_gradients_as_they_are(architecture, checkpoints):
    settings = TowerSettings(checkpoints[architecture], pooling="cls", dropout=0)
    gradients = []
    for enabled in (False, True):
        tower = Tower.load(settings).train()
        tower.set_gradient_checkpointing(enabled)
        assert tower.encoder[0].auto_model.is_gradient_checkpointing is enabled
        tower(tower.tokenise(TEXTS)).square().sum().backward()
        gradients.append([weight.grad for weight in tower.parameters()])
    for plain, checkpointed in zip(*gradients, strict=True):
        torch.testing.assert_close(checkpointed, plain)


# How it reads text


def test_texts_are_cleaned_and_truncated_as_indexing_and_serving_do(checkpoints, tmp_path):
    for folder in checkpoints.values():
        tower = Tower.load(TowerSettings(folder, pooling="mean", max_tokens=9))
        tower.save(tmp_path / folder.name)
        (tmp_path / "tokenizer.json").write_text(load_source(tmp_path / folder.name).tokenizer_json)
        shared = Tokenizer.load(tmp_path / "tokenizer.json")
        texts = [*TEXTS, "  kalo\x00\x85mi\ud800 \n"]
        features = tower.tokenise(texts)
        assert features["input_ids"].shape == features["attention_mask"].shape == (6, 9)
        for ids, mask, text in zip(*features.values(), texts, strict=True):
            assert ids[mask.bool()].tolist() == shared.encode(text)


def test_padding_changes_no_output(checkpoints):
    for folder in checkpoints.values():
        tower = Tower.load(TowerSettings(folder, pooling="mean")).eval()
        together = outputs(tower)
        with torch.no_grad():
            for row, text in enumerate(TEXTS):
                alone = tower(tower.tokenise([text]))[0]
                torch.testing.assert_close(together[row], alone, atol=1e-5, rtol=0)


# Saving


@pytest.mark.parametrize(
    ("architecture", "layers"), [*((name, (1,)) for name in ARCHITECTURES), ("mpnet", ())]
)
def test_a_saved_tower_gives_the_same_embeddings_everywhere(
    architecture, layers, checkpoints, tmp_path
):
    settings = TowerSettings(checkpoints[architecture], layers, pooling="mean", max_tokens=11)
    tower = Tower.load(settings)
    torch.manual_seed(3)
    projection = torch.nn.Linear(32, 16)
    tower.save(tmp_path / "saved", projection)
    with torch.no_grad():
        expected = torch.nn.functional.normalize(projection(outputs(tower)))
    source = load_source(tmp_path / "saved")
    assert (source.max_tokens, source.dim, source.pooling) == (11, 16, "mean")
    assert embedding_space(source.model) == embedding_space(tower.with_projection(projection))
    with quiet():
        anywhere = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    texts = TEXTS
    for model in (source.model, anywhere):
        names = [type(part).__name__ for part in model]
        assert names == ["Transformer", "Pooling", "Dense", "Normalize"]
        np.testing.assert_allclose(
            model.encode(texts, show_progress_bar=False), expected, atol=1e-5
        )
    export_encoder(tmp_path / "saved", tmp_path / "onnx", precisions=["fp32"])
    onnx = OnnxEncoder.load(tmp_path / "onnx")
    np.testing.assert_allclose(onnx.encode(TEXTS), expected, atol=2e-5)


def test_a_saved_tower_becomes_a_tower_again(encoder_directory, tmp_path):
    tower = Tower.load(TowerSettings(encoder_directory, layers=(1,)))
    permute(tower, Permutation(permute_basis=4))
    tower.save(tmp_path / "saved")
    again = Tower.load(TowerSettings(tmp_path / "saved"))
    assert again.max_tokens == tower.max_tokens == 20
    torch.testing.assert_close(outputs(again), outputs(tower))


def test_saving_leaves_the_tower_as_it_was_and_names_no_path(checkpoints, tmp_path):
    tower = Tower.load(TowerSettings(checkpoints["bert"], pooling="cls"))
    before = outputs(tower)
    tower.save(tmp_path / "saved", torch.nn.Linear(32, 8, bias=False))
    assert torch.equal(outputs(tower), before)
    assert len(tower.encoder) == 2
    for path in (tmp_path / "saved").rglob("*.json"):
        assert str(checkpoints["bert"]) not in path.read_text("utf-8"), path


# Refusals


def test_a_plain_checkpoint_needs_a_pooling(bert):
    message = refused(InvalidArgumentError, bert, pooling=None)
    assert message.endswith("choose one of cls, mean, max, weightedmean, lasttoken, first_tokens")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": (0, 2)}, "layer 2 does not exist: {} has layers 0 to 1"),
        ({"layers": (-1,)}, "layer -1 does not exist: {} has layers 0 to 1"),
        ({"layers": (1, 1)}, "layers [1, 1] name layer 1 twice"),
    ],
)
def test_the_error_for_a_setting_out_of_range_names_the_bound(settings, message, bert):
    assert refused(InvalidArgumentError, bert, **settings) == message.format(bert)


def test_no_layers_and_the_first_token_alone_are_refused_together(bert):
    message = refused(InvalidArgumentError, bert, layers=(), pooling="cls")
    assert "the first token has the same output in every text" in message


def test_a_model_without_a_list_of_layers_cannot_be_cut(bert):
    small = {"embedding_size": 8, "hidden_size": 8, "intermediate_size": 8}
    config = transformers.AlbertConfig(
        vocab_size=200, num_attention_heads=2, num_hidden_layers=3, **small
    )
    with quiet():
        transformers.AlbertModel(config).save_pretrained(bert)
    assert "AlbertModel has no list of its 3 layers" in refused(ModelError, bert, layers=(0,))


def test_gradient_checkpointing_that_is_not_supported(checkpoints):
    tower = Tower.load(TowerSettings(checkpoints["mpnet"], pooling="mean"))
    if tower.encoder[0].auto_model.supports_gradient_checkpointing:
        pytest.skip("this version of transformers supports it")
    with pytest.raises(ModelError, match="MPNetModel does not support gradient checkpointing"):
        tower.set_gradient_checkpointing(True)


PAD = {"pad_token": "[PAD]"}


def save_tokenizer(folder: Path, vocabulary: dict[str, int], **special: str) -> None:
    """Give a checkpoint a tokenizer with words alone."""
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    (folder / "vocab.txt").unlink()
    with quiet():
        transformers.PreTrainedTokenizerFast(
            tokenizer_object=backend, model_max_length=24, **special
        ).save_pretrained(folder)


@pytest.mark.parametrize(
    ("vocabulary", "special", "pooling", "message"),
    [
        (("kalo", "[UNK]"), {}, "mean", "the tokenizer of {} has no padding token"),
        (("kalo", "[PAD]"), PAD, "mean", "the tokenizer of {} has no token for unknown characters"),
        (
            ("kalo", "[PAD]", "[UNK]"),
            PAD,
            "cls",
            "the tokenizer of {} adds no special token before",
        ),
    ],
)
def test_a_tokenizer_without_a_needed_token(vocabulary, special, pooling, message, bert):
    save_tokenizer(bert, {word: number for number, word in enumerate(vocabulary)}, **special)
    assert refused(ModelError, bert, pooling=pooling).startswith(message.format(bert))


def test_a_tokenizer_with_more_tokens_than_the_model_has_embeddings(bert):
    with quiet():
        tokenizer = transformers.AutoTokenizer.from_pretrained(bert)
        size = len(tokenizer)
        tokenizer.add_tokens(["zuzu"])
        tokenizer.save_pretrained(bert)
    assert refused(ModelError, bert) == (
        f"the tokenizer of {bert} gives 'zuzu' the number {size}, but the model has embeddings for "
        f"the numbers 0 to {size - 1}"
    )


def test_code_that_comes_with_a_model_runs_only_if_it_is_trusted(bert, tmp_path, monkeypatch):
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "hf"))
    (bert / "homemade.py").write_text(
        "from pathlib import Path\n"
        "from transformers import BertConfig, BertModel\n"
        f"Path({str(tmp_path / 'ran')!r}).touch()\n"
        "class HomemadeConfig(BertConfig):\n    model_type = 'homemade'\n"
        "class HomemadeModel(BertModel):\n    config_class = HomemadeConfig\n"
    )
    config = json.loads((bert / "config.json").read_text())
    config |= {
        "model_type": "homemade",
        "auto_map": {
            "AutoConfig": "homemade.HomemadeConfig",
            "AutoModel": "homemade.HomemadeModel",
        },
    }
    (bert / "config.json").write_text(json.dumps(config))
    assert "only runs with trust_remote_code" in refused(ModelError, bert)
    assert not (tmp_path / "ran").exists()
    tower = Tower.load(TowerSettings(bert, pooling="mean", trust_remote_code=True))
    assert type(tower.encoder[0].auto_model).__name__ == "HomemadeModel"
    assert (tmp_path / "ran").exists()
