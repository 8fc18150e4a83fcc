import asyncio
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from typing import Any, Self

import pytest
import uvicorn
from fastapi import FastAPI, Request, Response
from prometheus_client import CollectorRegistry

from service.admission.executor import SearchExecutor
from service.app import create_app
from service.live.state import ServiceState
from service.sight.metrics import Metrics
from service.wire.requests import Limits
from swiftlet.errors import EvaluationError, InvalidArgumentError, ServiceError
from swiftlet.evaluation.experiment import match_judgements, run_queries
from swiftlet.evaluation.metrics import evaluate
from swiftlet.evaluation.retrievers import SearcherRetriever
from swiftlet.search.client import AsyncClient, Client
from swiftlet.types import Qrels, Query, SearchResult


class AwkwardService:
    """A server with the contract of /search, /documents and /info, and with its failures.

    The text of a query chooses the failure.
    """

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.connections: set[tuple[str, int]] = set()
        self.url = ""
        self.app = FastAPI()
        self.app.post("/search")(self.search)
        self.app.get("/documents/{document_id:path}")(self.document)

    async def search(self, request: Request) -> Response:
        body = await request.json()
        query = body["query"]
        self.requests[query] += 1
        self.connections.add((request.client.host, request.client.port))
        match query.split("/"):
            case ["busy", retry_after, times] if self.requests[query] <= int(times):
                return Response(status_code=429, headers={"Retry-After": retry_after})
            case ["refused"]:
                detail = "query has 9 characters, at most 8 are allowed"
                return problem(422, "invalid-request", detail)
            case ["fault"]:
                return Response("Internal Server Error", status_code=500)
            case ["odd", content]:
                return Response(content, media_type="application/json")
            case ["endless"]:
                await request.receive()  # returns when the client disconnects
        assert body == {"query": query, "top_k": body["top_k"], "include_text": False}
        hits = [hit(f"d{n}", 1 - n / 100) for n in range(body["top_k"])]
        return Response(json.dumps({"hits": hits, "index": "i"}), media_type="application/json")

    def document(self, document_id: str) -> Response:
        if document_id in {"d0", "a/b?c", "ü", ".."}:
            return Response(json.dumps({"document_id": document_id}))
        if document_id == "fault":
            return Response(status_code=500)
        if document_id == "no route":
            return problem(404, "unknown-route", "no route has this path")
        return problem(404, "unknown-document", f"no document has the id {document_id!r}")


def hit(document_id: str, score: object) -> dict[str, object]:
    passage = {"passage_id": f"{document_id}#0", "start": 0, "end": 0}
    return {
        "document_id": document_id, "score": score, "title": "", "passage": passage, "metadata": {}
    }  # fmt: skip


def problem(status: int, kind: str, detail: str) -> Response:
    content = json.dumps({"type": f"/docs#{kind}", "title": kind, "detail": detail})
    return Response(content, status, media_type="application/problem+json")


