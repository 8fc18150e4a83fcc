"""Re-ranking over HTTP: searches, and scores of texts as Cohere and TEI have them."""

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from service.admission.executor import SearchExecutor
from service.opening import open_searcher
from service.settings import Settings
from service.wire.answers import RerankAnswer, SearchAnswer
from service.wire.requests import Limits
from swiftlet.encoders.reranker import OnnxReranker
from swiftlet.evaluation.evaluate import evaluate
from swiftlet.manifest import change_details
from swiftlet.search.searcher import Searcher
from swiftlet.search.stages.hits import Rerank
from tests.service.conftest import Application

Make = Callable[..., Application]

QUERY = "how do volcanoes erupt"
TEXTS = ["Volcanoes erupt when magma rises.", "Bread is baked.", "Bees dance for honey."]


@pytest.fixture(scope="module")
def reranker(reranker_directory) -> OnnxReranker:
    return OnnxReranker.load(reranker_directory)


@pytest.fixture
def searcher(small_searcher, reranker) -> Iterator[Searcher]:
    small_searcher.reranker = reranker
    yield small_searcher
    small_searcher.reranker = None


@pytest.fixture
def app(make_application, searcher) -> Application:
    return make_application(searcher)


def test_a_search_has_the_rerankers_order_and_says_how_many(app, searcher):
    asked = {"query": QUERY, "top_k": 6, "rerank": {"top_n": 4}}
    answer = app.ask("POST", "/search", json=asked)
    found = answer.json()
    expected = searcher.search(QUERY, 6, rerank=4).hits
    assert [(hit["document_id"], hit["rerank_score"]) for hit in found["hits"]] == [
        (hit.document_id, hit.rerank_score) for hit in expected
    ]
    assert found["reranked"] == 4
    assert answer.headers["x-reranked"] == "4"
    assert "rerank;dur=0.000" not in answer.headers["server-timing"]
    SearchAnswer.model_validate_json(answer.content, strict=True)
    link = app.ask(
        "GET", "/search", params={"q": QUERY, "top_k": 6, "rerank": '{"top_n": 4}'}
    ).json()
    assert link["hits"] == found["hits"]


def test_a_cursor_goes_on_in_the_reranked_order(app, searcher):
    asked: dict[str, Any] = {"query": QUERY, "top_k": 2, "rerank": {"top_n": 5}}
    first = app.ask("POST", "/search", json=asked).json()
    second = app.ask("POST", "/search", json={**asked, "cursor": first["next"]}).json()
    ids = [hit["document_id"] for hit in first["hits"] + second["hits"]]
    assert ids == [hit.document_id for hit in searcher.search(QUERY, 4, rerank=5).hits]
    refused = app.ask("POST", "/search", json={"query": QUERY, "top_k": 2, "cursor": first["next"]})
    assert "the cursor is of another search" in refused.json()["detail"]


def test_a_search_whose_time_is_too_short_comes_without_the_reranker(app, searcher, monkeypatch):
    monkeypatch.setattr(searcher.reranker, "seconds", 60.0)
    answer = app.ask("POST", "/search", json={"query": QUERY, "rerank": {"top_n": 4}})
    assert (answer.status_code, answer.headers["x-reranked"]) == (200, "0")
    found = answer.json()
    assert found["reranked"] == 0
    plain = searcher.search(QUERY).hits
    assert [hit["document_id"] for hit in found["hits"]] == [hit.document_id for hit in plain]
    assert all(hit["rerank_score"] is None for hit in found["hits"])


def test_a_search_is_answered_if_a_pair_takes_longer_than_expected(app, searcher, monkeypatch):
    now = time.perf_counter()

    def slow(_query: str, _text: str) -> float:
        nonlocal now
        now += 5.01
        return 1.0

    monkeypatch.setattr(searcher.reranker, "logit", slow)
    for part in (Rerank, SearchExecutor):
        monkeypatch.setattr(sys.modules[part.__module__], "perf_counter", lambda: now)
    asked = {"query": QUERY, "rerank": {"top_n": 4}, "timeout_ms": 5000}
    answer = app.ask("POST", "/search", json=asked)
    assert (answer.status_code, answer.headers["x-reranked"]) == (200, "1")


def test_documents_are_scored_as_by_cohere(app, reranker):
    scores = [reranker.score(QUERY, text) for text in TEXTS]
    best_first = sorted(range(3), key=lambda place: -scores[place])
    asked = {"model": "any", "query": QUERY, "documents": TEXTS, "top_n": 2}
    answer = app.ask("POST", "/v2/rerank", json=asked)
    assert answer.json() == app.ask("POST", "/rerank", json=asked).json()
    assert answer.json()["results"] == [
        {"index": place, "relevance_score": scores[place]} for place in best_first[:2]
    ]
    RerankAnswer.model_validate_json(answer.content, strict=True)
    objects = [{"text": text} for text in TEXTS]
    asked = {"query": QUERY, "documents": objects, "return_documents": True}
    results = app.ask("POST", "/v1/rerank", json=asked).json()["results"]
    assert [each["document"]["text"] for each in results] == [TEXTS[n] for n in best_first]


