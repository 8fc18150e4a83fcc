"""One request after the other over a kept connection, with the times that matter."""

import asyncio
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpResponseParser

from loadtests.traffic import Request

NO_ANSWER = 0
"""The status of a request that got no answer: its connection broke, or the wait ended."""

_NOT_YET = float("nan")


@dataclass(slots=True)
class Exchange:
    """A request and its answer; all moments are in seconds of one monotonic clock.

    `scheduled` is when it was to begin, `begun` when the generator got to it, `sent` when there was
    a connection for it, `finished` when its answer was whole or given up.
    """

    request: Request
    scheduled: float
    begun: float = _NOT_YET
    sent: float = _NOT_YET
    finished: float = _NOT_YET
    status: int = NO_ANSWER
    server_timing: bytes = b""


class Owner(Protocol):
    """Who is told what becomes of a connection."""

    def answered(self, connection: "Connection", exchange: Exchange) -> None:
        """The answer is whole; `connection.usable` says whether another exchange can follow."""

    def lost(self, connection: "Connection", exchange: Exchange | None) -> None:
        """The connection has ended, with the exchange that was under way, if one was."""


class Connection(asyncio.Protocol):
    """A connection to `address`, for one exchange at a time."""

    def __init__(self, address: str, owner: Owner) -> None:
        self._host = urlsplit(address).netloc.encode()
        self._owner = owner
        self._exchange: Exchange | None = None
        self._was_idle = self._heard = False
        self._loop = asyncio.get_running_loop()
        self.usable = False

    @property
    def closed_while_idle(self) -> bool:
        """Whether the server had closed before it can have seen the last request.

        Servers close connections that were idle for some seconds; any client then sends again.
        """
        return self._was_idle and not self._heard

    def send(self, exchange: Exchange, *, was_idle: bool) -> None:
        """Send the request of `exchange` now; say whether it was idle for long before."""
        self._was_idle = was_idle
        request = exchange.request
        self._exchange, self._heard = exchange, False
        self._parser = HttpResponseParser(self)
        head = b"POST %b HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\n" % (
            request.path.encode(),
            self._host,
        )
        exchange.sent = self._loop.time()
        self._transport.write(
            b"%bContent-Length: %d\r\n\r\n%b" % (head, len(request.body), request.body)
        )

    def abort(self) -> None:
        """Close at once; an exchange under way ends without an answer."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.usable = True

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self._heard = True
        try:
            self._parser.feed_data(data)
        except HttpParserError:
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        """Called by asyncio."""
        self.usable = False
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.finished = self._loop.time()
        self._owner.lost(self, exchange)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser."""
        if name.lower() == b"server-timing" and self._exchange is not None:
            self._exchange.server_timing = value

    def on_message_complete(self) -> None:
        """Called by the parser."""
        exchange, self._exchange = self._exchange, None
        if exchange is None:  # an answer that nobody asked for
            self.abort()
            return
        exchange.finished = self._loop.time()
        exchange.status = self._parser.get_status_code()
        if not self._parser.should_keep_alive():
            self.usable = False
            self._transport.close()
        self._owner.answered(self, exchange)


async def connect(address: str, owner: Owner) -> Connection:
    """A new connection.

    :raises OSError: When nobody listens there.
    """
    url = urlsplit(address)
    assert url.hostname is not None
    assert url.port is not None
    _, connection = await asyncio.get_running_loop().create_connection(
        lambda: Connection(address, owner), url.hostname, url.port
    )
    return connection
