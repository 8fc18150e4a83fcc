"""What a process of the service does: opens, assembles and answers until it is stopped."""

import gc
import resource
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from service.admission.executor import LineExecutor, SearchExecutor
from service.app import create_app
from service.listeners import BACKLOG
from service.live.challenger import Challenger
from service.live.indexes import Indexes
from service.live.insight import Insight
from service.live.judging import Judging
from service.live.peers import Peers
from service.live.query_log import REDACTED, QueryLog
from service.live.reload import Reloader
from service.live.state import ServiceState
from service.live.writing import Writing
from service.loop import Server
from service.opening import SharedEncoders, open_one_of, open_searcher, warm_up
from service.settings import Settings, listed
from service.sight.metrics import Metrics
from service.wire.connection import UnreadAnswers, bounded_connection
from service.wire.keys import ApiKey
from service.wire.rights import KeyFile, Right
from service.wire.turns import Turns
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.errors import InvalidArgumentError
from swiftlet.extras import extra
from swiftlet.relevance.log import LogWriter
from swiftlet.search.searcher import Searcher

if TYPE_CHECKING:  # its packages come with an extra
    from service.sight.tracing import Tracing

_FILES, _FILES_OF_WRITES = 64, 32
"""Files that the process opens besides one document store per thread, with some connections; and
those that connections leave free, for the first write and for a reload."""

_FILES_OF_INDEX = 10
"""Files of an open index besides one document store per thread."""


def answer(
    settings: Settings,
    listeners: Sequence[socket.socket],
    refining: Callable[[], tuple[int, int] | None] | None,
    opened: list[Searcher],
    secret: bytes,
    keys: KeyFile | None,
    peers: Peers,
    on_ready: Callable[[], None],
) -> None:
    """Answer requests in this process until it is stopped.

    :param secret: What no other service knows.
    :param keys: The keys of a file; all processes share their limits.
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
        if settings.judgements is not None:
            judging = Judging(settings.judgements)
        challenger = _challenger(settings, registry) if settings.challenges else None
        if challenger is not None:
            challenger.check(state.loaded.searcher)
        unread, turns, metrics = UnreadAnswers(), Turns(), Metrics(registry, peers)
        search_key = _api_key(settings.search_keys, "SWIFTLET_SEARCH_KEYS", "search", keys)
        create = partial(
            create_app,
            limits=settings.limits,
            metrics=metrics,
            unread=unread,
            turns=turns,
            search_key=search_key,
        )
        indexes = None
        if settings.indexes is not None:
            indexes = Indexes(
                state,
                settings.indexes,
                partial(open_one_of, SharedEncoders(settings), settings.threads),
                lambda state: create(state, executor=LineExecutor(executor), is_inner=True),
                cache_bytes=settings.cache_bytes // settings.open_indexes,
                most_open=settings.open_indexes,
                key=search_key,
            )
            stack.callback(indexes.close)
        app = create(
            state,
            executor=executor,
            access_log=settings.access_log,
            reloader=reloader,
            writing=writing,
            admin_key=_api_key(settings.admin_keys, "SWIFTLET_ADMIN_KEYS", "admin", keys),
            write_key=_api_key(settings.write_keys, "SWIFTLET_WRITE_KEYS", "write", keys),
            cors_origins=listed(settings.cors_origins),
            files=settings.files,
            query_log=query_log,
            insight=insight,
            judging=judging,
            challenger=challenger,
            tracing=tracing,
            indexes=indexes,
        )
        connection = bounded_connection(
            head_timeout_ms=settings.body_timeout_ms,
            write_timeout_ms=settings.write_timeout_ms,
            unread=unread,
            turns=turns,
            clients=peers.clients,
            most_files=most_files(settings),
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
            backlog=BACKLOG,
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
        Server(config, connection, listeners, state, reloader, peers, begin).run([])


def most_files(settings: Settings) -> int:
    """The file descriptor from which on none is left for a connection."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = sys.maxsize if limit == resource.RLIM_INFINITY else limit
    needed = settings.threads + _FILES + _FILES_OF_WRITES
    if settings.indexes is not None:
        needed += settings.open_indexes * (settings.threads + _FILES_OF_INDEX)
    if limit < needed:
        raise InvalidArgumentError(
            f"at most {limit} files may be open at once; at least {needed} are expected, "
            "by ulimit -n or LimitNOFILE"
        )
    return limit - needed + _FILES


def _api_key(keys: SecretStr, variable: str, right: Right, file: KeyFile | None) -> ApiKey | None:
    if not listed(keys) and file is None:
        return None
    return ApiKey(listed(keys), variable=variable, right=right, file=file)


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


def _challenger(settings: Settings, registry: CollectorRegistry) -> Challenger:
    place = settings.challenger_encoder
    return Challenger(
        registry,
        encoder=None if place is None else OnnxEncoder.load(place, role="query"),
        weight=settings.challenger_weight,
        mode=settings.challenger_mode,
        is_shadow=settings.challenger_shadow,
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
