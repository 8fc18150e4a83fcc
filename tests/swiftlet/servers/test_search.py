"""Searches of a collection, against those of the index that it was pushed from."""

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import swiftlet
from swiftlet.address import TOKEN_VARIABLE
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER
from swiftlet.errors import FilterError, GroupingError, InvalidArgumentError
from swiftlet.index.building.build import BuildSettings, build_index
from swiftlet.search.searcher import Searcher
from swiftlet.servers.push import push
from swiftlet.types import Document
from tests.command_line import swiftlet as swiftlet_command
from tests.swiftlet.index.columns.test_filters import METADATA

# All words are in passages, or too short: an index corrects typing errors, a server does not.
QUERIES = ["molten rock", "how bees make honey", "moves of a king", "Europe", "ice"]


@pytest.fixture(scope="module")
def remote(small_collection) -> Iterator[Searcher]:
    searcher = Searcher.open(small_collection, DEFAULT_ENCODER)
    yield searcher
    searcher.close()


def same(found: Any, expected: Any, *, passages: bool = True) -> None:
    assert [hit.document_id for hit in found] == [hit.document_id for hit in expected]
    for hit, other in zip(found, expected, strict=True):
        assert hit.score == pytest.approx(other.score, abs=1e-5)
        assert (hit.title, hit.metadata) == (other.title, other.metadata)
        # Passages of one text have one score.
        assert not passages or hit.passage.text.split() == other.passage.text.split()


@pytest.fixture(params=["dense", "lexical", "hybrid"])
def mode(request, remote) -> str:
    """Each mode that the server has."""
    if request.param not in remote.modes:
        pytest.skip("the server has no words")
    return request.param


@pytest.mark.parametrize("top_k", [1, 10, 60, 1000])
@pytest.mark.parametrize("query", QUERIES)
def test_a_collection_gives_the_documents_of_its_index(remote, small_searcher, query, top_k, mode):
    found = remote.search(query, top_k, mode=mode)
    expected = small_searcher.search(query, top_k, mode=mode)
    # Several passages of a document may have the same words of the query.
    same(found, expected, passages=mode != "lexical")
    if mode != "lexical":
        assert len(found) == min(top_k, 60)


def test_a_result_is_continued(remote, small_searcher):
    (mode, *_) = remote.modes
    whole = small_searcher.search("ice", 60, mode=mode).hits
    parts = [remote.search("ice", 7, offset=offset).hits for offset in range(0, 70, 7)]
    same([hit for part in parts for hit in part], whole)
    least = whole[20].score - 1e-5
    same(remote.search("ice", 60, min_score=least), whole[:21])


def test_texts_are_left_out_and_highlighted_as_in_an_index(remote, small_searcher):
    chosen = [{"include_text": False}, {"highlight": "sentence"}]
    if "lexical" in remote.modes:
        chosen += [{"highlight": "words"}]
    for options in chosen:
        found = remote.search("molten rock", 3, **options)
        expected = small_searcher.search("molten rock", 3, mode=remote.modes[0], **options)
        assert [hit.passage.text for hit in found] == [hit.passage.text for hit in expected]
        assert [hit.highlights for hit in found] == [hit.highlights for hit in expected]


def test_a_document_is_put_together_from_its_passages(remote, small_documents):
    for document in small_documents:
        assert remote.document(document.document_id) == document
    with pytest.raises(swiftlet.UnknownDocumentError, match="no document has the id 'none'"):
        remote.document("none")
    assert (remote.num_documents, remote.num_passages) == (60, 89)


def test_groups_are_those_of_the_index(remote, small_searcher):
    found = remote.search_groups("ice", 5, group_by="topic", group_size=2)
    (mode, *_) = remote.modes
    expected = small_searcher.search_groups("ice", 5, group_by="topic", group_size=2, mode=mode)
    assert [group.value for group in found.groups] == [group.value for group in expected.groups]
    for group, other in zip(found.groups, expected.groups, strict=True):
        same(group.hits, other.hits)
    with pytest.raises(GroupingError, match="no document has a value"):
        remote.search_groups("ice", 5, group_by="nothing")


