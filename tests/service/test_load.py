"""Requests under overload, and while the service stops."""

import asyncio
import json
import re
import signal
import socket
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest

from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.search.searcher import Searcher
from swiftlet.types import Embeddings
from tests.polling import wait_until
from tests.service.conftest import value_of, with_encoder
from tests.stops import logged_statuses, search_through_a_stop

LONG_QUERY = "many long words " * 600


class SlowEncoder(OnnxEncoder):
    """An encoder that takes long for its first text, and counts its calls."""

    runs = 0

    def embed(self, token_ids: Sequence[int]) -> Embeddings:
        self.runs += 1
        if self.runs == 1:
            time.sleep(0.2)
        return super().embed(token_ids)


@pytest.fixture
def slow_searcher(small_searcher) -> Searcher:
    return with_encoder(small_searcher, SlowEncoder.load(DEFAULT_ENCODER, verify=False))


def test_work_past_its_deadline_is_answered_504_and_never_started(make_application, slow_searcher):
    encoder = slow_searcher.encoder
    application = make_application(slow_searcher, threads=1)

    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(application.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            return await asyncio.gather(
                client.post("/search", json={"query": "first"}),
                client.post("/search", json={"query": "late", "timeout_ms": 30}),
                client.get("/search", params={"q": "late", "timeout_ms": 30}),
                client.post("/search/batch", json={"queries": ["late"] * 9, "timeout_ms": 30}),
            )

    first, *late = asyncio.run(ask())
    assert first.status_code == 200
    for answer in late:
        assert answer.status_code == 504
        assert answer.json()["detail"] == "the deadline passed before there was an answer"
    # Later requests find an empty queue.
    assert application.ask("GET", "/search?q=next").status_code == 200
    assert encoder.runs == 2
    metrics = application.ask("GET", "/metrics").text
    assert value_of(metrics, 'swiftlet_rejected_total{reason="deadline-passed"}') == 3
    assert value_of(metrics, "swiftlet_queue_depth") == 0


def test_clients_that_connect_under_load_are_accepted_together(start_server):
    """With one connection per iteration of the event loop, the last one waited for 100 searches."""
    server = start_server(
        threads=1,
        cache_bytes=0,
        max_batch_queries=250,
        max_queued_queries=250,
    )
    batch = {"queries": ["many long words " * 40] * 200}
    ask = b"GET /%b HTTP/1.1\r\nHost: service\r\nConnection: close\r\n\r\n"

    def searches(connection: socket.socket) -> float:
        """How many there were when the service answered."""
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b"")).decode()
        return value_of(answer, 'swiftlet_stage_seconds_count{stage="encode"}')

    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        answer = pool.submit(httpx.post, f"{server.url}/search/batch", json=batch, timeout=60)
        wait_until(lambda: server.value("swiftlet_queue_depth"))
        server.process.send_signal(signal.SIGSTOP)
        connections = [stack.enter_context(server.connect()) for _ in range(100)]
        first, *others, last = connections
        for connection in connections:
            connection.sendall(ask % (b"health/live" if connection in others else b"metrics"))
        server.process.send_signal(signal.SIGCONT)
        for connection in others:
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        assert searches(last) - searches(first) < 50
        assert answer.result().status_code == 200


@pytest.mark.parametrize("threads", [1, 2])
def test_a_deadline_that_passes_during_the_work_is_a_504_too(
    make_application, slow_searcher, threads
):
    application = make_application(slow_searcher, threads=threads)
    body = {"query": "slow", "timeout_ms": 30}
    assert application.ask("POST", "/search", json=body).status_code == 504


def test_a_full_queue_answers_429_at_once_with_retry_after(make_application, small_searcher):
    application = make_application(small_searcher, threads=1, max_queued=64)

    async def ask() -> tuple[httpx.Response, str, httpx.Response]:
        transport = httpx.ASGITransport(application.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            others = asyncio.create_task(application.executor.map(time.sleep, [0.01] * 64))
            await asyncio.sleep(0)
            refused = await client.post("/search/batch", json={"queries": ["too many"] * 64})
            metrics = (await client.get("/metrics")).text
            await others
            accepted = await client.get("/search?q=one")
            return refused, metrics, accepted

    refused, metrics, accepted = asyncio.run(ask())
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert re.fullmatch(
        r"\d+ queries are waiting( and 64 more were requested)?; at most 64 may wait",
        refused.json()["detail"],
    )
    assert 0 < value_of(metrics, "swiftlet_queue_depth") <= 64
    assert accepted.status_code == 200


def test_an_overloaded_service_answers_200_429_and_504_alone(start_server):
    server = start_server(threads=1, max_queued_queries=6, max_batch_queries=4, cache_bytes=0)

    def ask(number: int) -> list[int]:
        with server.client() as client:
            path, body = "/search", {"query": LONG_QUERY, "timeout_ms": 1 if number % 2 else 60_000}
            if number % 4 == 0:
                path, body = "/search/batch", {"queries": [LONG_QUERY] * 2}
            return [client.post(path, json=body).status_code for _ in range(6)]

    with ThreadPoolExecutor(16) as pool:
        statuses = Counter(status for each in pool.map(ask, range(16)) for status in each)
    assert statuses.total() == 96
    assert set(statuses) == {200, 429, 504}
    assert server.client().get("/search?q=afterwards").status_code == 200
    for reason, status in (("queue-full", 429), ("deadline-passed", 504)):
        series = f'swiftlet_rejected_total{{reason="{reason}"}}'
        assert server.value(series) == statuses[status]


def test_the_waiting_work_of_a_client_that_leaves_is_dropped(start_server):
    server = start_server(threads=1)
    # All different, because the cache would have equal ones after the first.
    body = json.dumps({"queries": [f"{n} {LONG_QUERY}" for n in range(64)]}).encode()
    head = b"POST /search/batch HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
    with server.connect() as connection:
        connection.sendall(head + body)
        wait_until(lambda: server.value("swiftlet_queue_depth"))
    left = 'swiftlet_requests_total{route="/search/batch",status="499"}'
    wait_until(lambda: server.value(left))
    assert server.value("swiftlet_queue_depth") == 0
    assert server.value('swiftlet_stage_seconds_count{stage="encode"}') == 0


def test_sigterm_under_load_loses_no_request_that_was_accepted(start_server):
    server = start_server(access_log="true", threads=2)
    stop = server.process.terminate
    received = search_through_a_stop(server.client, stop, httpx.TransportError)
    assert server.ended() == 0
    assert received == logged_statuses("".join(server.log))
    assert set(received) <= {200, 503}


def test_from_sigterm_on_it_is_not_ready_and_answers_ask_for_another_connection(
    make_application, small_searcher
):
    application = make_application(small_searcher)
    assert application.ask("GET", "/health/ready").json() == {"status": "ready"}
    assert "connection" not in application.ask("GET", "/search?q=bread").headers
    application.state.drain()
    for path in ("/search?q=bread", "/health/ready"):
        answer = application.ask("GET", path)
        assert (answer.status_code, answer.headers["connection"]) == (503, "close")
        assert "about to stop" in answer.json()["detail"]
        assert answer.headers["retry-after"]
    assert application.ask("HEAD", "/health/live").status_code == 200
