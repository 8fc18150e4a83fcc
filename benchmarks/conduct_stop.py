"""SIGTERM under load, again and again: whether any request that was accepted is lost."""

import random
import re
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from statistics import median
from threading import Event

from conduct_bench import Bench, Bound, Section, status_table
from conduct_load import NO_ANSWER
from load import RECEIVED_BYTES, connect, has_ended, is_whole
from pydantic_core import to_json

_KEEPING_CLIENTS, _OPENING_CLIENTS = 12, 4
_LOAD_SECONDS = (0.5, 1.5)
_EXIT_TIMEOUT_SECONDS = 40
_ALLOWED = {200, 503}
_LOGGED = re.compile(r" service\.asgi: (\S+) POST /search (\d+) ")
_SIGNAL_SEED = 5


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request that was sent as a whole: its id, its status, and how its connection ended."""

    request_id: str
    status: int
    reset: bool = False


@dataclass(frozen=True, slots=True)
class _Stop:
    """One stop: what was asked, and what the service says that it answered, by request id."""

    asked: Sequence[_Asked]
    logged: dict[str, int]
    exit_status: int
    seconds: float

    @property
    def lost(self) -> list[_Asked]:
        return [each for each in self.asked if each.status == NO_ANSWER]

    @property
    def different(self) -> int:
        """Requests whose answers differ from what the service says of them."""
        answered = {each.request_id: each.status for each in self.asked if each.status}
        return len(answered.items() ^ self.logged.items())


def stop(bench: Bench, times: int) -> Section:
    """Start a service, load it and stop it, so many times."""
    moments = random.Random(_SIGNAL_SEED)
    return _section([_stop(bench, moments.uniform(*_LOAD_SECONDS)) for _ in range(times)])


def _stop(bench: Bench, after_seconds: float) -> _Stop:
    numbers = count()
    enough = Event()
    clients = [True] * _KEEPING_CLIENTS + [False] * _OPENING_CLIENTS
    with ThreadPoolExecutor(len(clients)) as pool, bench.serve(access_log="true") as running:
        asking = [
            pool.submit(_ask_on, running.address, bench.queries, numbers, enough, keep=keep)
            for keep in clients
        ]
        try:
            time.sleep(after_seconds)
            signalled = time.perf_counter()
            running.service.process.send_signal(signal.SIGTERM)
            exit_status = running.wait(_EXIT_TIMEOUT_SECONDS)
            seconds = time.perf_counter() - signalled
        finally:
            enough.set()
        asked = [each for client in asking for each in client.result()]
        lines = map(_LOGGED.search, running.log)
        logged = {line[1]: int(line[2]) for line in lines if line}
    return _Stop(asked, logged, exit_status, seconds)


def _ask_on(
    address: str, queries: Sequence[str], numbers: Iterator[int], enough: Event, *, keep: bool
) -> list[_Asked]:
    """Search until nobody listens any more, on one connection as long as it lasts or on new ones.

    As every HTTP client does, it sends nothing on a connection that it has seen the end of.
    """
    asked: list[_Asked] = []
    while not enough.is_set():
        try:
            connection = connect(address)
        except OSError:
            return asked  # refused: nothing was accepted
        with connection:
            while not has_ended(connection):
                number = next(numbers)
                request_id = f"stop-{number}"
                query = queries[number % len(queries)]
                asked.append(_ask(connection, query, request_id, keep=keep))
                if not keep or asked[-1].status == NO_ANSWER:
                    break
    return asked


def _ask(connection: socket.socket, query: str, request_id: str, *, keep: bool) -> _Asked:
    body = to_json({"query": query})
    head = (
        f"POST /search HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: {request_id}\r\n"
        f"Connection: {'keep-alive' if keep else 'close'}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    answer = b""
    try:
        connection.sendall(head.encode() + body)
        while not is_whole(answer):
            received = connection.recv(RECEIVED_BYTES)
            if not received:
                return _Asked(request_id, NO_ANSWER)
            answer += received
    except OSError:
        return _Asked(request_id, NO_ANSWER, reset=True)
    reset = False
    if b"\r\nconnection: close\r\n" in answer:
        try:
            connection.recv(1)  # nothing, as the service closes it
        except OSError:
            reset = True
    return _Asked(request_id, int(answer[9:12]), reset)


def _section(stops: Sequence[_Stop]) -> Section:
    asked = [each for stopped in stops for each in stopped.asked]
    begun = sum(each.request_id in stopped.logged for stopped in stops for each in stopped.lost)
    lost = [each for each in asked if each.status == NO_ANSWER]
    others = sorted({each.status for each in asked} - _ALLOWED - {NO_ANSWER})
    resets = sum(each.reset for each in asked if each.status)
    exits = sorted({stopped.exit_status for stopped in stops})
    different = sum(stopped.different for stopped in stops)
    seconds = [stopped.seconds for stopped in stops]
    loaded = sum(any(each.status == 200 for each in stopped.asked) for stopped in stops)
    words = WORDS.format(
        times=len(stops),
        clients=_KEEPING_CLIENTS + _OPENING_CLIENTS,
        keeping=_KEEPING_CLIENTS,
        opening=_OPENING_CLIENTS,
        statuses=status_table(Counter(each.status for each in asked)),
        median=f"{median(seconds):.2f}",
        most=f"{max(seconds):.2f}",
    )
    return Section(
        "Stopping under load",
        words,
        [
            Bound("stops under load", str(loaded), str(len(stops)), loaded == len(stops)),
            Bound("lost after the service had begun them", str(begun), "0", not begun),
            Bound(
                "lost before the service had read them",
                str(len(lost) - begun),
                "0",
                len(lost) == begun,
            ),
            Bound("answers that differ from the access log", str(different), "0", not different),
            Bound(
                "statuses but for 200 and 503",
                ", ".join(map(str, others)) or "none",
                "none",
                not others,
            ),
            Bound("connections reset after their last answer", str(resets), "0", not resets),
            Bound("exit statuses", ", ".join(map(str, exits)), "0", exits == [0]),
        ],
    )


WORDS = """
{times} services, each under full load by {clients} clients when it gets SIGTERM: {keeping} keep
their connections, {opening} open one for each request. They go on until connecting is refused.

A request was accepted if its connection was established and all of it was sent: a client gives up
only what was refused when it connected, or what it had not yet sent when it saw that its connection
had ended. Each request has an id of its own; what the service says in its access log of each id
must be what the client got. A request without a whole answer is lost, whether or not the service
had read it.

{statuses}

503 is the answer to searches that arrive after the signal; they are answered, with `Connection:
close`. From the signal to the end of the process: median {median} s, at most {most} s.
"""
