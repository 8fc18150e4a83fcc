"""A proxy before a server that cuts all connections at one message of a client."""

import asyncio
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from threading import Thread


class Moment(StrEnum):
    """When connections are cut."""

    BEFORE = "before the server has the message"
    AFTER = "as soon as the server has the message"
    LOST = "when the server has answered, before the client has it"
    AWAY = "before the server has the message, and no new ones until the command has ended"


@dataclass(frozen=True, slots=True)
class Part:
    """A message or a frame, and the stream of its connection that it belongs to.

    `first` and `last`: whether it is the first and the last part of what a client asks, or the last
    part of an answer.
    """

    content: bytes
    stream: int = 0
    first: bool = True
    last: bool = True


class Protocol(ABC):
    """Splits what both sides of one connection send."""

    def split(self, waiting: bytearray, *, of_client: bool) -> Iterator[Part]:
        """Take all whole parts out of what has come."""
        while 0 < (size := self.size(waiting, of_client=of_client)) <= len(waiting):
            content = bytes(waiting[:size])
            del waiting[:size]
            yield self.part(content, of_client=of_client)

    @abstractmethod
    def size(self, waiting: bytearray, *, of_client: bool) -> int:
        """The size of the next part; 0 if too little has come to know it."""

    @abstractmethod
    def part(self, content: bytes, *, of_client: bool) -> Part:
        """What a part is."""


class PostgresProtocol(Protocol):
    """A statement is a message, from its text to the end of its values; so is each part of a copy.

    The server has answered when it waits for the client.
    """

    _STARTUP = 3  # of the first message, the upper half of the version
    _GO_ON, _WAIT = b"BDES", b"PBDEc"  # types of messages that begin nothing, and that end nothing
    _ANSWERS = b"ZGRE"  # ready for a query, for a copy or for a password; an error

    def __init__(self) -> None:
        self._started, self._short = False, 0

    def size(self, waiting: bytearray, *, of_client: bool) -> int:
        """The length stands behind the type, which the first messages of a client lack."""
        if not of_client and self._short:
            return 1
        before = int(not of_client or self._started)
        if len(waiting) < before + 4:
            return 0
        return before + int(struct.unpack_from(">I", waiting, before)[0])

    def part(self, content: bytes, *, of_client: bool) -> Part:
        """One letter answers the question for TLS."""
        if of_client and self._started:
            return Part(content, 0, content[0] not in self._GO_ON, content[0] not in self._WAIT)
        if of_client:
            self._started = struct.unpack_from(">H", content, 4)[0] == self._STARTUP
            self._short += not self._started
            return Part(content)
        if self._short:
            self._short -= 1
            return Part(content)
        return Part(content, last=content[0] in self._ANSWERS)


class Http2Protocol(Protocol):
    """Each call of gRPC is a message: a stream from its headers to the end of it."""

    _PREFACE, _FRAME = 24, 9
    _HEADERS, _ENDS = 1, 1
    _OF_CALLS = 0, 1, 9  # data, headers, continuation

    def __init__(self) -> None:
        self._begun = False

    def size(self, waiting: bytearray, *, of_client: bool) -> int:
        """A frame, or what a client says first."""
        if of_client and not self._begun:
            return self._PREFACE
        if len(waiting) < self._FRAME:
            return 0
        return self._FRAME + int.from_bytes(waiting[:3])

    def part(self, content: bytes, *, of_client: bool) -> Part:
        """A frame of a call, or another one, which has the stream 0."""
        if of_client and not self._begun:
            self._begun = True
            return Part(content, first=False, last=False)
        kind, flags = content[3], content[4]
        if kind not in self._OF_CALLS:
            return Part(content, first=False, last=False)
        ends = kind in (0, self._HEADERS) and bool(flags & self._ENDS)
        stream = int.from_bytes(content[5:9]) & 0x7FFFFFFF
        return Part(content, stream, first=kind == self._HEADERS, last=ends)


class CuttingProxy:
    """Listens on a `port` of this machine, and passes on to that of a server.

    `count` is the number of messages of clients since the last cut was set.
    """

    def __init__(self, server_port: int, protocol: type[Protocol]) -> None:
        self._server_port, self._protocol = server_port, protocol
        self._writers: set[asyncio.StreamWriter] = set()
        self.count, self.has_cut = 0, False
        self._number, self._moment, self._refuses = 0, Moment.BEFORE, False
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        start = asyncio.start_server(self._serve, "127.0.0.1", 0)
        server = asyncio.run_coroutine_threadsafe(start, self._loop).result()
        self.port = int(server.sockets[0].getsockname()[1])

    @contextmanager
    def cuts(self, number: int, moment: Moment) -> Iterator[None]:
        """Cut at the message of this number, from 1 on; at none if it is 0."""
        self.count, self.has_cut = 0, False
        self._number, self._moment = number, moment
        try:
            yield
        finally:
            self._number, self._refuses = 0, False

    def close(self) -> None:
        """Cut all connections for good."""
        self._refuses = True
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _end(self) -> None:
        self._cut()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    def _cut(self) -> None:
        self.has_cut, self._number = True, 0
        self._refuses = self._refuses or self._moment is Moment.AWAY
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            writer.close()
            return
        with suppress(OSError):
            of_server, to_server = await asyncio.open_connection("127.0.0.1", self._server_port)
            self._writers |= {writer, to_server}
            connection = _Connection(self, self._protocol())
            await asyncio.gather(
                connection.pass_on(reader, to_server, of_client=True),
                connection.pass_on(of_server, writer, of_client=False),
            )


class _Connection:
    """The two directions of a connection; `chosen` is the stream at which it is cut."""

    def __init__(self, proxy: CuttingProxy, protocol: Protocol) -> None:
        self.proxy, self.protocol = proxy, protocol
        self.chosen: int | None = None

    async def pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, of_client: bool
    ) -> None:
        """Pass on what one side sends, until it is cut or that side has ended."""
        waiting = bytearray()
        with suppress(OSError):
            while content := await reader.read(65536):
                waiting += content
                for part in self.protocol.split(waiting, of_client=of_client):
                    if writer.is_closing():
                        return
                    meet = self._of_client if of_client else self._of_server
                    meet(part, writer)
                await writer.drain()
        writer.close()

    def _of_client(self, part: Part, writer: asyncio.StreamWriter) -> None:
        proxy = self.proxy
        if part.first:
            proxy.count += 1
            if proxy.count == proxy._number:
                self.chosen = part.stream
        is_chosen = self.chosen == part.stream
        if is_chosen and proxy._moment in (Moment.BEFORE, Moment.AWAY):
            proxy._cut()
            return
        writer.write(part.content)
        if is_chosen and part.last and proxy._moment is Moment.AFTER:
            proxy._cut()

    def _of_server(self, part: Part, writer: asyncio.StreamWriter) -> None:
        if self.chosen is None or self.chosen != part.stream:
            writer.write(part.content)
        elif part.last:
            self.proxy._cut()
