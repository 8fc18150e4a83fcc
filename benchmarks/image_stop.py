"""`docker stop` under load: whether a client lacks the answer to a request that it has sent."""

import http.client
import re
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from threading import Event

from conduct_load import NO_ANSWER
from load import RECEIVED_BYTES, connect, has_ended, is_whole
from pydantic_core import to_json

_QUERIES = ("the most common elements of a list", "read a zip archive", "measure elapsed time")
_PATIENCE_SECONDS = 35
_READY_SECONDS = 60
_LOGGED = re.compile(r" service\.asgi: (\S+) POST /search (\d+) ")


@dataclass(frozen=True, slots=True)
class Stop:
    """One stop: answers that clients received by status, and how many requests were lost.

    Lost is what was sent and not answered as the service's log says, whether or not it had read it.
    `seconds` are those that `docker stop` took.
    """

    answers: Mapping[int, int]
    lost: int
    exit_status: int
    seconds: float


def stop_under_load(tag: str, *, seconds: float, clients: int) -> Stop:
    """Start a container, load it for so many seconds, and stop it."""
    container = _docker("run", "--detach", "--env=SWIFTLET_ACCESS_LOG=true", tag).strip()
    try:
        # Its own address, since what forwards published ports ends with the container.
        address = _docker("inspect", "--format", "{{.NetworkSettings.IPAddress}}", container)
        url = f"http://{address.strip()}:8000"
        _wait_until_ready(address.strip())
        enough = Event()
        with ThreadPoolExecutor(clients) as pool:
            asking = [pool.submit(_ask_on, url, f"client-{n}", enough) for n in range(clients)]
            try:
                time.sleep(seconds)
                began = time.perf_counter()
                _docker("stop", "-t", str(_PATIENCE_SECONDS), container)
                stop_seconds = time.perf_counter() - began
            finally:
                enough.set()
            asked = {key: status for each in asking for key, status in each.result().items()}
        exit_status = int(_docker("wait", container))
        log = subprocess.run(
            ["docker", "logs", container], check=True, capture_output=True, text=True
        ).stderr
    finally:
        _docker("rm", "--force", container)
    answered = {found[1]: int(found[2]) for found in map(_LOGGED.search, log.splitlines()) if found}
    lost = sum(answered.get(key) != status for key, status in asked.items())
    answers = Counter(status for status in asked.values() if status != NO_ANSWER)
    return Stop(answers, lost, exit_status, stop_seconds)


def _ask_on(url: str, name: str, enough: Event) -> dict[str, int]:
    """Search until nobody listens any more; the status of each request's answer, by its id.

    As every HTTP client does, it sends nothing on a connection that it has seen the end of.
    """
    asked: dict[str, int] = {}
    numbers = count()
    while not enough.is_set():
        try:
            connection = connect(url)
        except OSError:
            break  # refused: nothing was accepted
        with connection:
            closes = False
            while not closes and not has_ended(connection):
                number = next(numbers)
                query = _QUERIES[number % len(_QUERIES)]
                answer = _answer_to(connection, _request(query, f"{name}-{number}"))
                asked[f"{name}-{number}"] = int(answer[9:12]) if answer else NO_ANSWER
                closes = not answer or b"\r\nconnection: close\r\n" in answer
    return asked


def _answer_to(connection: socket.socket, request: bytes) -> bytes:
    """The whole answer, or nothing where the connection ends before."""
    answer = b""
    try:
        connection.sendall(request)
        while not is_whole(answer):
            part = connection.recv(RECEIVED_BYTES)
            if not part:
                return b""
            answer += part
    except OSError:
        return b""
    return answer


def _request(query: str, request_id: str) -> bytes:
    body = to_json({"query": query})
    head = (
        f"POST /search HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: {request_id}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _wait_until_ready(host: str) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        connection = http.client.HTTPConnection(host, 8000, timeout=5)
        try:
            connection.request("GET", "/health/ready")
            if connection.getresponse().status == http.client.OK:
                return
        except OSError:
            time.sleep(0.02)
        finally:
            connection.close()
    raise SystemExit("the container never became ready")


def _docker(*arguments: str) -> str:
    return subprocess.run(
        ["docker", *arguments], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
