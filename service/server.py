"""The server process: bind, load, warm up, answer, drain."""

import asyncio
import errno
import gc
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from secrets import token_bytes
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn
from prometheus_client import CollectorRegistry
from pydantic import SecretStr
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.admission.executor import SearchExecutor
from service.admission.memory_limit import (
    check_memory_limit,
    memory_limit,
    most_processes,
    needed_memory,
)
from service.app import create_app
from service.live.insight import Insight
from service.live.judging import Judging
from service.live.peers import Peers
from service.live.query_log import REDACTED, QueryLog
from service.live.reload import Reloader
from service.live.state import ServiceState
from service.live.writing import Writing
from service.opening import open_searcher, warm_up
from service.settings import Settings, listed
from service.sight.logs import begin_log
from service.sight.metrics import Metrics
from service.wire.clients import Acceptor
from service.wire.connection import UnreadAnswers, bounded_connection
from service.wire.keys import ApiKey
from service.wire.turns import Turns
from service.workers import STOP, Workers
from swiftlet.encoders.opening import EncoderFunction, Place
from swiftlet.errors import ArtefactError, InvalidArgumentError
from swiftlet.extras import extra
from swiftlet.index.document_encoder import document_encoder_of
from swiftlet.manifest import read_manifest
from swiftlet.relevance.log import LogWriter
from swiftlet.search.searcher import Searcher

if TYPE_CHECKING:  # its packages come with an extra
    from service.sight.tracing import Tracing

_BACKLOG = 2048
_FILES, _FILES_OF_WRITES = 64, 32
"""Files that the process opens besides one document store per thread, with some connections; and
those that connections leave free, for the first write and for a reload."""

_GRACE_SECONDS = 0.1
_SECRET_BYTES = 32
_EVERY_ADDRESS = "::"
_SO_BINDTOIFINDEX = 62
_NO_INTERFACE = 2**31 - 1

logger = logging.getLogger(__name__)


