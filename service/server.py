"""The process that serves: bind, load, warm up, answer, drain."""

import errno
import logging
import os
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from prometheus_client import CollectorRegistry

from retrieval.errors import InvalidArgumentError
from retrieval.searcher import Searcher
from service.app import create_app
from service.settings import Settings
from service.state import ServiceState
from service.workers import Workers

_BACKLOG = 2048
# Of several lengths, since what a length allocates it allocates on its first use.
_WARM_UP_QUERIES = ["warm up", "how long does the first answer take " * 4, "many words " * 200]

logger = logging.getLogger(__name__)


def serve(settings: Settings, *, on_ready: Callable[[str], None] | None = None) -> None:
    """Serve an index until SIGTERM or SIGINT, then finish what was asked and return.

    `on_ready` is called with the service's address as soon as it answers.

    :raises InvalidArgumentError: When the address is taken or not one of this machine.
    :raises ArtefactError: When the index or the encoder cannot be trusted.
    """
    _configure_log(settings.log_level)
    logger.info("settings: %s", " ".join(settings.lines()))
    # First, so that a taken port shows before the index is read; clients wait in the backlog.
    with listen(settings.host, settings.port) as listener:
        address = _address(settings.host, listener)
        searcher = Searcher.open(settings.index, settings.encoder, precision=settings.precision)
        workers = Workers(settings.threads)
        try:
            workers.run_on_every_thread(lambda: _warm_up(searcher))
            state = ServiceState(searcher)
            app = create_app(
                state,
                limits=settings.limits,
                workers=workers,
                registry=CollectorRegistry(),
                access_log=settings.access_log,
            )
            config = uvicorn.Config(
                app,
                loop="uvloop",
                http="httptools",
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

            _Server(config, state, announce).run([listener])
            logger.info("stopped")
        finally:
            workers.close()
            searcher.close()


class _Server(uvicorn.Server):
    """Says when it listens, and takes a signal for a request to stop rather than for an error."""

    def __init__(
        self, config: uvicorn.Config, state: ServiceState, announce: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._state = state
        self._announce = announce
        self._signal = ""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        logger.info("%s: finishing what was asked", self._signal)
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        # No line into the log here: a signal can come in the middle of another one.
        self._signal = signal.Signals(sig).name
        self._state.drain()
        # Whoever insists does not want to wait.
        self.force_exit = self.should_exit
        self.should_exit = True


def _configure_log(level: str) -> None:
    logging.basicConfig(
        level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    # It tells each step of its own and, in two warnings, each request that is not HTTP, with which
    # any client could fill the log.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)


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


def _warm_up(searcher: Searcher) -> None:
    for query in _WARM_UP_QUERIES:
        searcher.search(query)
