"""The poolings, in torch, on disk and in ONNX."""

import numpy as np
import pytest
import torch

import swiftlet
from export.encoder_directory import export_encoder
from export.source import load_source
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.errors import InvalidArgumentError
from tests.runs import recipe, run
from training.errors import RecipeError
from training.model.fingerprint import embedding_space
from training.model.poolings import POOLINGS
from training.model.poolings.first_tokens import FirstTokensPooling
from training.model.towers import Tower, TowerSettings

TEXTS = ["", "kalo", "kalo mine pura soti", "Rasé, 12 (mi-lo)!", "tira " * 90]


@pytest.mark.parametrize("first_tokens", [1, 2, 9])
def test_a_text_has_the_outputs_of_its_first_tokens_wherever_the_padding_stands(first_tokens):
    generator = torch.Generator().manual_seed(1)
    embeddings = torch.rand(3, 5, 4, generator=generator)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 1, 1, 1]])
    features = {"token_embeddings": embeddings, "attention_mask": mask}
    vectors = FirstTokensPooling(4, first_tokens)(features)["sentence_embedding"]
    assert vectors.shape == (3, first_tokens, 4)
    for row, (start, end) in enumerate([(0, 5), (0, 3), (2, 5)]):
        # The first stands for those that are missing.
        kept = [*range(start, end)[:first_tokens], *[start] * max(0, first_tokens - (end - start))]
        torch.testing.assert_close(vectors[row], embeddings[row, kept])


@pytest.fixture(scope="module")
def saved(checkpoints, tmp_path_factory):
    """A saved encoder that gives a text three vectors."""
    folder = tmp_path_factory.mktemp("saved") / "first"
    settings = TowerSettings(checkpoints["bert"], pooling="first_tokens", first_tokens=3)
    Tower.load(settings).save(folder)
    return folder


def test_a_module_of_the_same_name_beside_the_model_is_not_run(saved):
    for place in (saved, saved / "1_FirstTokensPooling"):
        (place / "training.py").write_text("raise SystemExit('code of the model ran')")
        (place / "first_tokens.py").write_text("raise SystemExit('code of the model ran')")
    assert type(load_source(saved).model[1]) is FirstTokensPooling


def test_onnx_and_torch_give_the_same(saved, tmp_path):
    manifest = export_encoder(saved, tmp_path / "encoder")
    assert manifest.details["pooling"] == "first_3_tokens"
    encoder = OnnxEncoder.load(tmp_path / "encoder", precision="fp32")
    model = load_source(saved).model
    expected = np.stack([model.encode([t], show_progress_bar=False)[0] for t in TEXTS])
    assert expected.shape == (len(TEXTS), 3, encoder.dim)
    np.testing.assert_allclose(np.linalg.norm(expected, axis=2), 1, atol=1e-5)
    assert (manifest.vectors, encoder.width) == (3, 3 * encoder.dim)
    found = encoder.encode(TEXTS).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_another_number_of_tokens_is_another_embedding_space(checkpoints):
    spaces = {
        embedding_space(
            Tower.load(
                TowerSettings(checkpoints["bert"], pooling=pooling, first_tokens=number)
            ).encoder
        )
        for pooling, number in [("first_tokens", 3), ("first_tokens", 4), ("mean", 4)]
    }
    assert len(spaces) == 3


def test_one_line_registers_a_pooling_of_sentence_transformers(checkpoints, tmp_path, monkeypatch):
    name = "mean_sqrt_len_tokens"
    monkeypatch.setitem(POOLINGS, name, None)
    Tower.load(TowerSettings(checkpoints["bert"], pooling=name)).save(tmp_path / "saved")
    manifest = export_encoder(tmp_path / "saved", tmp_path / "encoder", precisions=["fp32"])
    assert manifest.details["pooling"] == name


def test_one_line_registers_a_pooling_for_training_exporting_and_searching(
    checkpoints, collection, tmp_path, monkeypatch
):
    name, models = "largest", (checkpoints["roberta"], checkpoints["bert"])
    towers = {f"{tower}_encoder__pooling": name for tower in ("query", "document")}
    lengths = {"alignment__max_epochs": 0.5, "fine_tuning__epochs": 0.5}
    with pytest.raises(RecipeError, match=f"query_encoder.pooling: there is no pooling '{name}'"):
        recipe(collection, *models, **towers)
    monkeypatch.setitem(POOLINGS, name, f"{__package__}.max_pooling:MaxPooling")
    run(recipe(collection, *models, **towers, **lengths), tmp_path / "run")
    for encoder in ("query_encoder", "document_encoder"):
        manifest = export_encoder(
            tmp_path / "run" / encoder, tmp_path / encoder, precisions=["fp32"]
        )
        assert manifest.details["pooling"] == name
    document_encoder = tmp_path / "document_encoder"
    swiftlet.build(collection, tmp_path / "index", encoder=document_encoder, truncate=True)
    with swiftlet.open(tmp_path / "index", encoder=tmp_path / "query_encoder") as searcher:
        assert len(searcher.search("kalo mine", 5)) == 5
    manifest = export_encoder(models[1], tmp_path / "plain", pooling=name, precisions=["fp32"])
    assert manifest.details["pooling"] == name


def test_a_pooling_with_a_setting_is_only_exported_with_the_model_that_defines_it(
    checkpoints, tmp_path
):
    with pytest.raises(InvalidArgumentError) as caught:
        export_encoder(checkpoints["bert"], tmp_path / "encoder", pooling="first_tokens")
    assert str(caught.value) == (
        "pooling 'first_tokens' needs the setting first_tokens, which only training takes"
    )
