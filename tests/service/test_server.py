import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import httpx
import pytest

from service.listeners import listen
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.errors import InvalidArgumentError
from tests.polling import wait_until
from tests.service.conftest import START

LONG_QUERY = "many long words " * 600
BODY = json.dumps({"query": "bread"}).encode()
REQUEST = b"POST /search HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)


def wait_for_requests_in_flight(server: Any, number: int) -> None:
    """Return as soon as `number` requests are under way, without the one that checks."""
    wait_until(lambda: server.value("swiftlet_requests_in_flight") > number)


def test_a_signal_lets_requests_under_way_finish_and_ends_the_process_well(start_server):
    server = start_server()
    with server.client() as client, ThreadPoolExecutor() as pool:
        # An idle connection must not delay the stop.
        client.get("/health/ready").raise_for_status()
        batch = {"queries": [f"{number} {LONG_QUERY}" for number in range(16)]}
        sent: list[Future[httpx.Response]] = []

        def is_under_way() -> bool:
            if not sent or sent[-1].done():  # the one before was answered too soon
                sent.append(pool.submit(server.client().post, "/search/batch", json=batch))
            return bool(server.value("swiftlet_requests_in_flight") > 1)

        wait_until(is_under_way)
        server.process.send_signal(signal.SIGINT)  # other tests send SIGTERM
        answer = sent[-1].result()
    assert len(answer.json()["results"]) == 16
    assert server.ended() == 0
    log = "".join(server.log)
    assert "SIGINT: finishing the requests under way" in log
    assert "Traceback" not in log
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url, timeout=100)


def status_of(connection: socket.socket) -> int:
    """The status of the answer; 0 if the connection ends without one."""
    response = http.client.HTTPResponse(connection)
    try:
        response.begin()
        response.read()
    except (OSError, http.client.HTTPException):
        return 0
    return response.status


def test_a_client_that_connected_and_sent_a_request_before_the_stop_is_answered(start_server):
    server = start_server(threads=1)
    kept = [server.connect() for _ in range(20)]
    for connection in kept:
        connection.sendall(REQUEST)
        assert status_of(connection) == 200
    # While it is suspended, connections wait in the backlog, as in a busy moment.
    server.process.send_signal(signal.SIGSTOP)
    new = [server.connect() for _ in range(200)]
    for connection in [*kept, *new]:
        connection.sendall(REQUEST)
    server.process.terminate()
    server.process.send_signal(signal.SIGCONT)
    with ThreadPoolExecutor(20) as pool:
        statuses = set(pool.map(status_of, [*kept, *new]))
    for connection in [*kept, *new]:
        connection.close()
    assert statuses <= {200, 503}
    assert server.ended() == 0


def test_signals_until_the_end_of_the_process_do_not_change_its_exit_status(start_server):
    process = start_server().process
    while process.poll() is None:
        process.send_signal(signal.SIGTERM)
        time.sleep(0.001)
    assert process.returncode == 0


