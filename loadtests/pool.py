"""Connections to one service, and requests that wait for one of them."""

import asyncio
from collections import deque
from collections.abc import Callable

from loadtests.connection import Connection, Exchange, connect

_SOONEST_CLOSED_SECONDS = 1.0
"""After so long at rest a server may close a connection; sooner, it has dropped a request."""


class Pool:
    """At most `size` connections, opened as they are needed and used in turns.

    In turns, so that none is idle for long: servers close those. `on_end` is called with each
    exchange that has ended, answered or not.
    """

    def __init__(self, address: str, size: int, on_end: Callable[[Exchange], None]) -> None:
        self._address, self._size, self._on_end = address, size, on_end
        # With when it was used last.
        self._idle: deque[tuple[Connection, float]] = deque()
        self._all: set[Connection] = set()
        self._waiting: deque[Exchange] = deque()
        self._opening: set[asyncio.Task[Connection]] = set()
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self.repeated = 0

    async def open(self, count: int) -> None:
        """Open `count` connections in advance.

        :raises OSError: When nobody listens.
        """
        for _ in range(count):
            self._use(await self._connect())

    def begin(self, exchange: Exchange) -> None:
        """Send the request on a free connection, or as soon as there is one."""
        exchange.begun = self._loop.time()
        self._send(exchange)

    def close(self) -> None:
        """Close all connections; what is under way or waits ends without an answer."""
        self._closed = True
        waiting, self._waiting = self._waiting, deque()
        for task in self._opening:
            task.cancel()
        for connection in list(self._all):
            connection.abort()
        for exchange in waiting:
            self._give_up(exchange)

    def answered(self, connection: Connection, exchange: Exchange) -> None:
        """Called by a connection."""
        if connection.usable:
            self._use(connection)
        self._on_end(exchange)

    def lost(self, connection: Connection, exchange: Exchange | None) -> None:
        """Called by a connection."""
        self._all.discard(connection)
        if exchange is not None and connection.closed_while_idle and not self._closed:
            self.repeated += 1
            self._send(exchange)
        elif exchange is not None:
            self._on_end(exchange)
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

    def _use(self, connection: Connection) -> None:
        if self._waiting:
            connection.send(self._waiting.popleft(), was_idle=False)
        else:
            self._idle.append((connection, self._loop.time()))

    def _open_another(self) -> None:
        """Open one for whoever waits without one being opened for it, if there is room."""
        room = self._size - len(self._all) - len(self._opening)
        if room > 0 and len(self._opening) < len(self._waiting) and not self._closed:
            task = self._loop.create_task(self._connect())
            self._opening.add(task)
            task.add_done_callback(self._opened)

    def _opened(self, task: asyncio.Task[Connection]) -> None:
        self._opening.discard(task)
        if task.cancelled():
            return
        if not isinstance(task.exception(), OSError):
            self._use(task.result())
        elif self._waiting:
            self._give_up(self._waiting.popleft())
            self._open_another()

    async def _connect(self) -> Connection:
        connection = await connect(self._address, self)
        self._all.add(connection)
        return connection

    def _give_up(self, exchange: Exchange) -> None:
        exchange.finished = self._loop.time()
        self._on_end(exchange)
