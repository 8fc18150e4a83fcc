"""`--dim` keeps the first numbers of each embedding."""

from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from export.encoder_directory import export_encoder
from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.errors import EmbeddingSpaceMismatch, InvalidArgumentError
from swiftlet.search.searcher import Searcher
from tests.command_line import swiftlet
from training.model.quiet import quiet
from training.model.towers import Tower, TowerSettings

TEXTS = ["kalo", "mine pura soti", "lolo tira kalo pura"]


@pytest.fixture(scope="module")
def model(checkpoints, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("matryoshka") / "model"
    Tower.load(TowerSettings(model=checkpoints["bert"], pooling="mean")).save(folder)
    return folder


@pytest.mark.parametrize("dim", [1, 8, 32])
def test_the_first_numbers_are_kept_at_unit_length(dim, model, tmp_path):
    export_encoder(model, tmp_path / "encoder", dim=dim)
    with quiet():
        whole = SentenceTransformer(str(model), device="cpu", truncate_dim=dim)
        expected = whole.encode(TEXTS, normalize_embeddings=True, show_progress_bar=False)
    found = OnnxEncoder.load(tmp_path / "encoder", precision="fp32").encode(TEXTS)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    int8 = OnnxEncoder.load(tmp_path / "encoder", precision="int8").encode(TEXTS)
    assert (int8 * expected).sum(axis=1).min() > 0.97


def test_both_sides_are_shortened_alike(model, tmp_path):
    for dim in (8, 16):
        out = "--out", tmp_path / f"{dim}", "--precision", "fp32", "--dim", dim
        assert swiftlet("export", model, *out).exit_code == 0
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(f'{{"_id": "{n}", "text": "{t}"}}\n' for n, t in enumerate(TEXTS)))
    built = swiftlet(
        "index", corpus, "--out", tmp_path / "index", "--encoder", tmp_path / "8",
        "--passage-tokens", "20", "--overlap-tokens", "0",
    )  # fmt: skip
    assert built.exit_code == 0, built.output
    with Searcher.open(tmp_path / "index", tmp_path / "8") as searcher:
        assert searcher.search(TEXTS[1], 1, mode="dense")[0].document_id == "1"
    with pytest.raises(EmbeddingSpaceMismatch):
        Searcher.open(tmp_path / "index", tmp_path / "16")


@pytest.mark.parametrize(("dim", "bounds"), [(0, "at least 1"), (33, "1 to 32")])
def test_a_dim_that_the_model_does_not_have_is_refused(dim, bounds, model, tmp_path):
    with pytest.raises(InvalidArgumentError, match=f"dim is {dim}, but {bounds} is expected"):
        export_encoder(model, tmp_path / "encoder", dim=dim)
    with pytest.raises(InvalidArgumentError, match="is a look-up encoder or has several vectors"):
        export_encoder(LOOKUP_QUERY_ENCODER, tmp_path / "encoder", dim=8)
