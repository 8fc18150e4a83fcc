"""The HTTP client of all load tests: persistent connections, times to the microsecond.

A request costs it much less processor time than the service. With httpx, as in `swiftlet.Client`,
a request costs some thirty times as much, and the generator would be the limit, not the service.
"""

import asyncio
import json
import re
import select
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle
from math import isnan
from typing import Any
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpResponseParser

OK = 200
REJECTIONS = (429, 503, 504)
"""Statuses with which a service sheds load: queue full, stopping, deadline expired."""

NO_ANSWER = 0
"""The status of a request without an answer: never sent, connection lost, or given up."""

_NOT_YET = float("nan")
_STAGE = re.compile(r"([\w-]+);dur=([0-9.]+)")
_SOONEST_CLOSED_SECONDS = 1.0
"""A server may close a connection after this idle time; if it closes earlier, a request is lost."""


@dataclass(frozen=True)
class Request:
    """One request; with `close` the service is asked to close the connection after its answer.

    `key` is sent as a bearer token.
    """

    kind: str
    path: str
    body: bytes = b""
    method: str = "POST"
    request_id: str = ""
    close: bool = False
    key: str = ""

    @cached_property
    def message(self) -> bytes:
        """The bytes of the request."""
        head = f"{self.method} {self.path} HTTP/1.1\r\nHost: localhost\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(self.body)}\r\n"
        head += f"X-Request-Id: {self.request_id}\r\n" if self.request_id else ""
        head += f"Authorization: Bearer {self.key}\r\n" if self.key else ""
        head += "Connection: close\r\n" if self.close else ""
        return f"{head}\r\n".encode() + self.body


def search(query: str, mode: str | None = None, **options: Any) -> Request:
    """`POST /search` for one query; `options` are further fields of `Request`."""
    body = json.dumps({"query": query, "mode": mode}).encode()
    return Request("single", "/search", body, **options)


def stage_times(server_timing: str) -> dict[str, float]:
    """Milliseconds of each stage in a Server-Timing header, in its order."""
    return {name: float(value) for name, value in _STAGE.findall(server_timing)}


@dataclass(slots=True)
class Exchange:
    """A request and its answer; all moments are in seconds of one monotonic clock.

    `scheduled` is when the request was due, `begun` when the generator handled it, `sent` when a
    connection was free for it (NaN if never), `finished` when it was answered or given up.
    """

    request: Request
    scheduled: float
    begun: float = _NOT_YET
    sent: float = _NOT_YET
    finished: float = _NOT_YET
    status: int = NO_ANSWER
    server_timing: bytes = b""

    @property
    def was_sent(self) -> bool:
        """Whether a connection was established and the request was written to it."""
        return not isnan(self.sent)

    @property
    def latency(self) -> float:
        """Seconds from the scheduled moment to the end."""
        return self.finished - self.scheduled


class _Connection(asyncio.Protocol):
    """A connection for one exchange at a time."""

    def __init__(self, pool: "Pool") -> None:
        self._pool, self._loop = pool, asyncio.get_running_loop()
        self._exchange: Exchange | None = None
        self._open = self._was_idle = self._heard = False
        self._poll = select.poll()

    @property
    def usable(self) -> bool:
        """Whether another request can be sent: the server has not closed the connection."""
        return self._open and not self._poll.poll(0)

    def send(self, exchange: Exchange, *, was_idle: bool) -> None:
        """Send a request now; `was_idle` if the connection was idle for a long time before."""
        self._exchange, self._was_idle, self._heard = exchange, was_idle, False
        self._parser = HttpResponseParser(self)
        exchange.sent = self._loop.time()
        self._transport.write(exchange.request.message)

    def abort(self) -> None:
        """Close at once; an exchange under way ends without an answer."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._open = transport, True
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self._heard = True
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            if isinstance(error.__context__, KeyboardInterrupt):
                raise error.__context__ from None  # a signal came during a callback of the parser
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """Called by asyncio."""
        self._open = False
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.finished = self._loop.time()
        # Servers close idle connections after some seconds; any client then sends again.
        again = self._was_idle and not self._heard
        self._pool.lost(self, exchange, again=again, reset=error is not None)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser."""
        if name.lower() == b"server-timing" and self._exchange is not None:
            self._exchange.server_timing = value

    def on_message_complete(self) -> None:
        """Called by the parser."""
        exchange, self._exchange = self._exchange, None
        if exchange is None:  # an answer without a request
            self.abort()
            return
        exchange.finished = self._loop.time()
        exchange.status = self._parser.get_status_code()
        # If not kept alive, the server closes the connection, and the pool counts a reset.
        self._open = self._parser.should_keep_alive()
        self._pool.answered(self, exchange)


