"""What a document has as a file, and what an index of files offers to choose by."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from swiftlet import build
from swiftlet import open as open_searcher
from swiftlet.corpora.collections import read_documents
from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.index.columns.filters import parse_filter
from tests.command_line import swiftlet

MAY, JUNE = (datetime(2026, month, 7, 12, tzinfo=UTC).timestamp() for month in (5, 6))
NOTE = """---
title: Ferns
author: Ada
date: 2026-03-01
tags: [green, old]
draft: no
weight: 3
kind: not the file's
nested: {a: 1}
---
Ferns grow in the shade.
"""


@pytest.fixture
def notes(tmp_path) -> Path:
    folder = tmp_path / "notes"
    (folder / "plants/old").mkdir(parents=True)
    for name, text, time in (("plants/old/fern.md", NOTE, MAY), ("tea.txt", "Tea is hot.", JUNE)):
        (folder / name).write_text(text)
        os.utime(folder / name, (time, time))
    return folder


def test_a_document_has_the_fields_of_its_file_and_of_its_front_matter(notes):
    fern, tea = read_documents(notes)
    assert tea.metadata == {
        "path": "tea.txt", "kind": "text", "size": 11, "modified": "2026-06-07T12:00:00+00:00"
    }  # fmt: skip
    assert fern.metadata == {
        "author": "Ada", "date": "2026-03-01", "tags": ["green", "old"], "draft": False,
        "weight": 3, "path": "plants/old/fern.md", "folder": ["plants", "plants/old"],
        "kind": "markdown", "size": len(NOTE), "modified": "2026-05-07T12:00:00+00:00",
        "language": "en", "front_matter_lines": 10,
    }  # fmt: skip


def test_references_in_front_matter_do_not_multiply(tmp_path):
    lines = ["title: t", f"a: &a [{', '.join(['x' * 90] * 90)}]", "b: [*a, *a]", "c: *a"]
    (tmp_path / "a.md").write_text("\n".join(["---", *lines, "---", "text"]))
    (document,) = read_documents(tmp_path)
    assert {"b", "c"}.isdisjoint(document.metadata)


def test_an_index_of_files_has_facets_and_its_dates_compare(notes, tmp_path):
    index = tmp_path / "index"
    build(notes, index, encoder=LOOKUP_QUERY_ENCODER)
    with open_searcher(index) as searcher:
        assert searcher.facets() == {
            "kind": [("markdown", 1), ("text", 1)],
            "folder": [("plants", 1), ("plants/old", 1)],
            "author": [("Ada", 1)],
            "language": [("en", 1)],
        }
        chosen = parse_filter({"folder": "plants"})
        assert [hit.document_id for hit in searcher.search("tea", filter=chosen)] == [
            "plants/old/fern.md"
        ]
    found = swiftlet("search", index, "tea", "--filter", "modified>=2026-06-01 and kind=text")
    assert "tea.txt" in found.stdout
    assert "fern.md" not in found.stdout


def test_facets_that_are_named_stand_alone(notes, tmp_path):
    build(notes, tmp_path / "index", encoder=LOOKUP_QUERY_ENCODER, facets=["tags"])
    with open_searcher(tmp_path / "index") as searcher:
        assert [*searcher.facets()] == ["tags"]
