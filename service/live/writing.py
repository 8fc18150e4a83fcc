"""Changes the index in use: puts and deletes documents, and merges changes in the background."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from operator import methodcaller
from pathlib import Path
from threading import Event, Lock, Thread
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from service.live.peers import Peers
from service.live.state import LoadedIndex, ServiceState
from service.wire.problems import NotReadyError, QueueFullError, WriteRefusedError
from swiftlet.address import Address
from swiftlet.corpora.rows import documents_of_rows
from swiftlet.encoders.opening import Place
from swiftlet.errors import (
    ArtefactError,
    CollectionError,
    ReadOnlyStorageError,
    RetrievalError,
    StorageError,
    UnfinishedWriteError,
    UnknownDocumentError,
)
from swiftlet.index.changes.log import CHANGES_FILE
from swiftlet.index.columns.filters import Filter
from swiftlet.index.updates.directory_writer import write
from swiftlet.index.updates.merge import merge_changes
from swiftlet.index.updates.writer import (
    Changed,
    Preparation,
    Writer,
    changes_of,
    prepared,
    texts_of,
)
from swiftlet.processors.low_priority import LowPriorityProcess
from swiftlet.search.searcher import Searcher
from swiftlet.servers.writer import told
from swiftlet.types import Document, Span

_SECONDS_BETWEEN_LOOKS = 0.25
_SECONDS_AFTER_FAILURE = 60
_MOST_WAITING = 16
_SHARE_OF_ENCODING = 0.1
_CHARACTERS_AT_ONCE, _TEXTS_AT_ONCE = 1 << 16, 32
"""What a put has split and encoded before others have their turn; a longer document is split whole.
"""

Result = TypeVar("Result")

logger = logging.getLogger(__name__)


class Writing:
    """Writes on one thread; encodes documents and merges in a process of low priority each.

    A write is answered when it is on the disk and the searcher in use has it. A deletion does not
    wait for documents that are being encoded.
    """

    def __init__(
        self,
        state: ServiceState,
        registry: CollectorRegistry,
        *,
        index: Path | Address,
        document_encoder: Place | None,
        threads: int,
        most_passages: int,
        peers: Peers | None = None,
    ) -> None:
        """Write to `index`, which may be a link or an address; the first write opens it.

        One process of the service writes. The other ones of `peers` ask it, and see each write
        before it is answered.

        :param threads: Threads that encode.
        :param most_passages: Of a document that is put.
        """
        self._state, self._index = state, index
        self._document_encoder, self._threads = document_encoder, threads
        self._most_passages = most_passages
        self._writer: Writer | None = None
        self._peers, self._waiting = peers or Peers(), 0
        self._asking = ThreadPoolExecutor(_MOST_WAITING, "ask")
        self._thread = ThreadPoolExecutor(1, "write")
        self._encodings = ThreadPoolExecutor(1, "encode")
        self._encoder = LowPriorityProcess("encode", share=_SHARE_OF_ENCODING)
        self._merges = ThreadPoolExecutor(1, "merge")
        self._merger = LowPriorityProcess("merge")
        self._merge_is_due = Lock()
        self._no_merge_before = 0.0
        self._closed = Event()
        self._follower = Thread(target=self._follow, name="follow", daemon=True)
        self._documents = Counter(
            "swiftlet_documents_written", "Documents written by this service, by what was done.",
            ["change"], registry=registry,
        )  # fmt: skip
        for change in ("put", "deleted"):
            self._documents.labels(change)
        self._merge_seconds = Histogram(
            "swiftlet_merge_seconds", "Time of merges, by outcome.", ["outcome"],
            buckets=[1, 3, 10, 30, 100, 300, 1000, 3000], registry=registry,
        )  # fmt: skip
        for outcome in ("merged", "failed"):
            self._merge_seconds.labels(outcome)
        self._merge_bytes = Counter(
            "swiftlet_merge_bytes", "Bytes of the bases that merges wrote.", registry=registry
        )
        self._replaced = Counter(
            "swiftlet_index_replaced",
            "Indexes that were found in the place of the index in use, as after a merge.",
            registry=registry,
        )
        for name, about, value in (
            (
                "segments",
                "Parts that a search looks into: 2 with changes, else 1.",
                lambda: 1 + (state.loaded.searcher.num_changed_passages > 0),
            ),
            (
                "changed_passages",
                "Passages that have been put since the last merge.",
                lambda: state.loaded.searcher.num_changed_passages,
            ),
            (
                "tombstones",
                "Passages that are not found any more.",
                lambda: state.loaded.searcher.num_tombstones,
            ),
            ("changes_bytes", "Size of the changes on the disk.", self._changes_bytes),
        ):
            Gauge(f"swiftlet_{name}", about, registry=registry).set_function(value)
        self._follower.start()

    async def put(self, documents: Sequence[Mapping[str, Any]]) -> Changed:
        """Add or replace documents, all or none; an error says what is known of the write.

        :raises CollectionError: When a document is bad or too long, or an id comes twice.
        :raises WriteRefusedError: When the index cannot be written by this service.
        :raises QueueFullError: When too many writes wait.
        :raises StorageError: When the file system refuses.
        :raises UnfinishedWriteError: When it refuses so late that they may be written.
        :raises IndexServerError: When the server of the index fails; they may be written.
        :raises NotReadyError: When they are written, but searches do not see them yet.
        """
        with self._turn():
            if not self._peers.writes:
                return await self._asked("put", documents)
            manifest = await self._on(self._thread, self._use, methodcaller("manifest"))
            rows = documents_of_rows(documents)
            found: list[Document] = await self._on(self._encodings, list, rows)
            spans: list[tuple[Span, ...]] = []
            for batch in _batches(found):
                spans += await self._encoded(
                    Preparation.spans, batch, manifest, self._most_passages + 1
                )
            for row, places in enumerate(spans, 1):
                if len(places) > (most := self._most_passages):
                    problem = f"the text has more than {most} passages, which is the limit"
                    raise CollectionError("documents", f"{problem}: split the document", row)
            # In pieces, between which other documents are encoded.
            texts = texts_of(found, spans, manifest)
            embeddings = [np.empty((0, manifest.width), np.float32)]
            while piece := [*islice(texts, _TEXTS_AT_ONCE)]:
                embeddings.append(await self._encoded(Preparation.embed, piece, manifest))

            def append(writer: Writer) -> Changed:
                rows = np.concatenate(embeddings)
                return writer.append(changes_of(found, spans, rows, manifest), manifest)

            changed: Changed = await self._on(self._thread, self._write, "put", append)
        return changed

    async def delete(
        self,
        document_ids: Sequence[str],
        filter_: Filter | None = None,
        *,
        missing_ok: bool = True,
    ) -> Changed:
        """Delete the documents with these ids, and all that pass a filter; errors as `put`.

        :raises FilterError: As `Searcher.ids_to_delete`.
        :raises UnknownDocumentError: When there is no document of an id, unless `missing_ok`.
        """

        def run(writer: Writer) -> Changed:
            ids = [*document_ids]
            if filter_ is not None:
                with told():
                    ids += self._refreshed(self._state.loaded).ids_to_delete(filter_)
            return writer.delete(ids)

        with self._turn():
            changed: Changed = (
                await self._on(self._thread, self._write, "deleted", run)
                if self._peers.writes
                else await self._asked("delete", document_ids, filter_)
            )
        if changed.unknown and not missing_ok:
            raise UnknownDocumentError(changed.unknown[0])
        return changed

    def answers(self) -> dict[str, Callable[..., Any]]:
        """What other processes may ask; called on the event loop, whose coroutines answer."""
        loop = asyncio.get_running_loop()

        def answer(method: Callable[..., Any], *arguments: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(method(*arguments), loop).result()

        return {
            "put": partial(answer, self.put),
            "delete": partial(answer, self.delete),
            "refresh": self.refresh,
        }

    def refresh(self) -> None:
        """Read all changes, so that the next search sees them."""
        self._refreshed(self._state.loaded)

    async def _asked(self, name: str, *arguments: Any) -> Changed:
        """The answer of the process that writes."""
        changed: Changed = await self._on(self._asking, self._peers.ask_writer, name, *arguments)
        return changed

    def close(self) -> None:
        """Finish a write that is on its way to the disk, end the rest, and unlock the index."""
        self._closed.set()
        for pool in (self._encodings, self._asking):
            pool.shutdown(wait=False, cancel_futures=True)
        self._encoder.close()  # so that a long put does not hold up the end of the service
        for pool in (self._encodings, self._thread):
            pool.shutdown(wait=True, cancel_futures=True)
        self._merger.close()
        self._merges.shutdown(wait=True, cancel_futures=True)
        self._follower.join()
        if self._writer is not None:
            self._writer.close()

    def check_queue(self) -> None:
        """Refuse a write if too many wait.

        :raises QueueFullError: When too many writes wait.
        """
        if self._waiting >= _MOST_WAITING:
            raise QueueFullError(
                f"{self._waiting} writes are waiting; at most {_MOST_WAITING} may wait"
            )

    @contextmanager
    def _turn(self) -> Iterator[None]:
        self.check_queue()
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    async def _on(
        self, pool: ThreadPoolExecutor, function: Callable[..., Result], *arguments: Any
    ) -> Result:
        """Call a function in turn; when the client leaves, a call that has begun is finished."""
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, function, *arguments)
        except ArtefactError as error:  # such as another document encoder
            raise WriteRefusedError(str(error)) from error

    async def _encoded(self, method: Callable[..., Any], *arguments: Any) -> Any:
        """What a method of `Preparation` gives, in the process that encodes."""
        target = self._index if isinstance(self._index, Path) else None
        place = self._document_encoder, self._threads, target
        return await self._on(
            self._encodings, self._encoder.call, prepared, *place, method, *arguments
        )

    def _use(self, use: Callable[[Writer], Result]) -> Result:
        try:
            return use(self._opened())
        except (ReadOnlyStorageError, UnfinishedWriteError):
            raise
        except StorageError as error:
            raise StorageError(
                f"{error}; nothing was written: free space and send it again"
            ) from error

    def _write(self, kind: str, use: Callable[[Writer], Changed]) -> Changed:
        changed = self._use(use)
        self._documents.labels(kind).inc(changed.num_documents)
        writer = self._writer
        if (
            writer is not None
            and writer.needs_merge
            and perf_counter() > self._no_merge_before
            and self._merge_is_due.acquire(blocking=False)
        ):
            self._merges.submit(self._merge, writer)
        try:
            self.refresh()
            self._peers.tell_others("refresh")
        except Exception as error:  # the thread that follows logs it
            raise NotReadyError(
                f"all is written, up to the change {changed.change}, but searches do not see it "
                f"yet: {error}"
            ) from error
        return changed

    def _opened(self) -> Writer:
        """The writer of the index that is in use, which may be another one since a reload."""
        target = self._state.loaded.searcher.place
        if target is None:
            raise WriteRefusedError("there is no index directory to write to")
        if self._state.is_followed:
            raise WriteRefusedError(
                "swiftlet up keeps this index in step with a folder: change the files of the folder"
            )
        if isinstance(target, Path):
            # Not where the link leads now: until the next reload, searches use this one.
            target = target.resolve()
        if self._writer is not None and self._writer.place == target:
            return self._writer
        if self._writer is not None:
            self._merger.end()
            with self._merge_is_due:
                earlier, self._writer = self._writer, None
                earlier.close()
        with told():
            self._writer = write(target, encoder=self._document_encoder, threads=self._threads)
        return self._writer

    def _changes_bytes(self) -> int:
        size_bytes = 0
        index = self._index
        for path in index.glob(f"{CHANGES_FILE}*") if isinstance(index, Path) else ():
            with suppress(OSError):  # SQLite has just removed its log
                size_bytes += path.stat().st_size
        return size_bytes

    def _merge(self, writer: Writer) -> None:
        began, outcome = perf_counter(), ""
        try:
            if not writer.compact(merge=self._merge_in_process):
                return
            outcome = "merged"
            manifest = writer.manifest()
            self._merge_bytes.inc(sum(file.size_bytes for file in manifest.files.values()))
            logger.info("merged: %d documents", manifest.details["num_documents"])
        except Exception as error:
            outcome = "failed"
            self._no_merge_before = perf_counter() + _SECONDS_AFTER_FAILURE
            if not self._closed.is_set():
                known = isinstance(error, RetrievalError)
                logger.error("a merge has failed: %s", error, exc_info=not known)  # noqa: TRY400
        finally:
            if outcome:
                self._merge_seconds.labels(outcome).observe(perf_counter() - began)
            self._merge_is_due.release()

    def _merge_in_process(self, *arguments: Any) -> None:
        try:
            self._merger.call(partial(merge_changes, threads=self._threads), *arguments)
        finally:
            self._merger.end()  # its memory is not needed until the next merge

    def _refreshed(self, loaded: LoadedIndex) -> Searcher:
        """The searcher, which has read all changes, or another index in the place of its own."""
        searcher, before = loaded.searcher, loaded.searcher.index_manifest
        if searcher.refresh() and searcher.index_manifest.fingerprint != before.fingerprint:
            if self._peers.writes:
                self._replaced.inc()
            logger.info("the index has been replaced: index %s is searched", loaded.generation)
        return searcher

    def _follow(self) -> None:
        """Read the changes that other processes write, and load the bases that they merge."""
        problem, next_look = "", 0.0
        while not self._closed.wait(_SECONDS_BETWEEN_LOOKS):
            loaded = self._state.loaded
            if perf_counter() < next_look:
                continue
            next_look = perf_counter() + loaded.searcher.seconds_between_looks
            try:
                self._refreshed(loaded)
                if problem:
                    logger.info("changes are read again")
                problem = ""
            except Exception as error:
                # A reload may have just closed the searcher, which is no problem.
                if str(error) != problem and self._state.loaded is loaded:
                    known = isinstance(error, RetrievalError)
                    logger.error("changes cannot be read: %s", error, exc_info=not known)  # noqa: TRY400
                problem = str(error)


def _batches(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Documents in batches, each of which ends when it has enough characters."""
    batch, characters = list[Document](), 0
    for document in documents:
        batch.append(document)
        characters += len(document.text)
        if characters >= _CHARACTERS_AT_ONCE:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch
