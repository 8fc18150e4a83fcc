"""Where connections come in: all that wait are accepted at once, and none is lost at the end."""

import asyncio
import logging
import select
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MOST_WAITING = 4096
"""More than can wait in a listening socket, which a flood of clients may fill without an end."""
_SECONDS_UNTIL_NEXT_ATTEMPT = 0.2
_GRACE_SECONDS = 0.1
"""How long may be taken to connect, and then to ask, or to ask again and hear of the end."""
_MOST_SECONDS = 2.0
"""For reading all that was sent: there may be clients who never stop sending."""

_SO_BINDTOIFINDEX = 62
_NO_INTERFACE = 2**31 - 1

logger = logging.getLogger(__name__)


class Acceptor:
    """Accepts the connections of a listening socket.

    The event loop's own servers accept one a turn: when a turn has hundreds of requests to answer,
    whoever is new, be it a health check, would wait for seconds.
    """

    def __init__(
        self, listener: socket.socket, make_connection: Callable[[], HttpToolsProtocol]
    ) -> None:
        """Begin to accept on the running event loop, each connection for a protocol of its own."""
        self._listener = listener
        self._make_connection = make_connection
        self._loop = asyncio.get_running_loop()
        self._arriving: set[asyncio.Task[None]] = set()
        self._next_attempt: asyncio.TimerHandle | None = None
        listener.setblocking(False)
        self._listen()

    async def close(self, connections: Iterable[asyncio.Protocol]) -> None:
        """Accept who is there and nobody else, and return when all that was sent has been read.

        So nothing is lost when idle ones of `connections`, which may change, are closed thereafter.
        """
        _turn_away(self._listener)
        await asyncio.sleep(_GRACE_SECONDS)  # for who is just connecting
        self._accept()
        if self._next_attempt is not None:
            self._next_attempt.cancel()
        self._loop.remove_reader(self._listener)
        self._listener.close()
        await asyncio.gather(*self._arriving, return_exceptions=True)
        await asyncio.sleep(_GRACE_SECONDS)  # for who has just connected, or asks again
        with suppress(TimeoutError):
            async with asyncio.timeout(_MOST_SECONDS):
                while _have_unread(connections):
                    await asyncio.sleep(0)

    def _listen(self) -> None:
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        try:
            for _ in range(_MOST_WAITING):
                with suppress(ConnectionAbortedError):  # one that has left; others wait
                    self._welcome(self._listener.accept()[0])
        except BlockingIOError:
            pass
        except OSError as error:  # too many files are open: some will be closed
            logger.warning("new connections have to wait: %s", error.strerror)
            self._loop.remove_reader(self._listener)
            self._next_attempt = self._loop.call_later(_SECONDS_UNTIL_NEXT_ATTEMPT, self._listen)

    def _welcome(self, connection: socket.socket) -> None:
        arrival = self._loop.create_task(self._take_in(connection))
        self._arriving.add(arrival)
        arrival.add_done_callback(self._arriving.discard)

    async def _take_in(self, connection: socket.socket) -> None:
        with suppress(OSError):  # whoever it was may have left
            await self._loop.connect_accepted_socket(self._make_connection, connection)


def _turn_away(listener: socket.socket) -> None:
    """Let nobody else connect, while those who have can still be accepted.

    To close the socket would reset them. Bound to an interface that is not there, it is not found
    by whoever first asks to connect, who is refused as if it were closed. Unlike a packet filter,
    this needs no privilege, which a container rarely has.
    """
    with suppress(OSError):  # Linux before 5.7: there is a moment for a loss
        listener.setsockopt(socket.SOL_SOCKET, _SO_BINDTOIFINDEX, _NO_INTERFACE)


def _have_unread(connections: Iterable[asyncio.Protocol]) -> bool:
    """Whether there is a connection at rest on which something has come."""
    poll = select.poll()
    for connection in connections:
        assert isinstance(connection, HttpToolsProtocol)  # noqa: S101 - it makes no others
        at_rest = connection.cycle is None or connection.cycle.response_complete
        if at_rest and not connection.transport.is_closing():
            poll.register(connection.transport.get_extra_info("socket"), select.POLLIN)
    return bool(poll.poll(0))
