"""Boosts: documents ordered by their scores and what they gain by their metadata."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import swiftlet
from swiftlet.errors import InvalidArgumentError
from swiftlet.evaluation.retrievers import SearcherRetriever
from swiftlet.index.columns.boosts import at_day, parse_boosts
from swiftlet.index.updates.directory_writer import IndexWriter
from swiftlet.search.request import SearchRequest
from swiftlet.search.searcher import Searcher
from swiftlet.types import Document, Hit

ORIGIN = datetime(2026, 6, 30, tzinfo=UTC)
RECENT = {"field": "modified", "half_life_days": 90, "weight": 0.2, "origin": "2026-06-29"}
WORDS = ["lava", "snow", "bread", "violin", "tide", "moon", "germ", "wheel", "honey", "code"]
COUNT = 240


def _documents() -> list[Document]:
    random = np.random.default_rng(5)
    found = []
    for number in range(COUNT):
        text = " ".join(random.choice(WORDS, 1 + number % 7))
        metadata: dict[str, Any] = {
            "kind": "report" if number % 9 else "letter",
            "number": number,
        }
        if number % 5:
            age = timedelta(hours=int(random.integers(-500, 20_000)))
            metadata["modified"] = (ORIGIN - age).isoformat()
        if number % 3:
            metadata["stars"] = [int(random.integers(-3, 300)), 2.5]
        found.append(Document(f"d{number:03}", text, metadata=metadata))
    return found


@pytest.fixture(scope="module")
def boosted_index(tmp_path_factory) -> Path:
    """An index that is searched exactly."""
    out = tmp_path_factory.mktemp("boosts") / "index"
    swiftlet.build(_documents(), out)
    return out


@pytest.fixture(scope="module")
def searcher(boosted_index) -> Iterator[Searcher]:
    with swiftlet.open(boosted_index) as opened:
        yield opened


def gain(hit: Hit, boost: dict[str, Any]) -> float:
    """What a boost adds to a hit, by its definition."""
    if "filter" in boost:
        return boost["weight"] * (hit.metadata["kind"] == boost["filter"]["kind"])
    if "half_value" in boost:
        most = max(hit.metadata.get("stars", [0]))
        return boost["weight"] * max(most, 0) / (max(most, 0) + boost["half_value"])
    if "modified" not in hit.metadata:
        return 0.0
    days = (ORIGIN - datetime.fromisoformat(str(hit.metadata["modified"]))) / timedelta(days=1)
    return boost["weight"] * 0.5 ** (max(days, 0) / boost["half_life_days"])


weights = st.sampled_from([0.001, 0.05, 0.3, 1.0])
boosts = st.one_of(
    st.builds(
        lambda weight, days: {**RECENT, "weight": weight, "half_life_days": days},
        weights,
        st.sampled_from([0.5, 30, 3_000]),
    ),
    st.builds(lambda weight: {"field": "stars", "half_value": 50, "weight": weight}, weights),
    st.builds(lambda weight: {"filter": {"kind": "letter"}, "weight": weight}, weights),
)


@settings(max_examples=25)
@given(
    boost=st.lists(boosts, min_size=1, max_size=3),
    query=st.sampled_from(["lava", "snow violin", "moon honey code"]),
    mode=st.sampled_from(["hybrid", "dense", "lexical"]),
    size=st.sampled_from([1, 7, 60]),
    further=st.sampled_from([{}, {"min_score": 0.45}, {"filter": {"kind": "report"}}]),
)
def test_pages_follow_the_boosted_score_without_gaps_or_repeats(
    searcher, boost, query, mode, size, further
):
    plain = searcher.search(query, COUNT, mode=mode, **further).hits
    gains = {hit.document_id: sum(gain(hit, each) for each in boost) for hit in plain}
    pages = []
    for offset in range(0, min(len(plain), 4 * size), size):
        pages += searcher.search(query, size, mode=mode, offset=offset, boost=boost, **further).hits
    order = sorted(plain, key=lambda hit: (-(hit.score + gains[hit.document_id]), hit.document_id))
    for hit, expected in zip(pages, order, strict=False):
        assert hit.boosted_score == pytest.approx(
            expected.score + gains[expected.document_id], abs=1e-5
        )
        assert hit.boosted_score - hit.score == pytest.approx(gains[hit.document_id], abs=1e-5)
    assert len({hit.document_id for hit in pages}) == len(pages) == min(len(plain), 4 * size)
    assert {hit.document_id: hit.score for hit in pages}.items() <= {
        hit.document_id: hit.score for hit in plain
    }.items()


def test_a_document_that_no_first_round_fetches_is_found_by_its_gain(searcher):
    mode = {"mode": "dense"}
    last = searcher.search("lava", COUNT, **mode).hits[-1]
    boost = {"filter": {"number": last.metadata["number"]}, "weight": 1}
    assert [hit.document_id for hit in searcher.search("lava", 1, boost=boost, **mode)] == [
        last.document_id
    ]
    same_day = {"field": "modified", "weight": 1, "half_life_days": 0.1, "origin": "2031-01-01"}
    # Long after all documents, nothing is recent, and the order is the plain one.
    plain = [hit.document_id for hit in searcher.search("lava", 10, **mode)]
    assert [hit.document_id for hit in searcher.search("lava", 10, boost=same_day, **mode)] == plain


@pytest.mark.parametrize("boost", [None, [], {"filter": {"kind": "letter"}, "weight": 0}])
def test_no_boost_and_boosts_without_weight_change_nothing(searcher, boost):
    assert searcher.search("lava", 20, boost=boost).hits == searcher.search("lava", 20).hits


def test_groups_are_in_the_order_of_boosted_scores(searcher):
    boost = {"filter": {"kind": "letter"}, "weight": 1}
    groups = searcher.search_groups("lava", 2, group_by="kind", boost=boost).groups
    assert [group.value for group in groups] == ["letter", "report"]


def test_a_boost_is_measured_by_its_own_order(searcher):
    boost = {"filter": {"kind": "letter"}, "weight": 0.4}
    hits = searcher.search("lava", 10, boost=boost).hits
    found = SearcherRetriever(searcher, boost=boost).retrieve("lava", 10)
    assert [name for name, _ in found] == [hit.document_id for hit in hits]
    scores = [score for _, score in found]
    assert scores == sorted(scores, reverse=True)


def test_an_index_keeps_a_boost_through_changes_and_a_search_replaces_it(tmp_path):
    out, today = tmp_path / "index", datetime.now(UTC).isoformat()
    swiftlet.build(_documents(), out, boost={**RECENT, "origin": "2026-06-30"})
    with IndexWriter(out, None) as writer:
        new = {"modified": today, "kind": "report"}
        writer.put([Document("new", "lava", metadata=new), Document("none", "lava")])
        writer.delete(["d001"])
        for merged in (False, True):
            if merged:
                writer.compact()
            with swiftlet.open(out) as searcher:
                by_default = searcher.search("lava", COUNT).hits
                asked = searcher.search("lava", COUNT, boost=RECENT).hits
                plain = searcher.search("lava", COUNT, boost=[]).hits
            assert by_default[0].document_id == "new"
            assert by_default[0].boosted_score > by_default[0].score
            assert asked[0].document_id == "new"
            assert {hit.boosted_score for hit in plain} == {None}
            assert "d001" not in {hit.document_id for hit in by_default}
    with pytest.raises(InvalidArgumentError, match="no document has a date in it"):
        swiftlet.build(_documents()[:9], tmp_path / "bad", boost={**RECENT, "field": "kind"})


@pytest.mark.parametrize(
    ("boost", "message"),
    [
        ("recent", "boost is 'recent', but an object is expected"),
        ({"field": "modified", "weight": 0.1}, "the half_value null, but a number from 1e-06"),
        ({**RECENT, "weight": 1.5}, "the weight 1.5, but a number from 0 to 1 is"),
        ({**RECENT, "half_life_days": 0}, "the half_life_days 0, but"),
        ({**RECENT, "origin": "today"}, "the origin 'today', but an ISO date"),
        ({**RECENT, "half": 1}, "boost has 'half', but an object is expected"),
        ({"weight": 1}, "the field null, but the name"),
        ({"filter": 3, "weight": 1}, "the filter has 3 where"),
        ([RECENT] * 9, "boost has 9 parts, but"),
        ({**RECENT, "field": "kind"}, "boost names 'kind', but no document has a date in it"),
        ({"field": "modified", "half_value": 1, "weight": 1}, "no document has a number in it"),
        ({"filter": {"sort": 1}, "weight": 1}, "the filter names 'sort', but"),
    ],
)
def test_a_boost_that_makes_no_sense_is_refused_in_one_sentence(searcher, boost, message):
    with pytest.raises(InvalidArgumentError) as refusal:
        searcher.search("lava", boost=boost)
    assert message in str(refusal.value)


def test_ranks_take_no_boost(searcher):
    with pytest.raises(InvalidArgumentError, match="fusion is 'rrf', which takes no boost"):
        searcher.search("lava", fusion="rrf", boost=RECENT)


def test_numbers_of_any_size_give_shares_from_0_to_1(tmp_path):
    values = [0, -1.0, 5e-324, 1, 1e308, 10**400, -(10**400), 2**63 + 1]
    documents = [Document(f"{n}", "a text", metadata={"n": v}) for n, v in enumerate(values)]
    swiftlet.build(documents, tmp_path / "index")
    with swiftlet.open(tmp_path / "index") as searcher:
        hits = searcher.search("text", 9, boost={"field": "n", "half_value": 1, "weight": 1}).hits
    gains = {hit.document_id: hit.boosted_score - hit.score for hit in hits}
    expected = [0, 0, 0, 0.5, 1, 1, 0, 1]
    assert [gains[f"{n}"] for n in range(8)] == pytest.approx(expected, abs=1e-6)


def test_a_ranking_names_the_boost_and_the_day_that_ages_are_counted_from(searcher):
    boosts = (None, RECENT, {**RECENT, "weight": 0.3}, [RECENT, RECENT])
    rankings = {searcher.ranking(SearchRequest("lava", boost=boost)) for boost in boosts}
    assert len(rankings) == len(boosts)
    today = {"field": "modified", "half_life_days": 1, "weight": 1}
    (evening,), (morning,) = (
        at_day(parse_boosts(today), datetime(2026, 6, 29, hour, tzinfo=UTC)) for hour in (23, 1)
    )
    assert evening == morning
    assert evening.origin == ORIGIN
