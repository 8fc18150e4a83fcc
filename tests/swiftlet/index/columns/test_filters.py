"""Filters against their definition, and searches with them against searches of everything."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.errors import FilterError, InvalidArgumentError
from swiftlet.index.building.build import BuildSettings, build_index
from swiftlet.index.columns.columns import Columns, field_keys, value_of
from swiftlet.index.columns.facets import facet_values
from swiftlet.index.columns.filters import (
    MOST_VALUES,
    check_fields,
    conditions,
    parse_filter,
    passing,
)
from swiftlet.index.parts.search_parts import FixedIndex
from swiftlet.search.searcher import Searcher
from swiftlet.types import Document
from tests.swiftlet.index.columns.test_facets import columns_of

METADATA: list[dict[str, Any]] = [
    {"kind": "a", "year": 2019, "published": "2019-05-04", "tags": ["x", "y"]},
    {"kind": "b", "year": 2020.5, "published": "2020-01-01T12:30:00Z", "open": True},
    {"kind": "abc", "year": -3, "published": "2020-01-02T00:30:00+01:00", "tags": []},
    {"author": {"name": "Ada", "born": 1815}, "open": False, "year": "unknown", "kind": None},
    {"tags": ["z", 7, {"deep": "x"}], "author": [{"name": "Ada"}, {"name": "Bob"}], "kind": "a\0"},
    {"kind": "a" * 400, "year": 10**400, "": "blank"},
    {},
]


@pytest.fixture(scope="module")
def columns(tmp_path_factory) -> Columns:
    return columns_of(tmp_path_factory.mktemp("filters") / "columns", METADATA)


def found(columns: Columns, filter_: Mapping[str, Any]) -> list[int]:
    tree = parse_filter(filter_)
    check_fields(tree, [columns])
    return np.flatnonzero(passing(tree, columns, len(METADATA))).tolist()


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        ({}, [0, 1, 2, 3, 4, 5, 6]),
        ({"kind": "a"}, [0]),
        ({"kind": {"eq": "a\0"}}, [4]),
        ({"kind": ["a", "b", "none"]}, [0, 1]),
        ({"kind": {"prefix": "a"}}, [0, 2, 4, 5]),
        ({"kind": "a" * 400}, [5]),
        ({"kind": {"prefix": "\ud800"}}, []),
        ({"kind": "a" * 399}, []),
        ({"kind": {"none": ["a", "b"]}}, [2, 3, 4, 5, 6]),
        ({"kind": {"exists": False}}, [3, 6]),
        ({"tags": "x"}, [0]),
        ({"tags": {"all": ["x", "y"]}}, [0]),
        ({"tags": {"all": ["x", "z"]}}, []),
        ({"tags": 7}, [4]),
        ({"tags.deep": "x"}, [4]),
        ({"open": True}, [1]),
        ({"open": False}, [3]),
        ({"year": {"gte": 2019}}, [0, 1, 5]),
        ({"year": {"gt": 2019, "lt": 3000}}, [1]),
        ({"year": {"lt": 0}}, [2]),
        ({"year": {"lte": 2019, "gte": 2020}}, []),
        ({"year": "unknown"}, [3]),
        ({"year": 2020.5}, [1]),
        ({"published": {"lt": "2020-01-01"}}, [0]),
        ({"published": {"lte": "2020-01-01"}}, [0, 1, 2]),
        ({"published": {"gt": "2020-01-01T12:30:00Z"}}, [2]),
        ({"published": {"gte": "2020-01-01T13:30+01:00"}}, [1, 2]),
        ({"published": {"gt": "2020-01-01"}}, []),
        ({"published": "2019-05-04"}, [0]),
        ({"published": {"lte": "9999-12-31"}}, [0, 1, 2]),
        ({"published": {"gte": "2020-01-01T12:29:59.123456789Z"}}, [1, 2]),
        ({"author.name": "Bob"}, [4]),
        ({"author": {"exists": True}}, [3, 4]),
        ({"author.born": {"exists": True}}, [3]),
        ({"": "blank"}, [5]),
        ({"kind": "a", "year": 2019}, [0]),
        ({"kind": "a", "year": 2020.5}, []),
        ({"or": [{"kind": "a"}, {"open": True}]}, [0, 1]),
        ({"and": [{"tags": "x"}, {"not": {"kind": "b"}}]}, [0]),
        ({"not": {"year": {"exists": True}}}, [4, 6]),
        ({"not": {"or": [{"year": {"exists": True}}, {"kind": "a\0"}]}}, [6]),
    ],
)
def test_a_filter_keeps_the_documents_for_which_it_holds(columns, filter_, expected):
    assert found(columns, filter_) == expected


@pytest.mark.parametrize(
    ("filter_", "message"),
    [
        ("kind", "the filter has 'kind' where an object is expected"),
        ({"kinds": "a"}, r"the filter names 'kinds', but the documents have the fields \['', "),
        ({"title": "a"}, "names 'title', which is searched and no field of the metadata, but"),
        ({"open": 1}, "the filter compares 'open' with numbers, but its values are true or false"),
        ({"kind": {"gte": 3}}, "compares 'kind' with numbers, but its values are texts"),
        ({"kind": {"gte": "a"}}, "of 'kind' has \"gte\": 'a', but a number or an ISO date"),
        ({"year": {"gte": 3, "lt": "2020-01-01"}}, "has numbers and dates as the bounds"),
        ({"published": {"gte": "2020-02-31"}}, "but a number or an ISO date such as 2020-12-31"),
        ({"published": {"gte": True}}, "but a number or an ISO date"),
        ({"author": {"name": "Ada"}}, "has the operator 'name', but one of .* 'author.name'"),
        ({"kind": {}}, "the filter of 'kind' has no operator"),
        ({"kind": None}, r'has the value null, but .*; \{"exists": false\} finds documents'),
        ({"year": math.nan}, "has the value nan, but a text, a number"),
        ({"year": {"gte": math.nan}}, "but a number or an ISO date"),
        ({"kind": []}, r"has \[\], but a list of one element or more is expected"),
        ({"or": {}}, r"has \{\}, but a list of one"),
        ({"kind": {"exists": "yes"}}, "\"exists\": 'yes', but true or false is expected"),
        ({"kind": {"prefix": ""}}, "\"prefix\": '', but a text of 1 to 256 bytes is expected"),
        ({"kind": [str(n) for n in range(1000)]}, f"has 1000 values.*at most {MOST_VALUES}"),
        ({"kind": [{"a": 1}]}, "has the value {'a': 1}, but a text, a number"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused_in_one_sentence(columns, filter_, message):
    with pytest.raises(InvalidArgumentError, match=message):
        found(columns, filter_)


@pytest.mark.parametrize(
    "filter_",
    [
        {"n": {"any": [1] * 1_000_000}},
        {"and": [{}] * 2_048},
        {str(n): 1 for n in range(2_048)},
        {"or": [{"and": [{"not": {}}] * 64}] * 64},
    ],
    ids=["values", "objects", "fields", "levels"],
)
def test_a_filter_is_counted_before_it_is_parsed(filter_):
    with pytest.raises(FilterError, match="more than 2048 values, objects and lists; at most 256"):
        parse_filter(filter_)


def test_a_filter_may_have_all_its_values_in_ranges_and_levels():
    ranges = [{"not": {"n": {"gte": n, "lte": n}}} for n in range(MOST_VALUES)]
    assert len(list(conditions(parse_filter({"or": ranges})))) == MOST_VALUES


def test_a_filter_is_refused_beyond_its_depth():
    deep: dict[str, Any] = {"kind": "a"}
    for _ in range(16):
        deep = {"not": deep}
    with pytest.raises(InvalidArgumentError, match="nested more than 16 levels deep"):
        parse_filter(deep)


INTEGERS = st.integers() | st.builds(
    lambda power, more, sign: sign * ((1 << power) + more),
    st.integers(50, 1_100), st.integers(-3, 3), st.sampled_from([1, -1]),
)  # fmt: skip


@settings(max_examples=30)
@given(st.lists(st.floats(allow_nan=False) | INTEGERS, min_size=1, max_size=30), st.data())
def test_ranges_follow_the_order_of_numbers(tmp_path_factory, values, data):
    columns = columns_of(
        tmp_path_factory.mktemp("numbers") / "columns", [{"n": value} for value in values]
    )
    bound = data.draw(st.sampled_from(values))
    for name, holds in {
        "gt": lambda value: value > bound,
        "gte": lambda value: value >= bound,
        "lt": lambda value: value < bound,
        "lte": lambda value: value <= bound,
    }.items():
        mask = passing(parse_filter({"n": {name: bound}}), columns, len(values))
        assert mask.tolist() == [holds(value) for value in values]
    equal = passing(parse_filter({"n": bound}), columns, len(values))
    assert equal.tolist() == [value == bound for value in values]
    read = [value_of(columns[code]) for code in columns.codes(field_keys("n"))]
    assert read == sorted({*values})


def test_integers_beyond_the_exact_floats_are_facets_with_all_their_digits(tmp_path):
    values = [-(2**63) - 1, -(2**53) - 1, 8, 2**53, 2**53 + 1, 2**60, 2**63 - 1, 10**30 + 1]
    columns = columns_of(tmp_path / "columns", [{"n": value} for value in values])
    found = facet_values("n", [(columns, np.ones(len(values), np.bool_))])
    assert found == [(value, 1) for value in values]
    assert {type(value) for value, _ in found} == {int}


def test_integers_beyond_all_floats_are_facets_unless_they_are_very_long(tmp_path):
    values = [10**400 + 1, -(10**400) - 1, 1 << 2_015, 1 << 2_016, -(1 << 2_016), 5, float("inf")]
    columns = columns_of(tmp_path / "columns", [{"n": value} for value in (*values, values[0])])
    mask = np.ones(len(values) + 1, np.bool_)
    expected = [(values[0], 2), (values[1], 1), (5, 1), (values[2], 1)]
    assert facet_values("n", [(columns, mask)]) == expected
    assert facet_values("n", [(columns, mask), (columns, mask)])[0] == (values[0], 4)


DOCUMENTS = 3_000
WORDS = [f"w{number}" for number in range(400)]


@pytest.fixture(scope="module")
def open_searcher(tmp_path_factory) -> Iterator[Callable[..., Searcher]]:
    """Searchers over the same documents, of up to three passages, by the type of index."""
    random = np.random.default_rng(0)
    shares = 1 / np.arange(1, len(WORDS) + 1)
    documents = []
    for number, place in enumerate(random.permutation(DOCUMENTS)):
        words = random.choice(WORDS, int(random.integers(5, 40)), p=shares / shares.sum())
        metadata: dict[str, Any] = {
            "share": place / DOCUMENTS,
            "common": "yes" if "w0" in words else "no",
        }
        if number % 10:  # groups of very different sizes, and documents of none
            metadata |= {"group": [number % 3, f"{number % 7}", number % 50][place % 3]}
        if number < 5:
            metadata["tags"] = ["a", "b"]
        documents.append(Document(f"{number:04}", " ".join(words), metadata=metadata))
    opened: dict[str | None, Searcher] = {}

    def open_(factory: str | None) -> Searcher:
        if factory not in opened:
            out = tmp_path_factory.mktemp("filtered") / "index"
            settings = BuildSettings(passage_tokens=64, factory=factory, language="none")
            build_index(documents, LOOKUP_QUERY_ENCODER, out, settings)
            opened[factory] = Searcher.open(out, LOOKUP_QUERY_ENCODER)
        return opened[factory]

    yield open_
    for searcher in opened.values():
        searcher.close()


# An exact index, the default one, lists of which some hold no allowed row, codes that cannot be
# filtered, and codes that are not compared with finer ones.
FACTORIES = ["Flat", None, "PCAR192,IVF64,PQ64x4fs,Refine(SQ8)", "PQ192x4fs,Refine(SQfp16)", "SQ8"]


# Words do not depend on the factory, and a hybrid search asks the index as a dense one does.
@pytest.mark.parametrize(
    ("factory", "mode"),
    [
        *((factory, "dense") for factory in FACTORIES),
        *((factory, "hybrid") for factory in FACTORIES[:3]),
        (None, "lexical"),
    ],
)
def test_a_search_finds_as_many_documents_as_there_are(open_searcher, factory, mode):
    searcher = open_searcher(factory)
    found = []
    for query in ("w1 w5 w30", "w200"):
        whole = searcher.search(query, DOCUMENTS, mode=mode).hits
        for share in (1.1, 0.1, 0.01, 0.0):
            allowed = [hit for hit in whole if hit.metadata["share"] < share]
            for top_k in (1, 100):
                hits = searcher.search(
                    query, top_k, mode=mode, filter={"share": {"lt": share}}
                ).hits
                assert len(hits) == min(top_k, len(allowed))
                assert all(hit.metadata["share"] < share for hit in hits)
                if factory == "Flat" or mode == "lexical":
                    expected = [hit.score for hit in allowed[:top_k]]
                    assert [hit.score for hit in hits] == pytest.approx(expected, abs=2e-6)
                elif allowed:
                    near = {hit.document_id for hit in allowed[:top_k]}
                    found.append(len({hit.document_id for hit in hits} & near) / len(near))
    assert not found or fmean(found) >= 0.9


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_a_filter_that_excludes_all_that_is_near_leaves_the_rest(open_searcher, mode):
    searcher = open_searcher(None)
    whole = searcher.search("w0", DOCUMENTS, mode=mode).hits
    rest = [hit for hit in whole if hit.metadata["common"] == "no"]
    hits = searcher.search("w0", 10, mode=mode, filter={"common": "no"}).hits
    assert [hit.document_id for hit in hits] == [hit.document_id for hit in rest[:10]]
    assert len(hits) == (0 if mode == "lexical" else 10)


def test_filtered_results_are_continued_and_bounded_by_score(open_searcher):
    searcher = open_searcher("Flat")
    allowed = {"share": {"lt": 0.02}}
    whole = searcher.search("w1 w5", 100, filter=allowed).hits
    assert len(whole) == 60
    parts = [searcher.search("w1 w5", 7, filter=allowed, offset=n).hits for n in range(0, 70, 7)]
    assert [hit for part in parts for hit in part] == whole
    least = whole[20].score
    assert searcher.search("w1 w5", 100, filter=allowed, min_score=least).hits == whole[:21]


def test_an_index_without_columns_refuses_filters_only(open_searcher):
    searcher = open_searcher("Flat")
    parts = replace(searcher.parts, columns=None)
    older = Searcher(FixedIndex(parts, searcher.index_manifest), searcher.encoder_manifest)
    assert older.search("w1").hits
    with pytest.raises(InvalidArgumentError, match="without filters: build it again"):
        older.search("w1", filter={"common": "no"})


@pytest.mark.parametrize(
    ("factory", "mode"),
    [("Flat", "hybrid"), ("Flat", "dense"), ("Flat", "lexical"), (None, "hybrid")],
)
@pytest.mark.parametrize(("top_k", "group_size"), [(1, 1), (3, 5), (1000, 2)])
def test_groups_have_their_best_documents(open_searcher, factory, mode, top_k, group_size):
    searcher = open_searcher(factory)
    for query, allowed in (("w1 w5 w30", {}), ("w200", {"share": {"lt": 0.1}})):
        expected: dict[Any, list[str]] = {}
        for hit in searcher.search(query, DOCUMENTS, mode=mode, filter=allowed).hits:
            if "group" in hit.metadata:
                expected.setdefault(hit.metadata["group"], []).append(hit.document_id)
        found = searcher.search_groups(
            query, top_k, group_by="group", group_size=group_size, mode=mode, filter=allowed
        )
        groups = [(group.value, [hit.document_id for hit in group.hits]) for group in found.groups]
        assert len(groups) == min(top_k, len(expected))
        assert [len(ids) for _, ids in groups] == [
            min(group_size, len(expected[value])) for value, _ in groups
        ]
        if factory == "Flat":
            whole = [(value, ids[:group_size]) for value, ids in expected.items()]
            assert groups == whole[:top_k]


def test_a_field_that_cannot_group_is_refused_by_name(open_searcher):
    searcher = open_searcher("Flat")
    with pytest.raises(InvalidArgumentError, match="group_by is 'no', but no document has"):
        searcher.search_groups("w1", group_by="no")
    with pytest.raises(InvalidArgumentError, match="group_by is 'tags', but a document has sev"):
        searcher.search_groups("w1", group_by="tags")
    with pytest.raises(InvalidArgumentError, match="group_by is 3, but the name of a field"):
        searcher.search_groups("w1", group_by=3)
    with pytest.raises(InvalidArgumentError, match="group_size is 0, but at least 1"):
        searcher.search_groups("w1", group_by="group", group_size=0)
    with pytest.raises(InvalidArgumentError, match="give either offset or group_by"):
        searcher.search_groups("w1", group_by="group", offset=3)


@pytest.mark.parametrize(
    "name", ["f" * 400_000, "." * 40_000, "a.b" * 100_000, "c" * 511], ids="f.ac"
)
def test_values_of_fields_with_long_names_take_little_memory(name, peak_megabytes):
    inner = {f"{number}": number for number in range(400)}
    made: list[Columns] = []
    # The names of all values together have 160 megabytes.
    assert peak_megabytes(lambda: made.append(Columns.of([{name: inner, "x": {name: 1}}]))) < 60
    for path, value in ((f"{name}.7", 7), (f"x.{name}", 1)):
        tree = parse_filter({path: value})
        check_fields(tree, made)
        assert passing(tree, made[0], 1).all()
        assert not passing(parse_filter({path: value + 1}), made[0], 1).any()
    with pytest.raises(FilterError, match="the filter names"):
        check_fields(parse_filter({f"{name}!": 1}), made)


def test_a_refusal_names_all_fields_or_the_nearest_first():
    few = {f"field_{number}": 1 for number in range(30)}
    with pytest.raises(FilterError, match=r"'field_9'\]$"):
        check_fields(parse_filter({"x": 1}), [Columns.of([few])])
    many = {f"field_{number:03}": 1 for number in range(300)} | {"zone": 1}
    with pytest.raises(FilterError, match=r"the fields \['zone', 'field_000', .*, …\]$"):
        check_fields(parse_filter({"zones": 1}), [Columns.of([many])])