def test_large_numbers_are_taken(remote, small_searcher, mode):
    for options in ({"top_k": 100_000}, {"top_k": 10, "offset": 5000}):
        found = remote.search("ice", **options, mode=mode)
        expected = small_searcher.search("ice", **options, mode=mode)
        same(found, expected, passages=mode != "lexical")


@pytest.fixture(scope="module", params=[(), ("kind", "open", "published", "year", "tags")])
def pair(request, server, tmp_path_factory) -> Iterator[tuple[Searcher, Searcher]]:
    """The documents of the tests of filters, in an index and on the server, with facets or none."""
    documents = [
        Document(f"d{number}", f"word{number} and text", metadata=metadata)
        for number, metadata in enumerate(METADATA)
    ]
    documents.append(Document("many", "text of many values", metadata={"many": [*range(64)]}))
    out: Path = tmp_path_factory.mktemp("filtered") / "index"
    build_index(documents, DEFAULT_QUERY_ENCODER, out, BuildSettings(facets=request.param))
    address = server.address("filtered")
    push(out, address, DEFAULT_QUERY_ENCODER, overwrite=True)
    local, remote = (Searcher.open(each, DEFAULT_QUERY_ENCODER) for each in (out, address))
    yield local, remote
    local.close()
    remote.close()


VALUES = st.sampled_from(
    ["a", "a\0", "b", "x", "Ada", "Bob", "unknown", 7, 2019, 2020.5, -3, 10**400, True, False]
)
PATHS = ["kind", "year", "tags", "open", "author.name", "author.born", "published", ""]
RANGES = ["gt", "gte", "lt", "lte"]
INSTANTS = ["2019-05-04", "2020-01-01", "2020-01-01T12:30:00Z", "9999-12-31"]


def conditions(paths: list[str], names: list[str], values: Any) -> Any:
    """A comparison of one of the fields with one of the values."""
    chosen = st.sampled_from(paths), st.sampled_from(names), values
    return st.builds(lambda path, name, value: {path: {name: value}}, *chosen)


LEAVES = st.one_of(
    st.builds(lambda path, value: {path: value}, st.sampled_from(PATHS), VALUES),
    conditions(PATHS, ["exists"], st.booleans()),
    conditions(["year"], RANGES, st.sampled_from([-3, 0, 2019, 2020.5, 10**400])),
    conditions(["published"], RANGES, st.sampled_from(INSTANTS)),
    conditions(["kind"], ["prefix"], st.sampled_from(["a", "ab", "b", "aaa"])),
    conditions(["tags"], ["any", "all", "none"], st.lists(VALUES, min_size=1, max_size=3)),
)
FILTERS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda each: {"not": each}, inner),
        st.builds(lambda each: {"and": each}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda each: {"or": each}, st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=4,
)


DEEP: dict[str, object] = {"kind": "a"}
for level in range(7):
    DEEP = {"not": {("and", "or")[level % 2]: [DEEP, {"year": {"gte": 2000 + level}}]}}


@pytest.mark.parametrize(
    "tree",
    [
        *({"year": {name: [*range(1900, 2156)]}} for name in ("any", "none")),
        {"or": [{"year": {"gte": 2019 + number, "lt": 2019.5 + number}} for number in range(99)]},
        {"and": [{"year": {"gt": number}} for number in range(99)]},
        {"and": [{"many": {"gt": number}} for number in range(63)]},
        {"many": {"none": [*range(256)]}},
        DEEP,
    ],
    ids=str,
)
def test_filters_of_many_values_and_levels_pass_what_they_pass_in_an_index(pair, tree):
    local, remote = pair
    expected = local.document_ids(tree)
    assert expected
    assert sorted(remote.document_ids(tree)) == sorted(expected)