@contextmanager
def running(app: FastAPI) -> Iterator[str]:
    """The URL at which `app` is served, on a free port."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.005)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def service() -> Iterator[AwkwardService]:
    service = AwkwardService()
    with running(service.app) as service.url:
        yield service


class Awaiting:
    """An `AsyncClient`, each method of which a thread calls and another one awaits."""

    def __init__(self, url: str, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._client = AsyncClient(url, **options)

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            begun = getattr(self._client, name)(*arguments, **options)
            return asyncio.run_coroutine_threadsafe(begun, self._loop).result()

        return call

    def search_batch(self, *arguments: Any, **options: Any) -> Any:
        async def all_of() -> list[SearchResult]:
            return [each async for each in self._client.search_batch(*arguments, **options)]

        return asyncio.run_coroutine_threadsafe(all_of(), self._loop).result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture(params=[Client, Awaiting], ids=["", "async"])
def open_client(request) -> Any:
    """Opens a client of either kind."""
    return request.param


@pytest.fixture
def retriever(service, open_client) -> Iterator[SearcherRetriever]:
    with open_client(service.url) as client:
        yield SearcherRetriever(client)


def test_a_service_gives_ids_and_scores_over_persistent_connections(service, retriever):
    assert retriever.retrieve("plain", 3) == [("d0", 1.0), ("d1", 0.99), ("d2", 0.98)]
    service.connections.clear()
    queries = [Query(f"q{number}", f"query {number}") for number in range(40)]
    run = run_queries(retriever, queries, top_k=2, threads=3)
    assert list(run) == [query.query_id for query in queries]
    assert set(map(tuple, run.values())) == {("d0", "d1")}
    assert len(service.connections) <= 3


def test_judged_documents_are_looked_up_whatever_characters_their_ids_have(retriever):
    document_ids = ["d0", "a/b?c", "ü", "..", "a/b", "d 1", "."]
    assert list(map(retriever.holds, document_ids)) == [True] * 4 + [False] * 3


@pytest.mark.parametrize(
    "retry_after", ["0", "", "soon", formatdate(0, usegmt=True)], ids=["0", "", "soon", "a date"]
)
def test_a_request_to_a_busy_service_is_repeated(service, retriever, retry_after):
    query = f"busy/{retry_after}/2"
    service.requests.clear()
    assert retriever.retrieve(query, 1) == [("d0", 1.0)]
    assert service.requests[query] == 3


def test_a_pause_that_a_busy_service_asks_for_is_kept(service, retriever):
    service.requests.clear()
    started = time.monotonic()
    retriever.retrieve("busy/1/1", 1)
    assert time.monotonic() - started >= 1.0


def test_a_service_that_stays_busy_is_given_up(service, open_client):
    service.requests.clear()
    with open_client(service.url, patience_seconds=0.2) as client:
        retriever = SearcherRetriever(client)
        with pytest.raises(ServiceError, match=r"busy: it still answers 429 .* at most 0.2 s"):
            retriever.retrieve("busy/0/1000", 1)
        assert 2 <= service.requests["busy/0/1000"] <= 4
        far = formatdate(time.time() + 3600, usegmt=True)
        with pytest.raises(ServiceError, match=r"after 0.0 s and asks for 3[56]\d\d.\d s more"):
            retriever.retrieve(f"busy/{far}/1000", 1)


ODD = ["{}", "[]", "<html>", '{"hits": [{"document_id": "a"}]}']
ODD += [json.dumps({"hits": [hit("a", "high")], "index": "i"}), "[" * 5_000]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("refused", r"answers 422: query has 9 characters, at most 8 are allowed$"),
        ("fault", r"http://127.* is not a Swiftlet service: /search gave the status 500"),
        *((f"odd/{content}", "/search gave an unknown answer") for content in ODD),
    ],
    ids=lambda each: each[:40],
)
def test_a_refusal_of_a_service_is_one_sentence_with_the_query(retriever, query, message):
    with pytest.raises(EvaluationError, match=rf"^query 'q': .*{message}") as caught:
        run_queries(retriever, [Query("q", query)], top_k=1)
    assert "\n" not in str(caught.value)


def test_a_document_that_cannot_be_requested_is_not_reported_as_unknown(retriever):
    for document_id, status in (("fault", 500), ("no route", 404)):
        with pytest.raises(ServiceError, match=f"{status}"):
            retriever.holds(document_id)


def test_a_service_that_does_not_answer_in_time_is_named(service, open_client):
    with (
        open_client(service.url, timeout_seconds=0.2) as client,
        pytest.raises(ServiceError, match="did not answer /search in time"),
    ):
        client.search("endless", 1, include_text=False)


def test_an_address_without_a_service_is_named():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ServiceError, match=f"127.0.0.1:{port} cannot be reached: .*refused"):
        Client(f"http://127.0.0.1:{port}").info()


def test_a_server_that_is_no_swiftlet_service_is_told_apart(service):
    with pytest.raises(
        ServiceError, match=r"/elsewhere.* is not a Swiftlet service: .* gave the status 404"
    ):
        Client(f"{service.url}/elsewhere/").info()


@pytest.mark.parametrize(
    "url", ["", "index/", "localhost:8000", "ftp://host", "http://", "http://a:b"]
)
def test_a_bad_url_is_refused(url):
    with pytest.raises(InvalidArgumentError, match="is no"):
        Client(url)


def test_the_real_service_finds_the_same_as_its_searcher(small_searcher, tmp_path, open_client):
    executor = SearchExecutor(2)
    app = create_app(
        ServiceState(small_searcher),
        limits=Limits(max_query_chars=100, max_top_k=50),
        executor=executor,
        metrics=Metrics(CollectorRegistry()),
    )
    queries = [Query("lava", "Where does lava come from?"), Query("loaf", "How is bread made?")]
    qrels: Qrels = {"lava": {"volcano-1": 1}, "loaf": {"bread-1": 1, "no/such document": 1}}
    path = tmp_path / "qrels.tsv"
    with running(app) as url, open_client(url) as client:
        retriever = SearcherRetriever(client)
        texts = [query.text for query in queries] * 5
        found = client.search_batch(iter(texts), 3, size=4, mode="dense", highlight="words")
        alone = [small_searcher.search(t, 3, mode="dense", highlight="words") for t in texts]
        assert [each.hits for each in found] == [each.hits for each in alone]
        with pytest.raises(ServiceError, match=r"answers 422: .*queries"):
            list(client.search_batch(["tea", ""]))
        with pytest.raises(InvalidArgumentError, match="size is 0"):
            list(client.search_batch(["tea"], size=0))
        judgements = match_judgements(
            queries, qrels, retriever.holds, qrels_path=path, allow_unknown=True
        )
        assert "1 unknown document ids ('no/such document')" in judgements.warning
        run = run_queries(retriever, queries, top_k=20)
        assert run == run_queries(SearcherRetriever(small_searcher), queries, top_k=20)
        assert evaluate(run, judgements.qrels, ["R@20"]) == {"R@20": 0.75}
        for text, top_k, message in (
            ("x" * 101, 1, "100"),
            ("half a pair: \ud83d", 1, "surrogate"),
            ("lava", 51, "top_k"),
        ):
            with pytest.raises(ServiceError, match=f"answers 422: .*{message}"):
                retriever.retrieve(text, top_k)
    executor.close()
