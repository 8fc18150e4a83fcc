"""Sorting: the documents that answer, in the order of a field of their metadata."""

import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import swiftlet
from swiftlet.errors import InvalidArgumentError
from swiftlet.evaluation.retrievers import SearcherRetriever
from swiftlet.index.updates.directory_writer import IndexWriter
from swiftlet.index.vectors.faiss_search import FaissParameters
from swiftlet.search.request import SearchRequest
from swiftlet.search.searcher import Searcher
from swiftlet.types import Document, Hit

COUNT = 120
WORDS = ["lava", "snow", "bread", "violin", "tide", "moon", "germ", "wheel", "honey", "code"]
SHARES = {"hybrid": 0.75, "dense": 0.75, "lexical": 0.5}
BEYOND = 2**53


def _documents() -> list[Document]:
    random = np.random.default_rng(7)
    found = []
    for number in range(COUNT):
        text = " ".join(random.choice(WORDS, 1 + number % 7))
        metadata: dict[str, Any] = {
            "kind": "report" if number % 9 else "letter",
            "draft": bool(number % 2),
            "mixed": number if number % 3 else f"{number}",
        }
        if number % 5:
            hours = int(random.integers(0, 24))  # by their characters, zones would be out of order
            zone = ["Z", "+09:00", "-08:00"][number % 3]
            metadata["modified"] = f"2026-0{1 + number % 4}-11T{hours:02}:00:00{zone}"
            metadata["title"] = ["Zebra", "apple", "2026-01-01", "Äpfel"][number % 4]
        if number % 3:
            metadata["stars"] = int(random.integers(-9, 9)) + BEYOND
        if number % 4:
            metadata["scores"] = [number % 6, -1.5, number % 11]
        found.append(Document(f"d{number:03}", text, metadata=metadata))
    return found


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Any:
    """An index that is searched exactly."""
    out = tmp_path_factory.mktemp("sorted") / "index"
    swiftlet.build(_documents(), out)
    return out


@pytest.fixture(scope="module")
def searcher(index) -> Iterator[Searcher]:
    with swiftlet.open(index) as opened:
        yield opened


def moment(text: str) -> np.datetime64:
    day, zone = np.datetime64(text[:19]), text[19:]
    return day - np.timedelta64(0 if zone == "Z" else int(zone[:3]), "h")


def ordered(hits: list[Hit], sort: str) -> list[str]:
    """The ids of hits that are best first, in the order that a field gives them by definition."""
    field, direction = sort.split(":")
    down = direction == "desc"

    def value(hit: Hit) -> Any:
        found: Any = hit.metadata[field]
        if field == "scores":
            return (max if down else min)(found)
        return moment(found) if field == "modified" else found

    with_it = [hit for hit in hits if field in hit.metadata]
    with_it.sort(key=value)
    if down:  # ties stay in the order of their scores
        values = [value(hit) for hit in with_it]
        with_it = [hit for each in dict.fromkeys(reversed(values)) for hit in with_it
                   if value(hit) == each]  # fmt: skip
    return [hit.document_id for hit in with_it] + [
        hit.document_id for hit in hits if field not in hit.metadata
    ]


FIELDS = ["modified", "title", "stars", "scores", "draft", "kind"]


@settings(max_examples=25)
@given(
    sort=st.builds("{}:{}".format, st.sampled_from(FIELDS), st.sampled_from(["asc", "desc"])),
    query=st.sampled_from(["lava", "snow violin", "moon honey code"]),
    mode=st.sampled_from(["hybrid", "dense", "lexical"]),
    size=st.sampled_from([1, 7, 60, COUNT]),
    further=st.sampled_from(
        [{}, {"min_score": 0.45}, {"min_score": -9}, {"filter": {"kind": "report"}},
         {"boost": {"filter": {"kind": "letter"}, "weight": 0.2}}],
    ),
)  # fmt: skip
def test_pages_are_parts_of_the_documents_that_answer_in_the_order_of_a_field(
    searcher, sort, query, mode, size, further
):
    plain = searcher.search(query, COUNT, mode=mode, **further).hits
    if "min_score" not in further:
        least = SHARES[mode] * max(hit.score for hit in plain)
        plain = [hit for hit in plain if hit.score >= least]
    expected = ordered(plain, sort)
    pages: list[str] = []
    for offset in range(0, min(len(expected) + size, 5 * size), size):
        found = searcher.search(query, size, mode=mode, offset=offset, sort=sort, **further)
        pages += [hit.document_id for hit in found]
    assert pages == expected[: 5 * size]