def test_texts_are_scored_as_by_tei(app, reranker):
    asked = {"query": QUERY, "texts": TEXTS, "raw_scores": True, "return_text": True}
    found = app.ask("POST", "/rerank", json={**asked, "truncate": True}).json()
    logits = [reranker.logit(QUERY, text) for text in TEXTS]
    assert found == [
        {"index": place, "score": logits[place], "text": TEXTS[place]}
        for place in sorted(range(3), key=lambda place: -logits[place])
    ]


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("/rerank", {"query": QUERY, "documents": []}, "a list of 1 to 5 texts, or of objects"),
        ("/rerank", {"query": QUERY, "texts": [1]}, "texts[0] is 1; a list of 1 to 5 texts is"),
        (
            "/rerank",
            {"query": QUERY, "documents": [{"title": "Bread"}]},
            "documents[0] is an object; a list of 1 to 5 texts, or of objects with a text,",
        ),
        ("/rerank", {"query": QUERY, "texts": ["a"] * 6}, "texts has 6 entries; a list of 1 to 5"),
        (
            "/rerank",
            {"query": QUERY, "texts": TEXTS, "truncate": "x"},
            "truncate is a text; true or false, which is ignored, is expected",
        ),
        ("/rerank", {"query": " ", "texts": TEXTS}, "the query is empty"),
        ("/rerank", {"query": QUERY}, "neither documents nor texts: give either documents or te"),
        (
            "/rerank",
            {"query": QUERY, "texts": TEXTS, "documents": TEXTS},
            "the body has both documents and texts: give either documents or texts",
        ),
        (
            "/search",
            {"query": QUERY, "rerank": {"top_n": 6}},
            "rerank.top_n is 6; null or {",
        ),
        ("/search", {"query": QUERY, "rerank": {}}, "rerank.top_n is missing"),
        (
            "/search",
            {"query": QUERY, "rerank": {"top_n": 2}, "group_by": "topic"},
            "rerank is 2, but groups are not re-ranked: give either rerank or group_by",
        ),
    ],
)
def test_bad_requests_are_refused(path, body, sentence, make_application, searcher):
    answer = make_application(searcher, Limits(max_reranked=5)).ask("POST", path, json=body)
    assert answer.status_code == (413 if "has 6 entries" in sentence else 422)
    assert sentence in answer.json()["detail"]


def test_a_service_without_a_reranker_says_so(make_application, small_searcher):
    app = make_application(small_searcher)
    for path, body, field in (
        ("/search", {"query": QUERY, "rerank": {"top_n": 2}}, "rerank"),
        ("/rerank", {"query": QUERY, "texts": TEXTS}, None),
    ):
        answer = app.ask("POST", path, json=body)
        assert (answer.status_code, answer.json().get("field")) == (422, field)
        assert "this service has no re-ranker" in answer.json()["detail"]


def test_a_service_reranks_by_the_directory_that_is_set(start_server, reranker_directory, searcher):
    server = start_server(reranker=reranker_directory)
    with server.client() as client:
        used = client.get("/info").json()["reranker"]
        assert used == {"name": searcher.reranker.name, "weight": searcher.reranker.weight}
        found = client.post("/search", json={"query": QUERY, "rerank": {"top_n": 9}}).json()
    best = searcher.search(QUERY, rerank=9).hits[0].document_id
    assert found["hits"][0]["document_id"] == best
    report = evaluate(server.url, {"q": QUERY}, {"q": {best: 1}}, metrics=["MRR@10"], rerank=9)
    assert report.means == {"MRR@10": 1.0}
    assert "the weight 0" not in "".join(server.log)


def test_a_reranker_that_changes_no_order_is_logged(
    small_index, reranker_directory, tmp_path, caplog
):
    idle = shutil.copytree(reranker_directory, tmp_path / "idle")
    change_details(idle, {"weight": 0.0})
    open_searcher(Settings(index=small_index, reranker=idle)).close()
    assert f"the re-ranker {idle} has the weight 0: it takes time" in caplog.text


def test_texts_are_scored_in_parts_if_the_queue_is_short(make_application, searcher, reranker):
    texts = [f"{text} {number}" for number in range(4) for text in TEXTS]
    app = make_application(searcher, max_queued=5)
    found = app.ask("POST", "/rerank", json={"query": QUERY, "texts": texts}).json()
    assert {each["index"]: each["score"] for each in found} == {
        place: reranker.score(QUERY, text) for place, text in enumerate(texts)
    }


def test_texts_that_take_too_long_end_at_the_deadline(make_application, searcher):
    asked = {"query": QUERY, "texts": TEXTS * 30}
    app = make_application(searcher)
    assert app.ask("POST", "/rerank", json={**asked, "timeout_ms": 1}).status_code == 504
    app = make_application(searcher, Limits(timeout_ms=1))
    assert app.ask("POST", "/rerank", json=asked).status_code == 504
