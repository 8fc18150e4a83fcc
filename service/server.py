"""The service from its settings to its end: refuse, listen, answer."""

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from secrets import token_bytes

from service.admission.memory_limit import (
    check_memory_limit,
    memory_limit,
    most_processes,
    needed_memory,
)
from service.listeners import address_of, listen, refuse_new_connections
from service.live.peers import Peers
from service.loop import end, ignore_signals
from service.opening import open_searcher
from service.process import answer, most_files
from service.settings import Settings, listed
from service.sight.logs import begin_log
from service.wire.rights import KeyFile
from service.workers import Workers
from swiftlet.encoders.opening import EncoderFunction, Place
from swiftlet.errors import ArtefactError, InvalidArgumentError
from swiftlet.index.document_encoder import document_encoder_of
from swiftlet.manifest import read_manifest
from swiftlet.search.searcher import Searcher

_SECRET_BYTES = 32

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
    signal.signal(signal.SIGTERM, end)
    named = {"index": settings.index, "encoder": settings.encoder, "reranker": settings.reranker}
    for kind, place in named.items():
        if isinstance(place, Path):
            read_manifest(place, kind)  # a missing one is refused before anything is logged
    if settings.indexes is not None and not settings.indexes.is_dir():
        raise InvalidArgumentError(
            f"SWIFTLET_INDEXES is {settings.indexes}, but the path of a folder is expected"
        )
    keys = None if settings.keys is None else KeyFile(settings.keys)
    begin_log(settings.log_level, settings.log_format, settings.lines())
    takes_writes = listed(settings.write_keys) or (keys is not None and keys.grants("write"))
    needed = partial(
        needed_memory,
        settings.index if isinstance(settings.index, Path) else None,
        settings.query_encoder,
        cache_bytes=settings.cache_bytes,
        document_encoder=_document_encoder(settings) if takes_writes else None,
        reranker=settings.reranker,
        challenger=settings.challenger_encoder,
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
    most_files(settings)
    check_memory_limit(needed(threads=settings.threads, processes=workers), memory_limit())
    # First, so that a taken port is reported before the index is read.
    with listen(settings.host, settings.port) as listeners:
        addresses = [address_of(listener) for listener in listeners]
        for listener in listeners:
            # Copies of it share this: a copy that blocks would hold up other processes.
            listener.setblocking(False)

        def announce() -> None:
            logger.info("listening on %s", " and ".join(addresses))
            if on_ready is not None:
                on_ready(addresses[0])

        def refuse() -> None:
            for listener in listeners:
                refuse_new_connections(listener)

        opened: list[Searcher] = []

        def announce_all() -> None:
            while opened:  # a process that starts again opens what is there then
                opened.pop().close()
            announce()

        secret = token_bytes(_SECRET_BYTES)
        work = partial(answer, settings, listeners, refining, opened, secret, keys)
        if workers == 1:
            work(Peers(), announce)
        else:
            opened += _opened_for_all(settings)
            Workers(workers, work, refuse, announce_all).run()
        ignore_signals()
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


def _document_encoder(settings: Settings) -> Place | None:
    """The document encoder, if it is there; if not, the first document that is put is refused."""
    if settings.document_encoder is not None or not isinstance(settings.index, Path):
        return settings.document_encoder
    with suppress(ArtefactError):
        return document_encoder_of(read_manifest(settings.index, "index").details)
    return None
