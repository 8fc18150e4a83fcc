"""An open-loop load: requests come when they come, whether or not earlier ones have been answered.

Arrivals are a Poisson process, and a latency counts from when a request was due, so that whatever
holds up the generator counts against the service and not for it.
"""

import random
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import NamedTuple

from load import RECEIVED_BYTES, connect, is_whole
from pydantic_core import to_json

NO_ANSWER = 0
"""In place of the status of a request whose connection ended without a whole answer."""

MOST_CONNECTIONS = 1000
_ARRIVAL_SEED = 5
_SECONDS_FOR_LATE_ANSWERS = 30


class Request(NamedTuple):
    """The bytes of a request, and the route that the service counts it under."""

    route: str
    content: bytes


@dataclass(slots=True)
class Arrivals:
    """What became of the requests that were due.

    `latencies`, in seconds from when it was due to its last byte, are those of each answer by route
    and status. `unsent` are the requests that found every connection waiting for an answer.
    """

    ended: float = 0.0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    unsent: int = 0
    latencies: dict[tuple[str, int], list[float]] = field(default_factory=dict)

    @property
    def counts(self) -> dict[tuple[str, int], int]:
        """How many requests of each route ended in each status."""
        return {ending: len(latencies) for ending, latencies in self.latencies.items()}

    @property
    def statuses(self) -> dict[int, int]:
        """How many requests ended in each status."""
        found: dict[int, int] = {}
        for (_, status), count in sorted(self.counts.items(), key=lambda item: item[0][1]):
            found[status] = found.get(status, 0) + count
        return found

    @property
    def due(self) -> int:
        """How many requests there were."""
        return sum(self.counts.values()) + self.unsent

    def of_status(self, status: int) -> list[float]:
        """Seconds of each answer of that status, in order of size."""
        found = (each for (_, ending), each in self.latencies.items() if ending == status)
        return sorted(seconds for each in found for seconds in each)


def request(route: str, body: object = None, *, method: str = "POST", path: str = "") -> Request:
    """A request as a client that keeps its connection sends it; `path` where it is not the route.

    A `body` of bytes is sent as it is.
    """
    content = b"" if body is None else body if isinstance(body, bytes) else to_json(body)
    head = (
        f"{method} {path or route} HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return Request(route, head.encode() + content)


def searches(queries: Sequence[str]) -> list[Request]:
    """`POST /search` for each of `queries`."""
    return [request("/search", {"query": query}) for query in queries]


def arrive(
    address: str,
    requests: Sequence[Request],
    *,
    rate: float,
    seconds: float,
    connections: int = MOST_CONNECTIONS,
    go_on: Callable[[], bool] = lambda: True,
) -> Arrivals:
    """Let `requests` arrive in turns, `rate` a second on average, for so long or while `go_on()`.

    Returns when all that were sent have ended.
    """
    return _Generator(address, connections).run(requests, rate, seconds, go_on)


class _Client:
    """One connection, with what it has sent and what has come back."""

    __slots__ = ("connection", "due", "received", "route")

    def __init__(self, address: str) -> None:
        self.connection: socket.socket = connect(address)
        self.due, self.received, self.route = 0.0, b"", ""


class _Generator:
    def __init__(self, address: str, connections: int) -> None:
        self._address, self._connections = address, connections
        self._poll = select.epoll()
        self._clients: dict[int, _Client] = {}
        self._free: deque[_Client] = deque()
        self._waiting = 0
        self._arrivals = Arrivals()

    def run(
        self, requests: Sequence[Request], rate: float, seconds: float, go_on: Callable[[], bool]
    ) -> Arrivals:
        following, gaps = cycle(requests), _gaps(rate)
        cpu_began, began = time.process_time(), time.perf_counter()
        end, due = began + seconds, began + next(gaps)
        while (now := time.perf_counter()) < end and go_on():
            while due <= now:
                self._send(next(following), due)
                due += next(gaps)
            self._receive(min(due, end) - now)
        arrivals = self._arrivals
        arrivals.ended = time.perf_counter()
        arrivals.seconds = arrivals.ended - began
        while self._waiting and time.perf_counter() < arrivals.ended + _SECONDS_FOR_LATE_ANSWERS:
            self._receive(1.0)
        arrivals.cpu_seconds = time.process_time() - cpu_began
        self._close()
        return arrivals

    def _send(self, request: Request, due: float) -> None:
        if self._free:
            client = self._free.popleft()
        elif len(self._clients) < self._connections:
            client = _Client(self._address)
            descriptor = client.connection.fileno()
            self._clients[descriptor] = client
            self._poll.register(descriptor, select.EPOLLIN)
        else:
            self._arrivals.unsent += 1
            return
        client.due, client.route = due, request.route
        self._waiting += 1
        try:
            client.connection.sendall(request.content)
        except OSError:
            self._end(client, NO_ANSWER)
            self._drop(client)

    def _receive(self, seconds: float) -> None:
        # epoll counts in milliseconds, and select in microseconds.
        if not select.select([self._poll], [], [], max(seconds, 0))[0]:
            return
        for descriptor, _ in self._poll.poll(0):
            client = self._clients[descriptor]
            try:
                received = client.connection.recv(RECEIVED_BYTES)
            except OSError:
                received = b""
            if not received:
                if client.due:
                    self._end(client, NO_ANSWER)
                else:
                    self._free.remove(client)
                self._drop(client)
                continue
            client.received += received
            if is_whole(client.received):
                closes = b"\r\nconnection: close\r\n" in client.received
                self._end(client, int(client.received[9:12]))
                if closes:
                    self._drop(client)
                else:
                    self._free.append(client)

    def _end(self, client: _Client, status: int) -> None:
        latency = time.perf_counter() - client.due
        self._arrivals.latencies.setdefault((client.route, status), []).append(latency)
        client.due, client.received = 0.0, b""
        self._waiting -= 1

    def _drop(self, client: _Client) -> None:
        descriptor = client.connection.fileno()
        self._poll.unregister(descriptor)
        del self._clients[descriptor]
        client.connection.close()

    def _close(self) -> None:
        for client in list(self._clients.values()):
            if client.due:
                self._end(client, NO_ANSWER)
            self._drop(client)
        self._poll.close()


def _gaps(rate: float) -> Iterator[float]:
    random_numbers = random.Random(_ARRIVAL_SEED)
    while True:
        yield random_numbers.expovariate(rate)
