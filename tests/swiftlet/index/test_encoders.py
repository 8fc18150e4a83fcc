"""An index with a query encoder of its own."""

import shutil
import subprocess
from pathlib import Path

import pytest

import swiftlet
from swiftlet.encoders import (
    DEFAULT_ENCODER,
    DEFAULT_QUERY_ENCODER,
    LOOKUP_QUERY_ENCODER,
    QUERY_ENCODER_FOLDER,
)
from swiftlet.errors import CorruptArtefactError
from swiftlet.index.query_encoder import put_query_encoder
from swiftlet.manifest import read_manifest

ROWS = [{"id": f"{number}", "text": f"the text of number {number}"} for number in range(40)]
NAME = {"query_encoder": "of its own"}


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("built") / "index"
    manifest = swiftlet.build(
        ROWS,
        out,
        finish=lambda artefact, _: put_query_encoder(LOOKUP_QUERY_ENCODER, artefact, NAME),
    )
    assert manifest == read_manifest(out)
    return out


def encoder_of(index: Path, **options: Path) -> str:
    with swiftlet.open(index, **options) as searcher:
        assert searcher.search("number 7", 1).hits
        return str(searcher.encoder_manifest.details["name"])


def test_searches_use_it_unless_another_one_is_named(built, small_index):
    assert encoder_of(built) == LOOKUP_QUERY_ENCODER.name
    assert encoder_of(built, encoder=DEFAULT_ENCODER) == DEFAULT_ENCODER.name
    assert encoder_of(small_index) == DEFAULT_QUERY_ENCODER.name


def test_changes_merges_and_snapshots_keep_it(index, tmp_path):
    with swiftlet.write(index) as writer:
        writer.put([{"id": "new", "text": "tea"}])
        assert writer.compact()
    assert read_manifest(index).details["query_encoder"] == "of its own"
    swiftlet.snapshot(index, tmp_path / "index.tar")
    shutil.rmtree(index)
    subprocess.run(["tar", "-xf", tmp_path / "index.tar", "-C", tmp_path], check=True)
    assert encoder_of(index) == LOOKUP_QUERY_ENCODER.name


def test_it_is_verified_with_the_index(index):
    (index / QUERY_ENCODER_FOLDER / "tokenizer.json").unlink()
    with pytest.raises(CorruptArtefactError, match=r"query_encoder/tokenizer\.json is missing"):
        swiftlet.open(index, encoder=DEFAULT_ENCODER)
