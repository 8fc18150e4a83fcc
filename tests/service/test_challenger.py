"""A challenger: its documents among those of answers, and its faults nowhere."""

from collections.abc import Iterator
from math import inf
from pathlib import Path
from time import perf_counter

import httpx
import pytest
from prometheus_client import CollectorRegistry

from service.live.challenger import Challenger
from swiftlet.encoders import DEFAULT_ENCODER, find
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.errors import EmbeddingSpaceMismatch, InvalidArgumentError
from swiftlet.relevance.log import Log, LoggedSearch
from swiftlet.search.request import SearchRequest
from swiftlet.search.searcher import Searcher
from tests.polling import wait_until
from tests.service.conftest import Server, running, start

LOOK_UP = "all-MiniLM-L6-v2-query-lookup"
QUERY = "molten rock of a mountain"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("challenged")


@pytest.fixture(scope="module")
def challenged(small_index: Path, folder: Path) -> Iterator[Server]:
    with running(small_index, query_log=folder, challenger_mode="lexical") as server:
        yield server


@pytest.fixture(scope="module")
def searcher(small_index: Path) -> Iterator[Searcher]:
    with Searcher.open(small_index, DEFAULT_ENCODER) as searcher:
        yield searcher


def names(answer: httpx.Response) -> list[str]:
    return [hit["document_id"] for hit in answer.raise_for_status().json()["hits"]]


def logged(folder: Path, request_id: str) -> LoggedSearch:
    entries = lambda: (each for each in Log(folder).searches() if each.id == request_id)  # noqa: E731
    return wait_until(lambda: next(entries(), None))


def test_an_answer_has_documents_of_both_and_the_log_has_their_teams(
    challenged: Server, folder: Path, searcher: Searcher
) -> None:
    with challenged.client() as client:
        answer = client.post("/search", json={"query": QUERY}, headers={"X-Request-Id": "one"})
        again = client.post("/search", json={"query": QUERY})
    entry = logged(folder, "one")
    assert names(again) == names(answer) == [name for name, _ in entry.hits]
    assert entry.challenger == "mode lexical"
    assert len(entry.teams) == len(entry.hits)
    assert not entry.is_plain
    own = {
        "A": [hit.document_id for hit in searcher.search(QUERY).hits],
        "B": [hit.document_id for hit in searcher.search(QUERY, mode="lexical").hits],
    }
    for (name, _), team in zip(entry.hits, entry.teams, strict=True):
        assert name in (own["A"] if team == "=" else own[team])


@pytest.mark.parametrize(
    "further",
    [{"mode": "hybrid"}, {"weight": 0.3}, {"offset": 1}, {"fusion": "rrf"}, {"min_score": 0.1},
     {"format": "context"}, {"group_by": "topic"}, {"sort": "topic:asc"}],
)  # fmt: skip
def test_a_search_that_says_how_to_search_is_answered_so(
    challenged: Server, folder: Path, further: dict[str, object]
) -> None:
    name = "-".join(further)
    with challenged.client() as client:
        body = {"query": QUERY, **further}
        client.post("/search", json=body, headers={"X-Request-Id": name}).raise_for_status()
    assert logged(folder, name).teams == ""


def test_a_shadow_only_compares(small_index: Path) -> None:
    given = {"challenger_encoder": LOOK_UP, "challenger_weight": 0.4, "challenger_shadow": "true"}
    with running(small_index) as plain, running(small_index, **given) as shadowed:
        with plain.client() as one, shadowed.client() as other:
            assert (
                one.post("/search", json={"query": QUERY}).json()["hits"]
                == other.post("/search", json={"query": QUERY}).json()["hits"]
            )
        assert shadowed.value('swiftlet_challenger_searches_total{outcome="compared"}') == 1
        assert shadowed.value("swiftlet_challenger_overlap_count") == 1
        assert shadowed.value("swiftlet_challenger_seconds_count") == 1


def test_a_fault_of_the_challenger_leaves_the_answer(searcher: Searcher) -> None:
    encoder = OnnxEncoder.load(find(Path(LOOK_UP)), role="query")
    encoder.embedding_space = "that of an index before a reload"
    registry = CollectorRegistry()
    challenger = Challenger(registry, encoder=encoder)
    asked = SearchRequest(QUERY)
    today = searcher.search(asked).hits
    assert challenger.hits(searcher, asked, today, seed="", deadline=inf) == (today, "")
    failed = "swiftlet_challenger_searches_total", {"outcome": "failed"}
    assert registry.get_sample_value(*failed) == 1


def test_a_challenger_that_would_be_late_is_left_out(searcher: Searcher) -> None:
    registry = CollectorRegistry()
    challenger = Challenger(registry, mode="dense")
    asked = SearchRequest(QUERY)
    today = searcher.search(asked).hits
    assert challenger.hits(searcher, asked, today, seed="", deadline=inf)[1]
    soon = perf_counter() + 1e-9
    assert challenger.hits(searcher, asked, today, seed="", deadline=soon) == (today, "")
    late = "swiftlet_challenger_searches_total", {"outcome": "late"}
    assert registry.get_sample_value(*late) == 1


def test_a_challenger_that_was_late_is_tried_again(searcher: Searcher) -> None:
    challenger = Challenger(CollectorRegistry(), mode="dense")
    asked = SearchRequest(QUERY)
    today = searcher.search(asked).hits
    challenger.hits(searcher, asked, today, seed="", deadline=inf)

    def is_mixed() -> bool:
        soon = perf_counter() + 1e-4
        return bool(challenger.hits(searcher, asked, today, seed="", deadline=soon)[1])

    assert wait_until(is_mixed)


def test_an_encoder_of_another_space_is_refused(searcher: Searcher) -> None:
    encoder = OnnxEncoder.load(find(Path(LOOK_UP)), role="query")
    encoder.embedding_space = "another"
    with pytest.raises(EmbeddingSpaceMismatch, match="the challenger's encoder 'all-MiniLM"):
        Challenger(CollectorRegistry(), encoder=encoder).check(searcher)


def test_a_weight_and_a_mode_without_one_are_refused(searcher: Searcher) -> None:
    with pytest.raises(InvalidArgumentError, match="the challenger cannot search: mode"):
        Challenger(CollectorRegistry(), weight=0.5, mode="dense").check(searcher)


def test_a_challenger_without_clicks_is_refused(small_index: Path) -> None:
    server = start(small_index, challenger_weight=0.5)
    assert server.ended() != 0
    assert server.log[-1].strip() == (
        "a challenger is judged by clicks, but SWIFTLET_QUERY_LOG is not set: name a folder for "
        "them, or set SWIFTLET_CHALLENGER_SHADOW=true, which only compares"
    )
