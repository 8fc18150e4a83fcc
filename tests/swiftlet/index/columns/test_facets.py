"""Facets against counts of the metadata themselves."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swiftlet.errors import FilterError
from swiftlet.index.columns.columns import Columns, parse_date, write_columns
from swiftlet.index.columns.facets import MOST_FACET_VALUES, facet_values
from tests.service.conftest import with_encoder

SCALARS = st.booleans() | st.integers(-3, 60) | st.floats(width=16) | st.text("ab", max_size=2)
VALUES = SCALARS | st.just("2020-01-01") | st.just("é" * 129) | st.none() | st.lists(SCALARS)


def columns_of(folder: Path, metadata: list[dict[str, Any]]) -> Columns:
    write_columns(folder, metadata)
    return Columns.open(folder)


def counted(metadata: list[dict[str, Any]]) -> list[tuple[Any, int]]:
    """The definition: a document counts once for each of its values."""
    counts: Counter[tuple[str, Any]] = Counter()
    for each in metadata:
        values = each["field"] if isinstance(each["field"], list) else [each["field"]]
        counts.update({_typed(value) for value in values} - {None})
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [(value, count) for (_, value), count in ordered][:MOST_FACET_VALUES]


def _typed(value: Any) -> tuple[str, Any] | None:
    if isinstance(value, bool):
        return ("b", value)
    if isinstance(value, int | float):
        return ("n", value + 0.0) if np.isfinite(value) else None
    if isinstance(value, str):
        return ("s", value) if len(value.encode()) <= 256 else None
    return None


@given(st.lists(st.tuples(VALUES, st.booleans()), min_size=1, max_size=120))
def test_the_most_frequent_values_are_counted(tmp_path_factory, rows):
    metadata = [{"field": value} for value, _ in rows]
    columns = columns_of(tmp_path_factory.mktemp("facets") / "columns", metadata)
    every = np.ones(len(rows), dtype=bool)
    assert facet_values("field", [(columns, every)]) == counted(metadata)
    mask = np.array([kept for _, kept in rows])
    chosen = [each for each, kept in zip(metadata, mask, strict=True) if kept]
    assert facet_values("field", [(columns, mask)]) == counted(chosen)
    # As parts of one collection, some of the documents of which are deleted.
    half = len(rows) // 2
    parts = [(Columns.of(metadata[:half]), mask[:half]), (Columns.of(metadata[half:]), mask[half:])]
    found = facet_values("field", parts)
    assert found == counted(chosen)
    json.dumps(found)  # fails on NumPy's numbers


def test_at_most_fifty_values_are_counted_and_ties_are_in_their_order(tmp_path):
    assert parse_date("2020-01-01")  # its second key is no second value
    values = [*range(100), "z", "a", "z", "2020-01-01", True]
    columns = columns_of(tmp_path / "columns", [{"field": value} for value in values])
    found = facet_values("field", [(columns, np.ones(len(values), dtype=bool))])
    assert found == [("z", 2), (True, 1), *((number, 1) for number in range(48))]


def test_a_searcher_counts_its_facets_for_all_documents_and_for_some(
    small_searcher, small_documents
):
    assert small_searcher.facet_fields == ("topic", "length")
    assert small_searcher.fields == ("length", "topic")
    topics = sorted({document.metadata["topic"] for document in small_documents})
    assert small_searcher.facets() == {
        "topic": [(topic, 5) for topic in topics],
        "length": [(length, 12) for length in (1, 2, 3, 8, 20)],
    }
    chosen = {"length": {"gte": 8}, "topic": ["tides", "bees"]}
    assert small_searcher.facets(chosen) == {
        "topic": [("bees", 2), ("tides", 2)],
        "length": [(8, 2), (20, 2)],
    }
    with pytest.raises(FilterError, match="names 'colour', but the documents have the fields"):
        small_searcher.facets({"colour": "red"})
    with pytest.raises(FilterError, match="an object is expected"):
        small_searcher.facets("topic")


def test_an_index_of_an_earlier_version_has_no_facets(small_searcher):
    older = with_encoder(small_searcher, small_searcher.encoder)
    assert (older.facet_fields, older.fields, older.facets()) == ((), (), {})
