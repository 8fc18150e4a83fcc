"""Several processes answer at one port as one service."""

import http.client
import json
import os
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.index.building.build import build_index
from swiftlet.types import Document
from tests.polling import wait_until
from tests.service.conftest import Server, running, start
from tests.stops import search_through_a_stop

KEY = "the-key-of-the-tests"
BEARER = {"Authorization": f"Bearer {KEY}"}


TEXTS = {"tea": "Leaves in hot water.", "ski": "Down a slope on boards."}


class Worker:
    """One process of a service."""

    def __init__(self, server: Server, process: psutil.Process) -> None:
        self.server, self.process = server, process

    def connect(self) -> http.client.HTTPConnection:
        """A new connection that this process has accepted: the other one is stopped meanwhile."""
        address = urlsplit(self.server.url)
        assert address.hostname is not None
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=100)
        others = [each for each in processes(self.server) if each != self.process]
        for each in others:
            with suppress(psutil.NoSuchProcess):  # it was killed
                each.suspend()
        connection.connect()
        port = connection.sock.getsockname()[1]
        wait_until(
            lambda: port in [c.raddr and c.raddr.port for c in self.process.net_connections()]
        )
        for each in others:
            with suppress(psutil.NoSuchProcess):
                each.resume()
        return connection

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        with closing(self.connect()) as connection:
            return asked(connection, method, path, body)

    def found(self, query: str) -> list[str]:
        status, answer = self.ask("POST", "/search", {"query": query})
        assert status == 200, answer
        return [hit["document_id"] for hit in answer["hits"]]


def asked(
    connection: http.client.HTTPConnection, method: str, path: str, body: object = None
) -> tuple[int, Any]:
    connection.request(method, path, None if body is None else json.dumps(body), BEARER)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read() or "null")


def processes(server: Server) -> list[psutil.Process]:
    return psutil.Process(server.process.pid).children()


def workers(server: Server) -> list[Worker]:
    """The processes, the one that has run for longer first; of new ones, that is the writer."""
    found = wait_until(lambda: len(found := processes(server)) == 2 and found)
    return [Worker(server, each) for each in sorted(found, key=lambda each: each.pid)]


def index_of(out: Path, **texts: str) -> Path:
    build_index([Document(name, text) for name, text in texts.items()], LOOKUP_QUERY_ENCODER, out)
    return out


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Path:
    """A link to an index."""
    folder = tmp_path_factory.mktemp("workers")
    index_of(folder / "first", **TEXTS)
    (folder / "index").symlink_to("first")
    return folder / "index"


@pytest.fixture(scope="module")
def server(index) -> Iterator[Server]:
    with running(index, workers=2, threads=2, write_keys=KEY, admin_keys=KEY) as server:
        yield server


@pytest.fixture
def own_index(tmp_path) -> Path:
    """An index that no other service writes."""
    return index_of(tmp_path / "index", **TEXTS)


@pytest.fixture
def pair(server) -> list[Worker]:
    return workers(server)


def test_each_process_writes_and_finds_what_was_written_at_once(pair):
    for asked in pair:
        row = {"_id": "new", "text": "Roasted coffee.", "metadata": {"kind": "drink"}}
        assert asked.ask("PUT", "/documents", {"documents": [row]})[0] == 200
        assert [worker.found("coffee")[0] for worker in pair] == ["new", "new"]
        status, answer = asked.ask("POST", "/documents/delete", {"filter": {"kind": "drink"}})
        assert (status, answer["documents"]) == (200, 1)
        assert [worker.ask("GET", "/documents/new")[0] for worker in pair] == [404, 404]
        status, answer = asked.ask("DELETE", "/documents/new")
        assert (status, answer["detail"]) == (404, "no document has the id 'new'")
        bad = {"documents": [{"_id": "a", "text": "b"}, {"_id": "c", "text": 3}]}
        status, answer = asked.ask("PUT", "/documents", bad)
        assert (status, answer["field"]) == (422, "documents[1]")


def test_one_scrape_has_the_figures_of_all_processes(server, pair):
    searched = 'route="/search",status="200"'
    risen = {
        f"swiftlet_requests_total{{{searched}}}": 3,
        'swiftlet_request_seconds_bucket{le="+Inf",route="/search"}': 3,
        'swiftlet_documents_written_total{change="put"}': 1,
        'swiftlet_reloads_total{outcome="loaded"}': 1,
        "swiftlet_changed_passages": 1,
    }
    before = {series: server.value(series) for series in risen}
    for times, worker in enumerate(pair, 1):
        for _ in range(times):
            worker.found("water")
    put = {"documents": [{"_id": "new", "text": "Roasted coffee."}]}
    assert pair[1].ask("PUT", "/documents", put)[0] == 200
    assert pair[1].ask("POST", "/admin/reload")[0] == 200
    for series, expected in risen.items():
        assert server.value(series) == before[series] + expected, series
    assert server.value("swiftlet_requests_in_flight") == 1
    started = min(worker.process.create_time() for worker in pair)
    assert abs(server.value("process_start_time_seconds") - started) < 60