class Pool:
    """At most `size` connections to the services, opened when needed and used in rotation.

    Rotation keeps all of them from being idle for long. `on_end` is called with each exchange that
    has ended, answered or not; `under_way` counts the others. `repeated` counts requests that were
    sent again because the server had closed an idle connection, `resets` the connections that were
    reset after their last answer.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        size: int,
        on_end: Callable[[Exchange], None] = lambda _exchange: None,
    ) -> None:
        urls = [urlsplit(address) for address in addresses]
        self._targets = cycle([(url.hostname or "", url.port or 80) for url in urls])
        self._size, self._on_end = size, on_end
        self._idle: deque[tuple[_Connection, float]] = deque()  # with the time of the last use
        self._all: set[_Connection] = set()
        self._waiting: deque[Exchange] = deque()
        self._opening: set[asyncio.Task[_Connection]] = set()
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self.under_way = self.repeated = self.resets = 0

    async def open(self, count: int) -> None:
        """Open `count` connections in advance.

        :raises OSError: When the connection is refused.
        """
        for _ in range(count):
            self._use(await self._connect())

    def begin(self, exchange: Exchange) -> None:
        """Send the request on a free connection, or as soon as one is free."""
        exchange.begun = self._loop.time()
        self.under_way += 1
        self._send(exchange)

    def close(self) -> None:
        """Close all connections; requests under way and waiting ones end without an answer."""
        self._closed = True
        for task in self._opening:
            task.cancel()
        for connection in list(self._all):
            connection.abort()
        while self._waiting:
            self._give_up(self._waiting.popleft())

    def answered(self, connection: _Connection, exchange: Exchange) -> None:
        """Called by a connection."""
        if connection.usable:
            self._use(connection)
        self._end(exchange)

    def lost(
        self, connection: _Connection, exchange: Exchange | None, *, again: bool, reset: bool
    ) -> None:
        """Called by a connection."""
        self._all.discard(connection)
        if exchange is None:
            self.resets += reset
        elif again and not self._closed:
            self.repeated += 1
            self._send(exchange)
        else:
            self._end(exchange)
        self._open_another()

    def _send(self, exchange: Exchange) -> None:
        while self._idle:
            connection, since = self._idle.popleft()
            if connection.usable:
                was_idle = self._loop.time() - since >= _SOONEST_CLOSED_SECONDS
                connection.send(exchange, was_idle=was_idle)
                return
        self._waiting.append(exchange)
        self._open_another()

    def _use(self, connection: _Connection) -> None:
        if self._waiting:
            connection.send(self._waiting.popleft(), was_idle=False)
        else:
            self._idle.append((connection, self._loop.time()))

    def _open_another(self) -> None:
        """Open a connection, up to `size`, if more requests wait than connections are opening."""
        room = self._size - len(self._all) - len(self._opening)
        if room > 0 and len(self._opening) < len(self._waiting) and not self._closed:
            task = self._loop.create_task(self._connect())
            self._opening.add(task)
            task.add_done_callback(self._opened)

    def _opened(self, task: asyncio.Task[_Connection]) -> None:
        self._opening.discard(task)
        if task.cancelled():
            return
        if not isinstance(task.exception(), OSError):
            self._use(task.result())
        elif self._waiting:
            self._give_up(self._waiting.popleft())
            self._open_another()

    async def _connect(self) -> _Connection:
        host, port = next(self._targets)
        _, connection = await self._loop.create_connection(lambda: _Connection(self), host, port)
        self._all.add(connection)
        return connection

    def _give_up(self, exchange: Exchange) -> None:
        exchange.finished = self._loop.time()
        self._end(exchange)

    def _end(self, exchange: Exchange) -> None:
        self.under_way -= 1
        self._on_end(exchange)