@pytest.fixture(scope="module")
def turning(tmp_path_factory) -> Iterator[Searcher]:
    """1,500 documents around a circle, in an approximate index."""
    angles = np.linspace(0, 1.5, 1_500)
    documents = [
        Document(f"{n:04}", "bread" if n % 5 else "bread and snow", metadata={"n": n * 7 % 1_500})
        for n in range(len(angles))
    ]
    out = tmp_path_factory.mktemp("turning") / "index"
    vectors = np.stack((np.cos(angles), np.sin(angles)), axis=1)
    swiftlet.build(documents, out, embeddings=vectors, factory="IVF16,Flat")
    with swiftlet.open(out) as opened:
        yield opened


ALONG: dict[str, Any] = {"embedding": (1.0, 0.0)}


def test_all_pages_have_the_documents_within_three_quarters_of_the_best_score(turning):
    turning.parts.index.parameters = FaissParameters(probes=2)
    whole = turning.search(top_k=1_500, sort="n:desc", **ALONG).hits
    numbers = [hit.metadata["n"] for hit in whole]
    assert numbers == sorted(numbers, reverse=True)
    assert 0.75 <= min(hit.score for hit in whole) < 0.76
    assert 700 < len(whole) < 730  # up to 41 degrees
    pages = [
        hit
        for offset in range(0, len(whole) + 99, 99)
        for hit in turning.search(top_k=99, offset=offset, sort="n:desc", **ALONG)
    ]
    assert pages == whole


@pytest.mark.parametrize(
    "asked", [{**ALONG, "min_score": 0}, {"query": "bread", "mode": "lexical"}]
)
def test_of_more_than_a_thousand_documents_the_best_are_sorted(turning, asked):
    best = {hit.document_id for hit in turning.search(**asked, top_k=1_000)}
    found = turning.search(**asked, top_k=1_500, sort="n:asc").hits
    assert {hit.document_id for hit in found} == best
    assert [hit.metadata["n"] for hit in found] == sorted(hit.metadata["n"] for hit in found)
    assert turning.search(**asked, offset=990, sort="n:asc").hits == found[990:]
    assert turning.search(**asked, offset=1_000, sort="n:asc").hits == []


@pytest.mark.parametrize("is_merged", [False, True])
def test_documents_that_were_put_stand_between_those_of_the_base(index, tmp_path, is_merged):
    out = tmp_path / "index"
    shutil.copytree(index, out)
    values = {"stars": [BEYOND, BEYOND + 1], "title": "b", "modified": "2026-02-12"}
    new = [
        Document("new", "lava", metadata=values),
        Document("text", "lava", metadata={"modified": "unknown"}),
        Document("none", "lava"),
    ]
    replaced = {"d001": {"stars": -3}, "d002": {"title": "zebra"}}
    new += [Document(name, "lava", metadata=each) for name, each in replaced.items()]
    with IndexWriter(out, None) as writer:
        writer.put(new)
        writer.delete(["d004"])
        if is_merged:
            writer.compact()
    with swiftlet.open(out) as searcher:
        plain = searcher.search("lava", COUNT, mode="lexical", min_score=0).hits
        for field, values in {"stars": int, "title": str, "kind": str}.items():
            for direction in ("asc", "desc"):
                options: Any = {"mode": "lexical", "min_score": 0, "sort": f"{field}:{direction}"}
                found = searcher.search("lava", COUNT, **options).hits
                assert {hit.document_id for hit in found} == {hit.document_id for hit in plain}
                has = [field in hit.metadata for hit in found]
                assert has == sorted(has, reverse=True)
                read = [_first(hit.metadata[field], direction) for hit in found if has.pop(0)]
                assert read == sorted(read, reverse=direction == "desc")
                assert {type(each) for each in read} == {values}
        # Not all texts are dates any more, so all are texts.
        found = searcher.search("lava", COUNT, mode="lexical", sort="modified:desc").hits
        assert found[0].document_id == "text"