@given(FILTERS)
@settings(max_examples=60)
def test_every_filter_passes_the_documents_that_it_passes_in_an_index(pair, tree):
    local, remote = pair
    try:
        expected = local.search("text", 10, filter=tree, mode=remote.modes[0]).hits
    except FilterError:
        with pytest.raises(FilterError):
            remote.search("text", 10, filter=tree)
        return
    found = remote.search("text", 10, filter=tree).hits
    assert sorted(hit.document_id for hit in found) == sorted(hit.document_id for hit in expected)
    assert sorted(remote.document_ids(tree)) == sorted(local.document_ids(tree))
    assert remote.search("text", 1, filter=tree).hits == found[:1]


@pytest.mark.parametrize(
    "asked", [{"sort": "length:asc"}, {"boost": {"filter": {"topic": "ice"}, "weight": 0.1}}]
)
def test_what_no_server_knows_is_refused(remote, asked):
    with pytest.raises(InvalidArgumentError, match="the index is on a server"):
        remote.search("ice", **asked)


def test_an_unknown_field_is_named(pair):
    with pytest.raises(FilterError, match=r"names 'colour', but .* ha(s|ve) th(is|e) field"):
        pair[1].search("text", filter={"colour": "red"})
    with pytest.raises(FilterError, match="'open' with numbers, but its values are true or false"):
        pair[1].search("text", filter={"open": 1})


def test_metadata_is_given_back_as_it_was(pair):
    hits = pair[1].search("text", 10).hits
    found = {hit.document_id: hit.metadata for hit in hits}
    assert [found[f"d{number}"] for number in range(len(METADATA))] == METADATA


@given(st.data())
@settings(max_examples=2)
def test_both_give_the_same_documents_whatever_the_corpus(server, tmp_path_factory, data):
    """Documents of very different lengths, so that some take most of the candidates."""
    seed = data.draw(st.integers(0, 10**6))
    random = np.random.default_rng(seed)
    documents = [
        Document(
            f"{number:03}",
            " ".join(f"w{word}" for word in random.integers(0, 40, int(random.integers(1, 400)))),
            metadata={"third": number % 3},
        )
        for number in range(40)
    ]
    out = tmp_path_factory.mktemp("both") / "index"
    build = BuildSettings(passage_tokens=24, overlap_tokens=4, factory="Flat")
    build_index(documents, DEFAULT_QUERY_ENCODER, out, build)
    address = server.address("both")
    push(out, address, DEFAULT_QUERY_ENCODER, overwrite=True)
    with (
        Searcher.open(out, DEFAULT_QUERY_ENCODER) as local,
        Searcher.open(address, DEFAULT_QUERY_ENCODER) as remote,
    ):
        asked = product(("w1 w2", "w30", "nothing of these"), (1, 10, 40), remote.modes)
        for query, top_k, mode in asked:
            for chosen in (None, {"third": 1}):
                found, expected = (
                    each.search(query, top_k, mode=mode, filter=chosen).hits
                    for each in (remote, local)
                )
                assert [hit.score for hit in found] == pytest.approx(
                    [hit.score for hit in expected], abs=1e-5
                )
                ids = {hit.document_id for hit in found}
                assert len(ids) == len(found)
                if top_k >= 40:
                    assert ids == {hit.document_id for hit in expected}
        document = remote.document("007")
        assert json.dumps(document.metadata) == '{"third": 1}'
        assert document == local.document("007")


def test_a_collection_is_inspected(server, small_collection, monkeypatch):
    monkeypatch.setenv(TOKEN_VARIABLE, small_collection.token)
    shown = swiftlet_command("inspect", f"{small_collection}").stdout
    assert '"language": "english"' in shown
    assert "60 documents, 89 passages" in shown
    words = "by meaning and by words" if server.has_words else "by meaning alone"
    assert f"complete: searched {words}; a search by meaning compares every passage" in shown
