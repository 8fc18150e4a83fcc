"""The event loop of a process: listens, and stops without losing a request."""

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType

import uvicorn
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.listeners import refuse_new_connections
from service.live.peers import Peers
from service.live.reload import Reloader
from service.live.state import ServiceState
from service.wire.clients import Acceptor
from service.workers import STOP

_GRACE_SECONDS = 0.1

logger = logging.getLogger(__name__)


def end(*_: object) -> None:
    """End before there is anything to drain."""
    ignore_signals()
    sys.exit(0)


def ignore_signals() -> None:
    """Let no further signal change the exit status of a process that ends."""
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)


class Server(uvicorn.Server):
    """Reports when it listens, and stops without losing a request."""

    def __init__(
        self,
        config: uvicorn.Config,
        connection: type[HttpToolsProtocol],
        listeners: Sequence[socket.socket],
        state: ServiceState,
        reloader: Reloader,
        peers: Peers,
        begin: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._connection = connection
        self._listeners = listeners
        self._state = state
        self._reloader = reloader
        self._peers = peers
        self._begin = begin
        self._signal = ""

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reloader.request)
        if self._peers.count > 1:
            ignore_signals()
            signal.signal(STOP, self.handle_exit)
        protocol = partial(
            self._connection,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        self._acceptor = Acceptor(self._listeners, protocol, self._peers.clients)
        self._begin()

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        logger.info("%s: finishing the requests under way", self._signal)
        if not self.force_exit:
            for listener in self._listeners:
                refuse_new_connections(listener)
            await asyncio.sleep(_GRACE_SECONDS)  # for clients that are connecting
        await self._acceptor.end()
        if not self.force_exit:
            await asyncio.sleep(_GRACE_SECONDS)  # for the requests on the accepted connections
            await asyncio.sleep(0)
            if self._peers.writes:  # what the other processes ask for is finished first
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                        while self._peers.others_answer() and not self.force_exit:
                            await asyncio.sleep(_GRACE_SECONDS)
        await super().shutdown(sockets)

    @override
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Uvicorn's raises them again at the end, also into a loop that closes.
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, self.handle_exit)
        yield
        ignore_signals()

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # No logging here: the signal may have interrupted the writing of another log line.
        self._signal = signal.Signals(sig).name
        self._state.drain()
        self.force_exit = self.should_exit  # a second signal ends the wait
        self.should_exit = True