def serve(
    settings: Settings,
    *,
    on_ready: Callable[[str], None] | None = None,
    refining: Callable[[], tuple[int, int] | None] | None = None,
) -> None:
    """Serve an index until SIGTERM or SIGINT, then finish what was asked and return.

    `on_ready` is called with the service's address as soon as it answers. `refining` gives how many
    passages the document encoder has read, and of how many, for `/info`.

    :raises InvalidArgumentError: When the address is taken or not one of this machine, or the
        memory limit is too small.
    :raises ArtefactError: When the index or the encoder cannot be trusted.
    """
    # Before there is an index to reload, SIGHUP must not end the process.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # The first process of a container would otherwise ignore SIGTERM.
    signal.signal(signal.SIGTERM, _end)
    named = {"index": settings.index, "encoder": settings.encoder, "reranker": settings.reranker}
    for kind, place in named.items():
        if isinstance(place, Path):
            read_manifest(place, kind)  # a missing one is refused before anything is logged
    begin_log(settings.log_level, settings.log_format, settings.lines())
    needed = partial(
        needed_memory,
        settings.index if isinstance(settings.index, Path) else None,
        settings.query_encoder,
        cache_bytes=settings.cache_bytes,
        document_encoder=_document_encoder(settings) if listed(settings.write_keys) else None,
        reranker=settings.reranker,
    )
    if refining is not None:
        workers = 1
    elif settings.workers is not None:
        workers = settings.workers
    elif isinstance(settings.query_encoder, EncoderFunction):  # which may need any memory
        workers = 1
    else:
        workers = most_processes(settings.threads, needed, memory_limit())
    settings = settings.model_copy(update={"threads": max(1, settings.threads // workers)})
    _most_files(settings.threads)
    check_memory_limit(needed(threads=settings.threads, processes=workers), memory_limit())
    # First, so that a taken port is reported before the index is read.
    with listen(settings.host, settings.port) as listeners:
        addresses = [_address(listener) for listener in listeners]
        for listener in listeners:
            # Copies of it share this: a copy that blocks would hold up other processes.
            listener.setblocking(False)

        def announce() -> None:
            logger.info("listening on %s", " and ".join(addresses))
            if on_ready is not None:
                on_ready(addresses[0])

        def refuse() -> None:
            for listener in listeners:
                _refuse_new_connections(listener)

        opened: list[Searcher] = []

        def announce_all() -> None:
            while opened:  # a process that starts again opens what is there then
                opened.pop().close()
            announce()

        secret = token_bytes(_SECRET_BYTES)
        work = partial(_work, settings, listeners, refining, opened, secret)
        if workers == 1:
            work(Peers(), announce)
        else:
            opened += _opened_for_all(settings)
            Workers(workers, work, refuse, announce_all).run()
        _ignore_signals()
        logger.info("stopped")


def _opened_for_all(settings: Settings) -> Iterator[Searcher]:
    """A searcher that the processes share, if it has nothing that a fork would break.

    Functions that encode, addresses and index servers may have threads and connections. What a
    directory has are maps of files, models without threads, and SQLite files without locks.
    """
    if all(isinstance(place, Path | None) for place in (settings.index, settings.query_encoder)):
        searcher = open_searcher(settings)
        searcher.rest()
        yield searcher


def _work(
    settings: Settings,
    listeners: Sequence[socket.socket],
    refining: Callable[[], tuple[int, int] | None] | None,
    opened: list[Searcher],
    secret: bytes,
    peers: Peers,
    on_ready: Callable[[], None],
) -> None:
    """Answer requests in this process until it is stopped.

    :param secret: What no other service knows.
    """
    registry = CollectorRegistry()
    with ExitStack() as stack:
        tracing = stack.enter_context(_tracing()) if settings.tracing else None
        searcher = opened.pop() if opened else open_searcher(settings)
        state = ServiceState(searcher, cache_bytes=settings.cache_bytes)
        if refining is not None:
            state.refining, state.is_followed = refining, True
        stack.callback(_close_searcher, state)
        executor = SearchExecutor(settings.threads, max_queued=settings.max_queued_queries)
        stack.callback(executor.close)
        executor.run_on_every_thread(partial(warm_up, searcher))
        del searcher
        reloader = Reloader(state, partial(open_searcher, settings), registry, peers)
        stack.callback(reloader.close)
        writing = None
        if settings.index is not None:
            writing = Writing(
                state,
                registry,
                index=settings.index,
                document_encoder=settings.document_encoder,
                threads=settings.encode_threads,
                most_passages=settings.max_passages,
                peers=peers,
            )
            stack.callback(writing.close)
        query_log = insight = None
        if settings.query_log is not None:
            query_log = _query_log(settings, settings.query_log, registry, secret)
            stack.callback(query_log.close)
            insight = Insight(settings.query_log, partial(open_searcher, settings))
            stack.callback(insight.close)
        judging = None
        if settings.judgements is not None and settings.index is not None:
            judging = Judging(settings.judgements)
        unread, turns, metrics = UnreadAnswers(), Turns(), Metrics(registry, peers)
        app = create_app(
            state,
            limits=settings.limits,
            executor=executor,
            metrics=metrics,
            unread=unread,
            turns=turns,
            access_log=settings.access_log,
            reloader=reloader,
            writing=writing,
            search_key=_api_key(settings.search_keys, "SWIFTLET_SEARCH_KEYS"),
            admin_key=_api_key(settings.admin_keys, "SWIFTLET_ADMIN_KEYS"),
            write_key=_api_key(settings.write_keys, "SWIFTLET_WRITE_KEYS"),
            cors_origins=listed(settings.cors_origins),
            files=settings.files,
            query_log=query_log,
            insight=insight,
            judging=judging,
            tracing=tracing,
        )
        connection = bounded_connection(
            head_timeout_ms=settings.body_timeout_ms,
            write_timeout_ms=settings.write_timeout_ms,
            unread=unread,
            turns=turns,
            clients=peers.clients,
            most_files=_most_files(settings.threads),
        )
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

        def begin() -> None:
            peers.answer(
                {
                    "metrics": partial(metrics.of_this, app.state.service),
                    "reload": reloader.answer,
                    **({} if writing is None else writing.answers()),
                }
            )
            on_ready()

        stack.callback(peers.close)
        # A full collection would otherwise walk all objects of the imported packages, and hold
        # up every request for 150 ms.
        gc.collect()
        gc.freeze()
        _Server(config, connection, listeners, state, reloader, peers, begin).run([])


def _end(*_: object) -> None:
    """End before there is anything to drain."""
    _ignore_signals()
    sys.exit(0)


def _ignore_signals() -> None:
    """Let no further signal change the exit status of a process that ends."""
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)


class _Server(uvicorn.Server):
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

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reloader.request)
        if self._peers.count > 1:
            _ignore_signals()
            signal.signal(STOP, self.handle_exit)
        protocol = partial(
            self._connection,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        self._acceptor = Acceptor(self._listeners, protocol, self._peers.clients)
        self._begin()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        logger.info("%s: finishing the requests under way", self._signal)
        if not self.force_exit:
            for listener in self._listeners:
                _refuse_new_connections(listener)
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

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        # No logging here: the signal may have interrupted the writing of another log line.
        self._signal = signal.Signals(sig).name
        self._state.drain()
        self.force_exit = self.should_exit  # a second signal ends the wait
        self.should_exit = True


def _refuse_new_connections(listener: socket.socket) -> None:
    """Refuse new connections; those already open can still be accepted.

    Closing the socket would reset the open ones. Bound to an interface that does not exist, the
    socket gets no new connections. Unlike a packet filter, this needs no privilege.
    """
    with suppress(OSError):  # Linux before 5.7: a connection may still be lost
        listener.setsockopt(socket.SOL_SOCKET, _SO_BINDTOIFINDEX, _NO_INTERFACE)


def _most_files(threads: int) -> int:
    """The file descriptor from which on none is left for a connection."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = sys.maxsize if limit == resource.RLIM_INFINITY else limit
    needed = threads + _FILES + _FILES_OF_WRITES
    if limit < needed:
        raise InvalidArgumentError(
            f"at most {limit} files may be open at once; at least {needed} are expected, "
            "by ulimit -n or LimitNOFILE"
        )
    return limit - threads - _FILES_OF_WRITES


@contextmanager
def listen(hosts: str, port: int) -> Iterator[list[socket.socket]]:
    """Listen on a port of each of `hosts`, which have commas between them.

    `::` stands for every address, also of IPv4. A name stands for those of its addresses that this
    machine has.

    :param port: 0 stands for any free port, the same for all addresses.
    :raises InvalidArgumentError: When an address is taken or not one of this machine.
    """
    names = listed(hosts)
    names = [_EVERY_ADDRESS] if _EVERY_ADDRESS in names else names
    with ExitStack() as stack:
        listeners: list[socket.socket] = []
        for address in dict.fromkeys(chain.from_iterable(map(_addresses, names))):
            listeners.append(stack.enter_context(_listener(address, port)))
            port = listeners[0].getsockname()[1]
        yield listeners


def _listener(address: str, port: int) -> socket.socket:
    try:
        return socket.create_server(
            (address, port),
            family=socket.AF_INET6 if ":" in address else socket.AF_INET,
            backlog=_BACKLOG,
            dualstack_ipv6=address == _EVERY_ADDRESS and socket.has_dualstack_ipv6(),
        )
    except OverflowError:  # the port after the last one
        reason = "65535 is the last port"
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            reason = "another process listens there; choose another port"
        else:
            reason = os.strerror(error.errno or 0)
    raise InvalidArgumentError(f"cannot listen on {address} port {port}: {reason}")


def _addresses(host: str) -> list[str]:
    """The addresses of `host` that this machine has, or all of them if it has none."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        raise InvalidArgumentError(
            f"the host is {host!r}; an address of this machine is expected"
        ) from None
    addresses = [f"{place[0]}" for *_, place in found]
    own = []
    for address in addresses:
        with suppress(InvalidArgumentError), _listener(address, 0):
            own.append(address)
    return own or addresses


def _document_encoder(settings: Settings) -> Place | None:
    """The document encoder, if it is there; if not, the first document that is put is refused."""
    if settings.document_encoder is not None or not isinstance(settings.index, Path):
        return settings.document_encoder
    with suppress(ArtefactError):
        return document_encoder_of(read_manifest(settings.index, "index").details)
    return None


def _address(listener: socket.socket) -> str:
    host, port, *_ = listener.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _api_key(keys: SecretStr, variable: str) -> ApiKey | None:
    return ApiKey(listed(keys), variable=variable) if listed(keys) else None


def _query_log(
    settings: Settings, folder: Path, registry: CollectorRegistry, secret: bytes
) -> QueryLog:
    writer = LogWriter(folder, most_bytes=settings.query_log_bytes, days=settings.query_log_days)
    return QueryLog(
        writer,
        registry,
        secret=secret,
        redact=settings.query_log_redact or REDACTED,
        hash_key=settings.query_log_key.get_secret_value(),
    )


def _close_searcher(state: ServiceState) -> None:
    """Close the searcher in use by then."""
    state.loaded.suggestions.close()
    state.loaded.searcher.close()


@contextmanager
def _tracing() -> Iterator["Tracing"]:
    with extra("tracing"):
        from service.sight.tracing import Tracing, otlp_spans
    tracing = Tracing(otlp_spans())
    try:
        yield tracing
    finally:
        tracing.close()