def _first(value: Any, direction: str) -> Any:
    return (max if direction == "desc" else min)(value) if isinstance(value, list) else value


def test_documents_of_one_value_stay_in_the_order_of_their_scores(searcher):
    hits = searcher.search("moon honey", 60, sort="kind:asc", min_score=0.3).hits
    for kind in ("letter", "report"):
        scores = [hit.score for hit in hits if hit.metadata["kind"] == kind]
        assert scores == sorted(scores, reverse=True)
        assert len(scores) > 3


def test_nothing_that_answers_is_nothing_to_sort(searcher):
    assert searcher.search("zzz", mode="lexical", sort="stars:asc").hits == []
    assert searcher.search("lava", min_score=9, sort="stars:asc").hits == []
    nothing = {"kind": "no such kind"}
    assert searcher.search("lava", filter=nothing, sort="stars:asc").hits == []


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"sort": "absent:asc"},
            "can be sorted by the fields ['draft', 'kind', 'modified', 'scores', 'stars', 'title']",
        ),
        ({"sort": "mixed:asc"}, "its values are numbers and texts, which have no common order:"),
        (
            {"sort": "stars:asc", "filter": {"stars": {"exists": False}}},
            "sort names 'stars', but no document that the search may find has a value in it",
        ),
        ({"sort": "stars"}, "sort is 'stars', but a field and its direction are expected, asc or"),
        ({"sort": "stars:down"}, "sort is 'stars:down', but a field and its direction"),
        ({"sort": ":asc"}, "sort is ':asc', but a field and its direction"),
        ({"sort": 3}, "sort is 3, but a field and its direction"),
        ({"sort": "stars:asc", "fusion": "rrf"}, "fusion is 'rrf', which takes no sort"),
        ({"sort": "stars:asc", "rerank": 3}, "sort is 'stars:asc', but a re-ranker gives another"),
        ({"sort": "stars:asc", "group_by": "kind"}, "sort is 'stars:asc', but groups are not"),
    ],
)
def test_a_sort_that_makes_no_sense_is_refused_in_one_sentence(searcher, options, sentence):
    with pytest.raises(InvalidArgumentError) as refusal:
        searcher.search("lava", **options)
    assert sentence in f"{refusal.value}"


def test_a_filter_that_leaves_one_kind_of_values_makes_them_sortable(searcher):
    only = {"mixed": {"gte": 0}}
    found = searcher.search("lava", 60, filter=only, sort="mixed:desc", min_score=-9).hits
    numbers = [hit.metadata["mixed"] for hit in found]
    assert numbers == sorted(numbers, reverse=True)
    assert len(numbers) == 60


def test_the_excerpts_of_a_context_are_in_the_order_of_the_field(searcher):
    hits = searcher.search("moon honey", 9, sort="modified:desc").hits
    found = searcher.context("moon honey", 2_000, 9, weight=searcher.weight, sort="modified:desc")
    assert found.document_ids == [hit.document_id for hit in hits]
    rest = searcher.context(
        "moon honey", 2_000, 5, weight=searcher.weight, sort="modified:desc", offset=4
    )
    assert rest.document_ids == found.document_ids[4:]


def test_a_sorted_search_is_measured_by_its_own_order(searcher):
    hits = searcher.search("lava", 10, sort="stars:asc").hits
    found = SearcherRetriever(searcher, sort="stars:asc").retrieve("lava", 10)
    assert [name for name, _ in found] == [hit.document_id for hit in hits]
    scores = [score for _, score in found]
    assert scores == sorted(scores, reverse=True)


def test_a_ranking_names_the_sort(searcher):
    sorts = (None, "stars:asc", "stars:desc", "title:asc")
    assert len({searcher.ranking(SearchRequest("lava", sort=sort)) for sort in sorts}) == len(sorts)
