"""Connections: limits of request heads and of unread answers."""

from asyncio import TimerHandle
from sys import maxsize
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from service.wire.clients import Clients
from service.wire.turns import BYTES_AT_ONCE, Turns

MAX_HEAD_BYTES = 65_536
MAX_PIPELINED = 512
"""Requests of one connection that may wait for the answer to an earlier one."""


class UnreadAnswers:
    """The connections with more to send than their clients have read."""

    def __init__(self) -> None:
        self.connections: set[BoundedConnection] = set()

    def size_bytes(self) -> int:
        """How many bytes of answers wait to be sent."""
        return sum(connection.transport.get_write_buffer_size() for connection in self.connections)


def bounded_connection(
    *,
    head_timeout_ms: int,
    write_timeout_ms: int,
    unread: UnreadAnswers,
    turns: Turns,
    clients: Clients,
    most_files: int = maxsize,
) -> type[HttpToolsProtocol]:
    """The server's protocol, with time limits for request heads and for reading answers.

    :param most_files: From this file descriptor on, connections are closed.
    """
    bounds = {
        "most_files": most_files,
        "head_timeout_ms": head_timeout_ms,
        "write_timeout_ms": write_timeout_ms,
        "unread": unread,
        "turns": turns,
        "clients": clients,
    }
    return type("Connection", (BoundedConnection,), bounds)


class BoundedConnection(HttpToolsProtocol):
    """Ends a connection that holds memory or a socket without using it.

    uvicorn bounds neither the size of a head, nor the time that it takes, nor the time that a
    client takes to read an answer.
    """

    most_files: int
    head_timeout_ms: int
    write_timeout_ms: int
    unread: UnreadAnswers
    turns: Turns
    clients: Clients
    _head_bytes = 0
    _held = b""
    _is_in_head = False
    _silent_bytes = 0
    _head_timer: TimerHandle | None = None
    _write_timer: TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request; uvicorn bounds the wait for later ones."""
        super().connection_made(transport)
        self._limit_head(is_waiting=True)
        # The system gives the lowest descriptor that is free.
        if transport.get_extra_info("socket").fileno() >= self.most_files:
            self._abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop both timers."""
        self.clients.left()
        self._limit_head(is_waiting=False)
        super().connection_lost(exc)  # calls `resume_writing`
        self._stop_write_timer()

    def pause_writing(self) -> None:
        """Start the time limit for reading: the buffer of unsent bytes is full."""
        super().pause_writing()
        self.unread.connections.add(self)
        self._write_timer = self.loop.call_later(self.write_timeout_ms / 1000, self._abort)

    def resume_writing(self) -> None:
        """The client has read nearly everything."""
        self._stop_write_timer()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Read on; in turns of its own, if there is much, or much of a head."""
        if self._held or self._head_bytes + len(data) > BYTES_AT_ONCE:
            self.flow.pause_reading()
            if not self._held:
                self.turns.call(self._read_held)
            self._held += data
        else:
            self._read(data)

    def _read_held(self) -> None:
        """Read a piece, which may have a hundred heads; a body is no work, and read at once."""
        length = len(self._held) if self._is_in_body() else BYTES_AT_ONCE
        piece, self._held = self._held[:length], self._held[length:]
        if self.transport.is_closing():
            return
        if self._held:
            self.turns.call(self._read_held)
        else:
            self.flow.resume_reading()
        self._read(piece)

    def _is_in_body(self) -> bool:
        # uvicorn sets `scope` when a head begins, and `cycle` when it is complete.
        return self.cycle is not None and self.cycle.more_body and self._is_after_head()

    def _read(self, data: bytes) -> None:
        """Read on, or refuse a head that is too long."""
        cycle, in_body = self.cycle, self._is_in_body()
        room = MAX_HEAD_BYTES - self._head_bytes
        if len(data) > room > 0 and not in_body:
            self._read(data[:room])
            self._read(data[room:])
            return
        if self.transport.is_closing():
            return
        self._silent_bytes += len(data) * in_body
        super().data_received(data)
        if self._silent_bytes > MAX_HEAD_BYTES and self._is_after_head():
            self._abort()  # chunks' extensions or trailers that do not end
        self._is_in_head = self.scope is not None and (
            self.cycle is None or self.cycle.scope is not self.scope
        )
        if not self._is_in_head:
            self._head_bytes = 0
            if self._head_timer is not None and self.scope is not None:
                self._limit_head(is_waiting=False)
        elif not self.transport.is_closing():
            # Of a head that begins in the middle of some data, this data is not counted.
            if self.cycle is cycle and not in_body:
                self._head_bytes += len(data)
            if self._head_bytes >= MAX_HEAD_BYTES:
                self._refuse(431, f"the head of the request is longer than {MAX_HEAD_BYTES} bytes")
            elif self._head_timer is None:
                self._limit_head(is_waiting=True)

    def on_headers_complete(self) -> None:
        """Begin or queue a request, or end a connection with too many of them.

        :raises ConnectionAbortedError: When there are too many, so that the parser stops.
        """
        if len(self.pipeline) >= MAX_PIPELINED:
            self.transport.abort()
            raise ConnectionAbortedError
        self._silent_bytes = 0
        super().on_headers_complete()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a line of a head, and leave out those after a body: uvicorn would add them to it."""
        if not self._is_after_head():
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body."""
        self._silent_bytes = 0
        super().on_body(body)

    def on_response_complete(self) -> None:
        """Begin the next request, in a turn if it was queued; read on when none is queued."""
        if self.pipeline:
            self.turns.call(self._begin_queued)
        else:
            super().on_response_complete()

    def _begin_queued(self) -> None:
        super().on_response_complete()
        if self.pipeline:
            self.flow.pause_reading()

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that is not HTTP, unless the connection has ended."""
        if not self.transport.is_closing():
            super().send_400_response(msg)

    def _is_after_head(self) -> bool:
        return self.cycle is not None and self.cycle.scope is self.scope

    def _limit_head(self, *, is_waiting: bool) -> None:
        """Begin to wait for a head, or end."""
        if is_waiting:
            self._head_timer = self.loop.call_later(self.head_timeout_ms / 1000, self._time_out)
        elif self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_write_timer(self) -> None:
        self.unread.connections.discard(self)
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _time_out(self) -> None:
        if self._is_in_head:
            limit = f"{self.head_timeout_ms} ms, which is the limit"
            self._refuse(408, f"the head of the request had not come after {limit}")
        else:
            self.transport.close()

    def _abort(self) -> None:
        self.transport.abort()  # `close` would wait for the client to read

    def _refuse(self, status: int, sentence: str) -> None:
        # While another request is answered, this would be taken for its answer.
        if self.cycle is None or self.cycle.response_complete:
            head = b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
            length = b"content-length: %d\r\n\r\n" % len(sentence)
            self.transport.write(STATUS_LINE[status] + head + length + sentence.encode())
        self.transport.close()
