"""The process that serves: bind, load, warm up, answer, drain."""

import asyncio
import errno
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn
from prometheus_client import CollectorRegistry
from pydantic import SecretStr
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from retrieval.errors import InvalidArgumentError
from retrieval.extras import extra
from service.acceptor import Acceptor
from service.app import create_app
from service.connection import bounded_connection
from service.headers import CrossOrigin
from service.keys import KeyLock
from service.logs import begin_log
from service.memory_limit import check_memory_limit, memory_limit
from service.reload import Reloader, open_searcher, warm_up
from service.settings import Settings, listed
from service.state import ServiceState
from service.workers import Workers

if TYPE_CHECKING:  # its packages come with an extra
    from service.tracing import Tracing

_BACKLOG = 2048
_FILES = 64
"""What the process opens beside a document store for each thread, with some connections."""

logger = logging.getLogger(__name__)


def serve(settings: Settings, *, on_ready: Callable[[str], None] | None = None) -> None:
    """Serve an index until SIGTERM or SIGINT, then finish what was asked and return.

    `on_ready` is called with the service's address as soon as it answers.

    :raises InvalidArgumentError: When the address is taken or not one of this machine, or the
        memory limit is too small.
    :raises ArtefactError: When the index or the encoder cannot be trusted.
    """
    # Until there is something to reload, a signal to do so must not end the process.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # As the first process of a container, it would otherwise not be ended by this one either.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    begin_log(settings.log_level, settings.log_format, settings.lines())
    _check_files(settings.threads)
    check_memory_limit(
        settings.index,
        settings.encoder,
        threads=settings.threads,
        cache_bytes=settings.cache_bytes,
        limit_bytes=memory_limit(),
    )
    origins = listed(settings.cors_origins)
    # First, so that a taken port shows before the index is read; clients wait in the backlog.
    with listen(settings.host, settings.port) as listener:
        address = _address(settings.host, listener)
        state, registry = ServiceState(cache_bytes=settings.cache_bytes), CollectorRegistry()
        with ExitStack() as stack:
            tracing = stack.enter_context(_tracing()) if settings.tracing else None
            searcher = open_searcher(settings)
            state.publish(searcher)
            stack.callback(_close_searcher, state)
            workers = Workers(settings.threads, max_queued=settings.max_queued_queries)
            stack.callback(workers.close)
            workers.run_on_every_thread(partial(warm_up, searcher))
            del searcher
            reloader = Reloader(state, partial(open_searcher, settings), registry)
            stack.callback(reloader.close)
            app = create_app(
                state,
                limits=settings.limits,
                workers=workers,
                registry=registry,
                access_log=settings.access_log,
                reloader=reloader,
                search_lock=_lock(settings.search_keys, "SWIFTLET_SEARCH_KEYS"),
                admin_lock=_lock(settings.admin_keys, "SWIFTLET_ADMIN_KEYS"),
                cross_origin=CrossOrigin(origins) if origins else None,
                tracing=tracing,
            )
            connection = bounded_connection(settings.body_timeout_ms)
            config = uvicorn.Config(
                app,
                loop="uvloop",
                http=connection,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=_BACKLOG,
                timeout_graceful_shutdown=settings.drain_timeout_seconds,
            )

            def announce() -> None:
                logger.info("listening on %s", address)
                if on_ready is not None:
                    on_ready(address)

            _Server(config, connection, state, reloader, announce).run([listener])
        logger.info("stopped")


class _Server(uvicorn.Server):
    """Says when it listens, and takes a signal for a request to stop rather than for an error."""

    def __init__(
        self,
        config: uvicorn.Config,
        connection: type[HttpToolsProtocol],
        state: ServiceState,
        reloader: Reloader,
        announce: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._connection = connection
        self._state = state
        self._reloader = reloader
        self._announce = announce
        self._signal = ""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        (listener,) = sockets or []
        self._acceptor = Acceptor(
            listener,
            partial(
                self._connection,
                self.config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
            ),
        )
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reloader.request)
        self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        logger.info("%s: finishing what was asked", self._signal)
        if not self.force_exit:
            await self._acceptor.close(self.server_state.connections)
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        # No line into the log here: a signal can come in the middle of another one.
        self._signal = signal.Signals(sig).name
        self._state.drain()
        # Whoever insists does not want to wait.
        self.force_exit = self.should_exit
        self.should_exit = True


def _check_files(threads: int) -> None:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and limit < threads + _FILES:
        raise InvalidArgumentError(
            f"at most {limit} files may be open at once; at least {threads + _FILES} are expected, "
            "by ulimit -n or LimitNOFILE"
        )


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; 0 stands for any free port.

    :raises InvalidArgumentError: When the address is taken or not one of this machine.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except (socket.gaierror, UnicodeError):
        raise InvalidArgumentError(
            f"the host is {host!r}; an address of this machine is expected"
        ) from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            reason = "another process listens there; choose another port"
        else:
            reason = os.strerror(error.errno or 0)
        raise InvalidArgumentError(f"cannot listen on {host} port {port}: {reason}") from None


def _address(host: str, listener: socket.socket) -> str:
    port = listener.getsockname()[1]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _lock(keys: SecretStr, variable: str) -> KeyLock | None:
    return KeyLock(listed(keys), variable=variable) if listed(keys) else None


def _close_searcher(state: ServiceState) -> None:
    """Close the searcher that is at work by then."""
    state.serving.searcher.close()


@contextmanager
def _tracing() -> Iterator["Tracing"]:
    with extra("tracing"):
        from service.tracing import Tracing, otlp_spans
    tracing = Tracing(otlp_spans())
    try:
        yield tracing
    finally:
        tracing.close()
