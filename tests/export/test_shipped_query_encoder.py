"""The shipped query encoder searches indexes of the shipped document encoder."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from swiftlet.cli.main import app
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER
from swiftlet.retrieval.encoder import OnnxEncoder
from swiftlet.retrieval.manifest import load_manifest
from swiftlet.retrieval.searcher import Searcher

QUERIES = [
    "who invented the telephone",
    "side effects of ibuprofen",
    "how long to boil an egg",
    "capital of mongolia",
    "python list comprehension with condition",
    "is there life on mars",
    "What was the cause of the First World War?",
    "cheap flights",
]


@pytest.fixture(scope="module")
def query_encoder() -> OnnxEncoder:
    return OnnxEncoder.load(DEFAULT_QUERY_ENCODER)


@pytest.fixture
def searcher(small_index: Path) -> Iterator[Searcher]:
    searcher = Searcher.open(small_index, DEFAULT_QUERY_ENCODER)
    yield searcher
    searcher.close()


def test_it_embeds_into_the_space_of_the_document_encoder(query_encoder: OnnxEncoder) -> None:
    whole = OnnxEncoder.load(DEFAULT_ENCODER)
    assert query_encoder.embedding_space == whole.embedding_space
    assert (DEFAULT_QUERY_ENCODER / "tokenizer.json").read_text() == (
        DEFAULT_ENCODER / "tokenizer.json"
    ).read_text()
    cosines = (query_encoder.encode(QUERIES) * whole.encode(QUERIES)).sum(axis=1)
    assert cosines.mean() > 0.9
    assert cosines.min() > 0.8


def test_queries_are_encoded_by_it_by_default(small_index: Path, searcher: Searcher) -> None:
    result = CliRunner().invoke(app, ["search", str(small_index), QUERIES[0]])
    assert result.exit_code == 0
    best = searcher.search(QUERIES[0], 1).hits[0]
    assert f"{best.score:.4f}" in result.output
    assert best.document_id in result.output


def test_its_files_fit_a_repository_and_it_has_a_model_card(
    query_encoder: OnnxEncoder,
) -> None:
    manifest = load_manifest(DEFAULT_QUERY_ENCODER, "encoder")
    sizes = {entry.name: entry.stat().st_size for entry in DEFAULT_QUERY_ENCODER.iterdir()}
    assert sizes.keys() == {
        "manifest.json", "model_int8.onnx", "tokenizer.json", "canonical.json", "README.md"
    }  # fmt: skip
    assert sum(sizes.values()) < 17e6
    card = (DEFAULT_QUERY_ENCODER / "README.md").read_text("utf-8")
    assert query_encoder.embedding_space in card
    assert all(word in card for word in ("Apache-2.0", "non-commercial", "WordNet"))
    # No path of the machine that made it.
    assert "/" not in json.dumps(manifest.details["source"])
