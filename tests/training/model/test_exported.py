"""Encoders that were exported, and are trained further."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from export.encoder_directory import export_encoder
from swiftlet.encoders import DEFAULT_QUERY_ENCODER
from swiftlet.encoders.encoder import CANONICAL_FILE, OnnxEncoder
from swiftlet.manifest import change_details
from tests.checkpoints import WORDS
from training.model.errors import ModelError
from training.model.towers import Tower, TowerSettings

TEXTS = ["kalo mine", "pura soti kami lolo neka", "lolo", " ".join(WORDS)]


def embeddings(tower: Tower, texts: list[str]) -> np.ndarray:
    with torch.no_grad():
        return normalize(tower(tower.tokenise(texts)), dim=1).numpy()


@pytest.fixture(scope="module")
def int8(checkpoints, tmp_path_factory) -> Path:
    """A BERT whose pooling is its first token, in int8 alone; read only."""
    out = tmp_path_factory.mktemp("int8") / "encoder"
    export_encoder(checkpoints["bert"], out, pooling="cls", precisions=["int8"])
    return out


@pytest.mark.parametrize(
    ("exported", "pooling", "least"), [("tiny_encoder", "mean", 0.999999), ("int8", "cls", 0.99)]
)
def test_a_bert_is_the_model_that_was_exported(exported, pooling, least, checkpoints, request):
    encoder, source = request.getfixturevalue(exported), checkpoints["bert"]
    tower = Tower.load(TowerSettings(model=encoder, dropout=0.0))
    original = Tower.load(TowerSettings(model=source, pooling=pooling, dropout=0.0))
    assert tower.max_tokens == original.max_tokens
    found = embeddings(tower, TEXTS)
    assert (found * embeddings(original, TEXTS)).sum(axis=1).min() > least
    assert tower.tokenise(TEXTS)["input_ids"].tolist() == (
        original.tokenise(TEXTS)["input_ids"].tolist()
    )


def test_the_query_encoder_that_ships_is_one_with_its_outlier_neurons():
    tower = Tower.load(TowerSettings(model=DEFAULT_QUERY_ENCODER)).eval()
    texts = json.loads((DEFAULT_QUERY_ENCODER / CANONICAL_FILE).read_text("utf-8"))["texts"]
    expected = OnnxEncoder.load(DEFAULT_QUERY_ENCODER).encode(texts)
    assert (embeddings(tower, texts) * expected).sum(axis=1).min() > 0.999


def test_it_is_saved_and_loaded_like_any_other(int8, tmp_path):
    tower = Tower.load(TowerSettings(model=int8, layers=(1,), dropout=0.1))
    tower.save(tmp_path / "again")
    again = Tower.load(TowerSettings(model=tmp_path / "again"))
    np.testing.assert_allclose(
        embeddings(again.eval(), TEXTS), embeddings(tower.eval(), TEXTS), atol=1e-6
    )
    assert again.max_tokens == tower.max_tokens


@pytest.mark.parametrize("architecture", ["roberta", "mpnet"])  # as a BERT, and unlike it
def test_another_architecture_is_refused(checkpoints, tmp_path, architecture):
    source = checkpoints[architecture]
    export_encoder(source, tmp_path / "encoder", pooling="mean", precisions=["fp32"])
    with pytest.raises(ModelError, match="neither a look-up table nor a BERT in fp32 or int8"):
        Tower.load(TowerSettings(model=tmp_path / "encoder"))


def test_weights_that_are_only_in_int8_static_are_refused(tiny_encoder, tmp_path):
    out = Path(shutil.copytree(tiny_encoder, tmp_path / "encoder"))
    change_details(out, {"precisions": ["int8_static"]})
    with pytest.raises(ModelError, match="name the model that it was exported from"):
        Tower.load(TowerSettings(model=out))