def test_a_reload_reaches_all_processes_or_none(index, server, pair, tmp_path):
    def publish(version: Path) -> None:
        (index.parent / "next").symlink_to(version)
        (index.parent / "next").replace(index)

    for number, asked in enumerate(pair):
        publish(index_of(tmp_path / f"{number}", **{f"tax{number}": "Money for a state."}))
        status, answer = asked.ask("POST", "/admin/reload")
        assert status == 200
        for worker in pair:
            assert worker.found("state") == [f"tax{number}"]
            assert worker.ask("GET", "/info")[1]["index"]["fingerprint"] == answer["index"]
        publish(index.parent / "nowhere")
        status, answer = asked.ask("POST", "/admin/reload")
        assert (status, answer["detail"].count("stays in use")) == (409, 1)
        assert [worker.found("state") for worker in pair] == [[f"tax{number}"]] * 2
    publish(index.parent / "first")
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: all("tea" in worker.found("water") for worker in pair))


@pytest.mark.check
def test_a_process_that_was_killed_starts_again_and_has_all_that_was_written(server):
    for number in range(3):
        pair = workers(server)
        wait_until(partial(are_ready, pair))
        body = {"documents": [{"_id": f"{number}", "text": f"Coffee {number}."}]}
        assert pair[0].ask("PUT", "/documents", body)[0] == 200
        for worker in pair:
            assert {f"{each}" for each in range(number + 1)} < {*worker.found("coffee")}
        killed, other = pair if number else pair[::-1]  # the other one first, then the writer
        with closing(other.connect()) as connection:
            killed.process.kill()
            assert asked(connection, "POST", "/search", {"query": "coffee"})[0] == 200
        wait_until(lambda gone=killed.process: not gone.is_running())
    wait_until(lambda: "".join(server.log).count("(status -9) and starts again") == 3)


def are_ready(pair: list[Worker]) -> bool:
    """Whether both have begun to answer calls, which comes last."""
    return all(
        any("/swiftlet-" in each.laddr for each in worker.process.net_connections("unix"))
        for worker in pair
    )


@pytest.mark.check
@pytest.mark.parametrize("to_group", [False, True])
def test_a_stop_loses_no_request(small_index, *, to_group):
    server = start(small_index, workers=2, cache_bytes=0)
    group = [server.process.pid, *(each.pid for each in processes(server))]

    def stop() -> None:
        for pid in group if to_group else group[:1]:
            os.kill(pid, signal.SIGTERM)

    statuses = search_through_a_stop(server.client, stop, httpx.ConnectError)
    assert statuses.keys() <= {200, 503}
    assert server.ended() == 0
    assert "Traceback" not in "".join(server.log)


@pytest.mark.check
def test_a_write_that_another_process_has_asked_for_is_finished_before_the_end(own_index):
    server = start(own_index, workers=2, write_keys=KEY)
    writer, other = workers(server)
    body = {"documents": [{"_id": "last", "text": "Coffee."}]}
    assert other.ask("PUT", "/documents", body)[0] == 200
    (encoder,) = [p for p in writer.process.children() if "spawn_main" in f"{p.cmdline()}"]
    encoder.suspend()
    with closing(other.connect()) as connection, ThreadPoolExecutor(1) as pool:
        body = {"documents": [{"_id": "last", "text": "Tea."}]}
        answer = pool.submit(asked, connection, "PUT", "/documents", body)
        wait_until(lambda: server.value("swiftlet_requests_in_flight") == 2)
        server.process.terminate()
        wait_until(lambda: "".join(server.log).count("finishing the requests") == 2)
        encoder.resume()
        assert answer.result()[0] == 200
    assert server.ended() == 0
    with running(own_index) as after:
        assert after.client().get("/documents/last").json()["text"] == "Tea."


@pytest.mark.check
def test_a_further_process_takes_less_than_half_the_memory_of_a_service(own_index):
    def own_bytes(process: psutil.Process) -> int:
        return process.memory_full_info().uss

    with running(own_index, workers=1) as alone, running(own_index, workers=2) as several:
        assert alone.client().get("/search?q=water").status_code == 200
        for worker in workers(several):
            assert worker.found("water")
            assert own_bytes(worker.process) < own_bytes(psutil.Process(alone.process.pid)) / 2


def test_there_are_as_many_processes_as_threads_by_default(index):
    with running(index, workers="", threads=3) as server:
        assert len(processes(server)) == 3


def test_if_one_cannot_start_none_does_and_the_reason_is_said(index, tmp_path):
    shutil.copytree(index, tmp_path / "damaged")
    with (tmp_path / "damaged" / "index.faiss").open("r+b") as file:
        file.truncate(100)
    server = start(tmp_path / "damaged", workers=2)
    assert server.ended() == 1
    assert "index.faiss" in server.log[-1]


def test_all_processes_end_with_the_one_that_started_them(index):
    server = start(index, workers=2)
    started = processes(server)
    server.process.kill()
    psutil.wait_procs(started, timeout=100)
    assert not [each for each in started if each.is_running()]
    server.ended()
