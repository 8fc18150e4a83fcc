"""A service whose queries are encoded by a server that hangs or refuses."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import httpx
import pytest

from tests.embeddings_server import EmbeddingsServer, Handler, answer, answering, hang
from tests.polling import wait_until
from tests.service.conftest import Server, running


@pytest.fixture(scope="module")
def encoding() -> Iterator[EmbeddingsServer]:
    with answering() as server:
        yield server


@pytest.fixture(scope="module")
def service(encoding, small_index, tmp_path_factory) -> Iterator[Server]:
    index = Path(shutil.copytree(small_index, tmp_path_factory.mktemp("remote") / "index"))
    with running(index, encoder=encoding.address, threads=1, timeout_ms=100_000) as service:
        yield service


def search(client: httpx.Client, query: str, **fields: object) -> httpx.Response:
    return client.post("/search", json={"query": query, **fields})


def test_queries_are_encoded_by_the_address(service, encoding):
    with service.client() as client:
        answered = search(client, "who dances for honey?")
        assert answered.json()["hits"][0]["document_id"].startswith("bees")
        assert "encode;dur=" in answered.headers["server-timing"]
        asked = len(encoding.asked)
        search(client, "who dances for honey?")  # its embedding is in the cache
        assert len(encoding.asked) == asked


def test_a_server_that_is_slow_holds_up_no_event_loop(service, encoding):
    asked, go_on = len(encoding.asked), Event()

    def slow(handler: Handler) -> None:
        go_on.wait(200)
        handler.close_connection = True  # it is asked again

    with service.client() as client, ThreadPoolExecutor(1) as other:
        encoding.faults = [slow]
        late = other.submit(search, client, "a slow query")
        try:
            wait_until(lambda: len(encoding.asked) > asked)
            assert client.get("/health/live").status_code == 200
            assert not late.done()
        finally:
            go_on.set()
        assert late.result().status_code == 200


def test_a_server_that_hangs_ends_a_search_at_its_deadline(service, encoding):
    with service.client() as client:
        encoding.faults = [hang]
        assert search(client, "a hanging query", timeout_ms=500).status_code == 504
        encoding.faults.clear()  # if the deadline passed before it was asked
        assert search(client, "lava").status_code == 200


def test_a_server_that_refuses_is_a_problem_of_its_own(service, encoding):
    with service.client() as client:
        encoding.faults = [answer(400, '{"error": "no such model"}')]
        problem = search(client, "a refused query")
        assert problem.status_code == 503
        assert problem.json()["type"] == "/docs#encoder-away"
        assert "answers 400: 'no such model'" in problem.json()["detail"]
        encoding.faults = [answer(429, "{}", Retry_After=1000)]
        assert search(client, "a busy query", timeout_ms=60_000).status_code == 503
        assert search(client, "lava").status_code == 200
