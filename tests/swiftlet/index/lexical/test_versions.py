"""Indexes keep the version of the analysis that they were built with, and texts of filters meet."""

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest

import swiftlet
from swiftlet.errors import CorruptIndexError
from swiftlet.index.columns import columns
from swiftlet.index.columns.columns import keys_of
from swiftlet.index.lexical.analysis import ANALYSIS, VERSION
from swiftlet.manifest import read_manifest, write_manifest
from tests.artefacts.answers import FOLDER
from tests.command_line import swiftlet as command

SMALL: dict[str, Any] = {"encoder": FOLDER / "encoder", "passage_tokens": 24, "overlap_tokens": 0}
ROWS = [{"_id": "plot", "text": "That plot is a clich\u00e9."}, {"_id": "no", "text": "Nothing."}]


@pytest.fixture
def earlier(tmp_path) -> Path:
    """An index of version 1, with its encoder beside it."""
    shutil.copytree(FOLDER / "encoder", tmp_path / "encoder")
    return Path(shutil.copytree(FOLDER / "words", tmp_path / "words"))


def found(index: Path, query: str, encoder: Path | None = None) -> list[str]:
    with swiftlet.open(index, encoder=encoder) as searcher:
        rows = searcher.parts.lexical.parse(query, exact=True).search(10)[1]
        stored = searcher.parts.store.passages(rows.tolist())
        return [each.passage.document_id for each in stored]


def version(index: Path) -> int | None:
    return read_manifest(index).details.get(ANALYSIS)


def test_changes_and_merges_keep_the_version_and_a_new_build_has_the_newest(earlier):
    encoder = earlier.with_name("encoder")
    assert version(earlier) is None
    with swiftlet.write(earlier, encoder=encoder) as changes:
        changes.put(ROWS)
        assert found(earlier, "clich\u00e9", encoder) == ["plot"]
        assert found(earlier, "cliche", encoder) == []
        assert changes.compact()
    assert version(earlier) == 1
    assert found(earlier, "cliche", encoder) == []
    swiftlet.build(ROWS, earlier, overwrite=True, **SMALL)
    assert version(earlier) == VERSION
    assert found(earlier, "cliche", encoder) == ["plot"]
    with swiftlet.write(earlier, encoder=encoder) as changes:
        changes.put([{"_id": "new", "text": "Re\u0301sume\u0301s"}])
        assert found(earlier, "resume", encoder) == ["new"]
        assert changes.compact()
    assert version(earlier) == VERSION
    assert found(earlier, "R\u00c9SUM\u00c9", encoder) == ["new"]


def test_shards_hold_no_words_so_their_index_has_the_newest_version(earlier):
    shards = swiftlet.Shards([FOLDER / "shards" / number for number in "12"])
    index = earlier.with_name("joined")
    swiftlet.build(shards, index, encoder=earlier.with_name("encoder"))
    assert version(index) == VERSION


def test_a_version_of_the_future_is_refused_in_one_sentence(earlier):
    manifest = read_manifest(earlier)
    details = {**manifest.details, ANALYSIS: VERSION + 1}
    write_manifest(earlier, replace(manifest, details=details))
    with pytest.raises(CorruptIndexError, match=r"of version 3 .* use a newer Swiftlet, or build"):
        swiftlet.open(earlier, encoder=earlier.with_name("encoder"))


def test_inspect_says_once_that_words_are_of_an_earlier_version(earlier):
    shown = command("inspect", earlier)
    assert shown.stderr.count("version 1 of the analysis") == 1
    swiftlet.build(ROWS, earlier, overwrite=True, **SMALL)
    again = command("inspect", earlier)
    assert (again.stderr, f'"{ANALYSIS}": {VERSION}' in again.stdout) == ("", True)
    assert command("inspect", FOLDER / "pieces").stderr == ""


NAMES = ["M\u00fcller", "\u1ec7\u1ea9", "\ud55c\uad6d", "\u30ac\u30a4\u30c9", "\u0958\u0928"]
# As code pages of Vietnamese have it: one of two accents is composed.
MIXED = {"\u1ec7\u1ea9": "\u00ea\u0323\u00e2\u0309"}


def built(folder: Path, values: list[str]) -> Path:
    """An index with two documents of each value, and another one."""
    rows = [
        {"_id": f"{place}-{number}", "text": "tea", "metadata": {"by": value}}
        for place, value in enumerate(values)
        for number in range(2)
    ]
    other = {"_id": "other", "text": "tea", "metadata": {"by": "Muller"}}
    swiftlet.build([*rows, other], folder / "index", **SMALL)
    return folder / "index"


@pytest.mark.parametrize("name", NAMES)
def test_filters_and_groups_meet_values_in_any_form(name, tmp_path):
    values = [normalize("NFC", name), normalize("NFD", name), MIXED.get(name, name)]
    every = {f"{place}-{number}" for place in range(3) for number in range(2)}
    with swiftlet.open(built(tmp_path, values), encoder=FOLDER / "encoder") as searcher:
        for value in values:
            assert {*searcher.document_ids({"by": value})} == every
            assert {*searcher.document_ids({"by": {"prefix": value}})} == every
            assert {*searcher.document_ids({"by": {"none": [value]}})} == {"other"}
        groups = searcher.search_groups("tea", 3, group_by="by", group_size=9).groups
    found = {group.value: {hit.document_id for hit in group.hits} for group in groups}
    assert found == {values[0]: every, "Muller": {"other"}}


@pytest.mark.parametrize("name", NAMES)
def test_an_earlier_index_is_filtered_and_grouped_as_before(name, tmp_path, monkeypatch):
    # Earlier versions wrote the keys of texts as they were.
    monkeypatch.setattr(columns, "keys_of", partial(keys_of, composed=False))
    values = [normalize("NFC", name), normalize("NFD", name)]
    with swiftlet.open(built(tmp_path, values), encoder=FOLDER / "encoder") as searcher:
        for place, value in enumerate(values):
            assert {*searcher.document_ids({"by": value})} >= {f"{place}-0", f"{place}-1"}
        groups = searcher.search_groups("tea", 3, group_by="by", group_size=9).groups
    found = {group.value: {hit.document_id for hit in group.hits} for group in groups}
    assert found == {values[0]: {"0-0", "0-1", "1-0", "1-1"}, "Muller": {"other"}}
