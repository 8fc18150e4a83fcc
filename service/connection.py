"""A connection whose requests have to begin in time, and with a head of bounded length."""

from asyncio import TimerHandle, Transport
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from service.joined_writes import JoinedWrites

MAX_HEAD_BYTES = 65_536


def bounded_connection(head_timeout_ms: int) -> type[HttpToolsProtocol]:
    """The protocol of a server that waits so long for the head of a request."""
    return type("Connection", (BoundedConnection,), {"head_timeout_ms": head_timeout_ms})


class BoundedConnection(HttpToolsProtocol):
    """Ends a connection that holds memory or a socket without asking for anything.

    The server's own protocol bounds neither: a head may be of any size and take for ever.
    """

    head_timeout_ms: int

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._in_head = self._in_body = False
        self._heads_begun = self._head_bytes = 0
        self._head_timer: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Wait for the first request; for later ones the server's own protocol does."""
        self._joined = JoinedWrites(transport)
        super().connection_made(self._joined)  # type: ignore[arg-type]
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the request that has not come."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, or refuse a head that is too long."""
        room = MAX_HEAD_BYTES - self._head_bytes
        if len(data) > room and not self._in_body:
            self.data_received(data[:room])
            data = data[room:]
        if self.transport.is_closing():
            return
        rested, self._heads_begun = self._rests, 0
        super().data_received(data)
        if self.transport.is_closing():
            return
        # Of requests one upon the other, the last head begins somewhere in the middle of the data.
        if self._in_head and self._heads_begun <= rested:
            self._head_bytes += len(data)
        if self._head_bytes >= MAX_HEAD_BYTES:
            self._refuse(431, f"the head of the request is longer than {MAX_HEAD_BYTES} bytes")
        elif self._head_timer is None and (self._in_head or self._rests):
            # Only here: a head that comes in one piece, as nearly all do, needs no timer.
            self._start_timer()

    def on_message_begin(self) -> None:
        """A head begins."""
        self._in_head = True
        self._heads_begun += 1
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """A body begins, which has limits of its own."""
        self._in_head, self._in_body, self._head_bytes = False, True, 0
        self._stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """What follows is another head."""
        self._in_body = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """An answer without a body is whole as well."""
        self._joined.flush()
        super().on_response_complete()

    @property
    def _is_asked(self) -> bool:
        """Whether a request waits for its answer."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def _rests(self) -> bool:
        """Whether what comes next is the beginning of a head."""
        return not (self._is_asked or self._in_head or self._in_body)

    def _start_timer(self) -> None:
        self._head_timer = self.loop.call_later(self.head_timeout_ms / 1000, self._time_out)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _time_out(self) -> None:
        if self._in_head:
            limit = f"{self.head_timeout_ms} ms, which is the limit"
            self._refuse(408, f"the head of the request had not come after {limit}")
        else:
            self.transport.close()

    def _refuse(self, status: int, sentence: str) -> None:
        # While another request is under way, this would be taken for its answer.
        if not self._is_asked:
            head = b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
            length = b"content-length: %d\r\n\r\n" % len(sentence)
            self.transport.write(STATUS_LINE[status] + head + length + sentence.encode())
        self.transport.close()
