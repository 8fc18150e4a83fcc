"""The shipped query encoders search indexes of the shipped document encoder."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from swiftlet.cli.main import app
from swiftlet.encoders import (
    DEFAULT_ENCODER,
    DEFAULT_QUERY_ENCODER,
    LOOKUP_QUERY_ENCODER,
    find,
)
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.manifest import load_manifest
from swiftlet.search.searcher import Searcher

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


# The least mean and the least cosine with the document encoder, for QUERIES.
SHIPPED = {DEFAULT_QUERY_ENCODER: (0.9, 0.8), LOOKUP_QUERY_ENCODER: (0.75, 0.5)}


@pytest.fixture(scope="module", params=SHIPPED, ids=lambda path: path.name)
def directory(request) -> Path:
    found: Path = request.param
    return found


@pytest.fixture(scope="module")
def query_encoder(directory) -> OnnxEncoder:
    return OnnxEncoder.load(directory)


@pytest.fixture
def searcher(small_index) -> Iterator[Searcher]:
    searcher = Searcher.open(small_index, DEFAULT_QUERY_ENCODER)
    yield searcher
    searcher.close()


def test_it_embeds_into_the_space_of_the_document_encoder(directory, query_encoder):
    whole = OnnxEncoder.load(DEFAULT_ENCODER)
    assert query_encoder.embedding_space == whole.embedding_space
    ids = [id_ for id_ in whole.tokenise(QUERIES[0]) if id_ in query_encoder.tokenise(QUERIES[0])]
    assert len(ids) >= len(QUERIES[0].split())
    cosines = (query_encoder.encode(QUERIES) * whole.encode(QUERIES)).sum(axis=1)
    mean, least = SHIPPED[directory]
    assert cosines.mean() > mean
    assert cosines.min() > least


def test_it_is_found_by_its_name(directory, small_index, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert find(Path(directory.name)) == directory
    assert find(Path("elsewhere") / directory.name) == Path("elsewhere") / directory.name
    found = CliRunner().invoke(
        app, ["search", str(small_index), QUERIES[0], "--encoder", directory.name]
    )
    assert found.exit_code == 0, found.output
    (tmp_path / directory.name).mkdir()  # a directory of this name comes first
    assert find(Path(directory.name)) == Path(directory.name)


def test_queries_are_encoded_by_it_by_default(small_index, searcher):
    result = CliRunner().invoke(app, ["search", str(small_index), QUERIES[0]])
    assert result.exit_code == 0
    best = searcher.search(QUERIES[0], 1).hits[0]
    assert f"{best.score:.4f}" in result.output
    assert best.document_id in result.output


def test_its_files_fit_a_repository_and_it_has_a_model_card(directory, query_encoder):
    manifest = load_manifest(directory, "encoder")
    sizes = {entry.name: entry.stat().st_size for entry in directory.iterdir()}
    assert sizes.keys() == {
        "manifest.json", "model_int8.onnx", "tokenizer.json", "canonical.json", "README.md"
    }  # fmt: skip
    assert sum(sizes.values()) < 17e6
    card = (directory / "README.md").read_text("utf-8")
    assert query_encoder.embedding_space in card
    assert all(word in card for word in ("Apache-2.0", "non-commercial", "WordNet"))
    # No path of the machine that made it.
    assert "/" not in json.dumps(manifest.details["source"])
