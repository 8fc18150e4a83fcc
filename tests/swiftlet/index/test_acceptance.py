import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import swiftlet
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.errors import EmbeddingSpaceMismatch
from swiftlet.index.building.adopt import adopt
from swiftlet.manifest import read_manifest
from swiftlet.types import Embeddings


@pytest.fixture(scope="module")
def texts(small_documents) -> list[str]:
    return [f"{each.title}\n{each.text}" for each in small_documents]


@pytest.fixture(scope="module")
def vectors(texts, shipped_encoder) -> Embeddings:
    return shipped_encoder.encode(texts)


@pytest.fixture(scope="module")
def adopted(small_documents, vectors, tmp_path_factory) -> Path:
    """An index of vectors whose model it does not know; read only."""
    out = tmp_path_factory.mktemp("adopted") / "index"
    adopt(vectors, out, texts=small_documents, factory="Flat")
    return out


@pytest.mark.parametrize("kind", ["built", "adopted"])
def test_an_encoder_that_reproduces_the_vectors_of_an_index_is_accepted(
    kind, request, shipped_encoder
):
    index = request.getfixturevalue("small_index" if kind == "built" else kind)
    # As of another precision.
    with swiftlet.open(index, encoder=lambda texts: shipped_encoder.encode(texts) + 0.001) as found:
        assert found.encoder.embedding_space == read_manifest(index).embedding_space
        assert found.search("who dances for honey?").hits[0].document_id.startswith("bees")
        assert not found.refresh()


def test_an_exported_encoder_is_tried_too(small_index, altered_encoder, shipped_encoder):
    details = read_manifest(DEFAULT_ENCODER).details
    encoder = altered_encoder(embedding_space="0" * 64, details={**details, "name": "a copy"})
    with swiftlet.open(small_index, encoder=encoder) as found:
        assert found.encoder_manifest.fingerprint == read_manifest(encoder).fingerprint
        assert found.search("lava").hits[0].document_id.startswith("volcano")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda encode, texts: encode(texts)[:, ::-1], "it is another model, or pools"),
        (lambda encode, texts: encode([f"note: {each}" for each in texts]), "it is near: perhaps"),
        (lambda encode, texts: encode([each[:300] for each in texts]), "only long passages differ"),
    ],
)
def test_an_encoder_that_gives_other_vectors_is_refused_with_the_cosines(
    adopted, shipped_encoder, change, reason
):
    refused = rf"a mean cosine of -?\d\.\d+, .* lowest one of -?\d\.\d+, .* expected; {reason}"
    with pytest.raises(EmbeddingSpaceMismatch, match=refused):
        swiftlet.open(adopted, encoder=lambda texts: change(shipped_encoder.encode, texts))
    with pytest.raises(EmbeddingSpaceMismatch, match="gives 3 numbers, the index has 384: "):
        swiftlet.open(adopted, encoder=lambda texts: np.ones((len(texts), 3)))


def test_documents_are_added_to_vectors_by_an_encoder_that_reproduces_them(
    adopted, shipped_encoder, tmp_path
):
    adopted = Path(shutil.copytree(adopted, tmp_path / "index"))
    row = [{"id": "new", "title": "", "text": "A kettle boils water for tea. " * 100}]
    with swiftlet.write(adopted, encoder=shipped_encoder.encode) as writer:
        writer.put(row)
    with swiftlet.open(adopted, encoder=DEFAULT_ENCODER) as searcher:
        assert searcher.search("tea kettle", mode="dense").hits[0].document_id == "new"
    with (
        swiftlet.write(adopted, encoder=lambda texts: -shipped_encoder.encode(texts)) as writer,
        pytest.raises(EmbeddingSpaceMismatch, match=r"a mean cosine of -1.000,"),
    ):
        writer.put(row)


def test_embeddings_keep_their_lengths_where_an_index_compares_inner_products(
    small_documents, texts, vectors, tmp_path, shipped_encoder
):
    def embed(texts: list[str]) -> Any:
        return 3 * shipped_encoder.encode(texts)

    tea = "A kettle boils water for tea."
    index = tmp_path / "index"
    settings: Any = {"metric": "inner_product", "factory": "Flat"}
    adopt(3 * vectors, index, texts=small_documents, **settings)
    with swiftlet.write(index, encoder=embed) as writer:
        writer.put([{"id": "new", "title": "", "text": tea}])
    with swiftlet.open(index, encoder=embed) as searcher:
        for text, document_id in (
            (texts[0], "volcano-1"),
            ("A kettle boils water for tea.", "new"),
        ):
            (hit,) = searcher.search(text, 1, mode="dense").hits
            assert hit.document_id == document_id
            assert hit.score == pytest.approx(9, abs=0.01)
