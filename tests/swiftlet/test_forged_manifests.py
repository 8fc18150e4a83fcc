"""A manifest with any other value in any place is refused by an error of ours, or changes nothing.

The forger signs the manifest, so that its checksum is right.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import swiftlet
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.encoders.reranker import OnnxReranker
from swiftlet.index.directory import documents
from swiftlet.index.query_encoder import query_encoder_of
from swiftlet.manifest import FILE_NAME, _serialise
from tests.artefacts.answers import ENCODERS, FOLDER, INDEXES, QUERY, SEARCHES

ARTEFACTS = [*INDEXES, *ENCODERS, "reranker", "shards/1"]

# Values that a builder chooses: another one that is valid gives other answers, and rightly so.
CHOSEN = {
    "analysis", "change", "default_precision", "facets", "language", "prompts", "search_effort",
    "vectors", "weight",
}  # fmt: skip

Place = tuple[str | int, ...]


@cache
def manifest_of(name: str) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads((FOLDER / name / FILE_NAME).read_bytes())
    del fields["checksum"]
    return fields


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Where something stands: each leaf, and each object and list as a whole."""
    if place:
        yield place
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*place, key))


PLACES = [(name, place) for name in ARTEFACTS for place in places(manifest_of(name))]
HOSTILE = [0, 1, -1, 2, 1 << 31, 1 << 63, 10**30, 1e300, -0.0, "\0", "../x", "\ud800"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(HOSTILE),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return Path(shutil.copytree(FOLDER, tmp_path_factory.mktemp("forged") / "artefacts"))


def forge(directory: Path, name: str, place: Place, value: object) -> None:
    fields = json.loads(json.dumps(manifest_of(name)))
    inner = fields
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    (directory / FILE_NAME).write_bytes(_serialise(fields))


def used(folder: Path, name: str, directory: Path) -> list[Any]:
    """What an artefact answers when it is read in every way that costs little."""
    if name in INDEXES:
        query_encoder_of(directory)
        encoder = folder / INDEXES[name].get("encoder", "pieces/query_encoder")
        kinds = ("dense", "hybrid", "filter")
        with swiftlet.open(directory, encoder=encoder) as searcher:
            found = [searcher.search(QUERY, **SEARCHES[each]).hits for each in kinds]
            repr(searcher)
            searcher.facets()
        json.dumps([asdict(each) for each in documents(directory)])
        return [[(hit.document_id, hit.score) for hit in hits] for hits in found]
    if name in ENCODERS:
        return [*OnnxEncoder.load(directory, role="query").encode([QUERY])[0].tolist()]
    if name == "reranker":
        return [OnnxReranker.load(directory).score(QUERY, "salt")]
    shards = swiftlet.Shards([directory, folder / "shards" / "2"])
    return [each.document_id for each in shards.documents()]


@cache
def right(folder: Path, name: str) -> list[Any]:
    return used(folder, name, folder / name)


def check(folder: Path, name: str, place: Place, value: object) -> None:
    directory = folder / name
    said = "refused"
    try:
        forge(directory, name, place, value)
        found = used(folder, name, directory)
    except swiftlet.RetrievalError as error:
        said = f"{error}"
    else:
        chosen = place == ("details",) or CHOSEN & {*place}
        assert chosen or found == right(folder, name), (name, place, value)
    finally:
        shutil.copyfile(FOLDER / name / FILE_NAME, directory / FILE_NAME)
    assert said.isprintable(), said


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(("words", ("details",)), 5)
@example(("words", ("details", "change")), "x")
@example(("words", ("details", "vectors")), 0)
@example(("words", ("details", "facets")), [1, {}])
@example(("words", ("dim",)), 15)
@example(("words", ("files",)), {})
@given(st.sampled_from(PLACES), VALUES)
def test_a_forged_value_is_refused_or_without_effect(folder, where, value):
    check(folder, *where, value)


@pytest.mark.check
@pytest.mark.parametrize("name", ARTEFACTS)
def test_a_forged_value_in_every_place_is_refused_or_without_effect(folder, name):
    values: list[Any] = [
        None,
        0,
        -1,
        10**30,
        1e300,
        float("nan"),
        True,
        "x",
        "\ud800",
        [],
        {},
        [[{}]],
    ]
    for place in places(manifest_of(name)):
        for value in values:
            check(folder, name, place, value)


@pytest.mark.parametrize("place", [("details", name) for name in (
    "factory", "training", "splitting", "precision", "encoder", "encoder_fingerprint",
    "num_passages", "num_documents", "facets", "search_effort",
)])  # fmt: skip
def test_a_forged_value_is_refused_by_a_writer_or_harms_no_merge(folder, place):
    values: list[Any] = [None, 0, "x", {}]
    for value in values:
        with tempfile.TemporaryDirectory() as temporary:
            index = Path(shutil.copytree(folder / "changed", Path(temporary) / "index"))
            forge(index, "changed", place, value)
            try:
                with closing(swiftlet.write(index, encoder=folder / "encoder")) as writer:
                    writer.put([{"id": "new", "text": "new"}])
                    writer.compact()
            except swiftlet.RetrievalError:
                continue
            with swiftlet.open(index, encoder=folder / "encoder") as searcher:
                assert searcher.document("new").text == "new"