def test_a_stop_before_it_is_ready_is_a_stop_too(small_index):
    settings = {"INDEX": str(small_index), "ENCODER": str(DEFAULT_ENCODER), "PORT": "0"}
    others = {name: value for name, value in os.environ.items() if "SWIFTLET" not in name}
    process = subprocess.Popen(
        [sys.executable, "-c", START],
        env=others | {f"SWIFTLET_{name}": value for name, value in settings.items()},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert "settings: " in process.stderr.readline()
    process.terminate()
    assert process.communicate(timeout=100)[1] == ""
    assert process.returncode == 0


@pytest.mark.check
def test_a_search_that_takes_longer_than_the_drain_timeout_does_not_keep_the_process(start_server):
    server = start_server(
        drain_timeout_seconds=1,
        threads=1,
        timeout_ms=60_000,
        cache_bytes=0,
        max_batch_queries=250,
        max_queued_queries=1000,
        access_log="true",
    )
    with ThreadPoolExecutor() as pool:
        slow = [
            pool.submit(
                server.client().post,
                "/search/batch",
                json={"queries": [LONG_QUERY] * 250},
                headers={"X-Request-Id": f"slow-{number}"},
            )
            for number in range(4)
        ]
        wait_for_requests_in_flight(server, 4)
        server.process.terminate()
        assert server.ended() == 0
        answers = [each.result() for each in slow]
    for answer in answers:
        assert answer.status_code == 503
        assert answer.json()["detail"] == (
            "the service has ended before there was an answer; ask another one"
        )
    log = "".join(server.log)
    assert {f"slow-{number} POST /search/batch 503" in log for number in range(4)} == {True}
    assert "Traceback" not in log


@pytest.mark.parametrize(
    ("hosts", "answering"),
    [
        ("127.0.0.1,::1", {"127.0.0.1", "::1"}),
        ("0.0.0.0, ::", {"127.0.0.1", "::1"}),
        ("::", {"127.0.0.1", "::1"}),
        ("::1", {"::1"}),
        ("0.0.0.0", {"127.0.0.1"}),
        ("localhost", {place[0] for *_, place in socket.getaddrinfo("localhost", None)}),
    ],
)
def test_all_addresses_of_its_hosts_have_one_port(hosts, answering):
    reached = set()
    with listen(hosts, 0) as listeners:
        (port,) = {listener.getsockname()[1] for listener in listeners}
        for address in ("127.0.0.1", "::1"):
            with suppress(ConnectionRefusedError), socket.create_connection((address, port)):
                reached.add(address)
    assert reached == answering


def test_it_answers_at_each_of_its_hosts(start_server):
    server = start_server(host="127.0.0.1,::1")
    port = server.url.rpartition(":")[2]
    for address in (server.url, f"http://[::1]:{port}"):
        assert httpx.get(f"{address}/health/ready").status_code == 200
    server.process.terminate()
    assert server.ended() == 0
    assert f"listening on {server.url} and http://[::1]:{port}\n" in "".join(server.log)


@pytest.mark.parametrize(
    ("host", "sentence"),
    [
        ("256.0.0.1", "the host is '256.0.0.1'; an address of this machine"),
        ("192.0.2.1", "cannot listen on 192.0.2.1 port 0: Cannot assign requested address"),
        (
            "127.0.0.1",
            "cannot listen on 127.0.0.1 port {port}: another process listens there; choose",
        ),
    ],
)
def test_a_place_where_it_cannot_listen_is_refused_in_one_sentence(host, sentence):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1] if "{port}" in sentence else 0
        with pytest.raises(InvalidArgumentError) as refusal, listen(host, port):
            pass
    assert str(refusal.value).startswith(sentence.format(port=port))


def test_a_service_that_cannot_start_prints_the_reason_in_one_sentence(start_server):
    server = start_server(index="/nowhere")
    assert server.url == ""
    assert server.ended() == 1
    (line,) = server.log
    assert line.startswith("/nowhere is not a directory")


@pytest.mark.parametrize("log", ["2>/dev/full", "2>&-"])
def test_without_room_for_its_log_it_does_not_start(small_index, log):
    command = f"exec '{sys.executable}' -m swiftlet serve '{small_index}' --port 0 {log}"
    assert subprocess.run(["sh", "-c", command], timeout=60, check=False).returncode == 2


def test_with_too_few_files_it_does_not_start(small_index):
    command = f"ulimit -n 20; exec '{sys.executable}' -m swiftlet serve '{small_index}' --port 0"
    ended = subprocess.run(
        ["sh", "-c", command],
        env={**os.environ, "SWIFTLET_THREADS": "2", "SWIFTLET_WORKERS": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1] == (
        "swiftlet: at most 20 files may be open at once; at least 98 are expected, "
        "by ulimit -n or LimitNOFILE"
    )


def test_a_damaged_index_is_not_served(start_server, small_index, tmp_path):
    shutil.copytree(small_index, tmp_path, dirs_exist_ok=True)
    damaged = tmp_path / "documents.sqlite"
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    server = start_server(index=tmp_path)
    assert server.ended() == 1
    assert str(damaged) in server.log[-1]


def test_the_log_has_the_settings(server):
    assert re.fullmatch(r"http://127\.0\.0\.1:[1-9]\d+", server.url)
    (line,) = [line for line in server.log if "settings: " in line]
    assert "SWIFTLET_PORT=0" in line
    assert "SWIFTLET_ACCESS_LOG=True" in line


def test_answers_to_head_have_the_headers_alone(server):
    with server.client() as client:
        for path in ("/health/live", "/health/ready", "/search?q=bread", "/docs", "/nothing"):
            head, get = client.head(path), client.get(path)
            assert (head.status_code, head.content) == (get.status_code, b"")
            assert head.headers["content-type"] == get.headers["content-type"]
            assert head.headers["content-length"] == get.headers["content-length"]


def test_the_application_comes_without_torch_and_transformers():
    served = "service.app, service.server, swiftlet.index.building.build"
    program = f"import sys, {served}; print('\\n'.join(sys.modules))"
    modules = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "service.app" in modules
    assert not {"torch", "transformers", "sentence_transformers", "optimum"} & set(modules)
