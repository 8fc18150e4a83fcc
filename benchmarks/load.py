"""A load generator light enough to share a core with the service that it measures.

Each connection sends its next request as soon as it has the answer to the last one (a closed loop).
"""

import re
import select
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from urllib.parse import urlsplit

from pydantic_core import to_json

RECEIVED_BYTES = 1 << 18
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n")
_SUCCESS = b"HTTP/1.1 200 "
_END_OF_HEAD = b"\r\n\r\n"
_STAGE = re.compile(r"(\w+);dur=([0-9.]+)")
_TIMEOUT_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Load:
    """What a load met: requests answered, over how many seconds, and this process's CPU seconds.

    `latencies` in seconds and `stage_seconds`, as the service tells them, are those of each request
    where they came one by one.
    """

    answers: int
    seconds: float
    cpu_seconds: float
    latencies: list[float] = field(default_factory=list)
    stage_seconds: list[dict[str, float]] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Answers a second."""
        return self.answers / self.seconds

    @property
    def cpu_microseconds(self) -> float:
        """What the generator itself takes for one request."""
        return 1e6 * self.cpu_seconds / self.answers


def search_request(query: str, top_k: int = 10) -> bytes:
    """`POST /search`, as a client that keeps its connection sends it."""
    body = to_json({"query": query, "top_k": top_k})
    head = (
        "POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def one_by_one(address: str, requests: Sequence[bytes]) -> Load:
    """Send each request once over one connection; its latency is from sending to the last byte."""
    latencies, answers = [], []
    with connect(address) as connection:
        began, cpu_began = time.perf_counter(), time.process_time()
        for request in requests:
            sent = time.perf_counter()
            connection.sendall(request)
            answers.append(_receive(connection))
            latencies.append(time.perf_counter() - sent)
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    return Load(len(requests), seconds, cpu_seconds, latencies, list(map(_stages, answers)))


def saturate(
    addresses: Sequence[str], requests: Sequence[bytes], *, connections: int, seconds: float
) -> Load:
    """Keep `connections` requests under way for so many seconds, taking turns of `requests`.

    The connections are spread evenly over `addresses`.
    """
    following = cycle(requests)
    clients = {
        client.fileno(): client for client in map(connect, islice(cycle(addresses), connections))
    }
    received = dict.fromkeys(clients, b"")
    poll = select.epoll()
    for descriptor in clients:
        poll.register(descriptor, select.EPOLLIN)
    answers = 0
    began, cpu_began = time.perf_counter(), time.process_time()
    end = began + seconds
    for client in clients.values():
        client.sendall(next(following))
    while (now := time.perf_counter()) < end:
        for descriptor, _ in poll.poll(end - now):
            client = clients[descriptor]
            answer = received[descriptor] + client.recv(RECEIVED_BYTES)
            if _is_whole_success(answer):
                answers += 1
                client.sendall(next(following))
                answer = b""
            received[descriptor] = answer
    load = Load(answers, now - began, time.process_time() - cpu_began)
    poll.close()
    for descriptor, client in clients.items():
        with client:  # what is under way is waited for, so that the next load finds an idle service
            _receive(client, received[descriptor])
    return load


def connect(address: str) -> socket.socket:
    """A connection to the service at `address`, which sends at once what it is given."""
    url = urlsplit(address)
    connection = socket.create_connection((url.hostname, url.port), timeout=_TIMEOUT_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def has_ended(connection: socket.socket) -> bool:
    """Whether a connection on which nothing is asked was closed at its other end."""
    # All there could be to read is its end.
    return bool(select.select([connection], [], [], 0)[0])


def is_whole(answer: bytes) -> bool:
    """Whether `answer` is an HTTP answer from its first byte to its last, whatever its status."""
    end_of_head = answer.find(_END_OF_HEAD)
    if end_of_head < 0:
        return False
    length = _LENGTH.search(answer, 0, end_of_head + 2)
    if length is None:
        raise SystemExit(f"the service answered {answer[:end_of_head]!r}")
    return len(answer) == end_of_head + len(_END_OF_HEAD) + int(length[1])


def _receive(connection: socket.socket, answer: bytes = b"") -> bytes:
    while not _is_whole_success(answer):
        answer += connection.recv(RECEIVED_BYTES)
    return answer


def _stages(answer: bytes) -> dict[str, float]:
    head = answer.partition(_END_OF_HEAD)[0].decode()
    return {stage: float(milliseconds) / 1000 for stage, milliseconds in _STAGE.findall(head)}


def _is_whole_success(answer: bytes) -> bool:
    whole = is_whole(answer)
    if whole and not answer.startswith(_SUCCESS):
        raise SystemExit(f"the service answered {answer.partition(_END_OF_HEAD)[0]!r}")
    return whole
