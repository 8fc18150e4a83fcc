"""The state that all routes share: the index in use, the executor and the limits."""

import asyncio
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Annotated

from fastapi import Depends, Request, Response
from starlette.concurrency import run_in_threadpool

from service.admission.cost import COST
from service.admission.executor import Argument, LineExecutor, SearchExecutor
from service.live.challenger import Challenger
from service.live.query_log import QueryLog
from service.live.suggestions import Suggestions
from service.wire.body import json_response
from service.wire.connection import UnreadAnswers
from service.wire.problems import NotReadyError, QueueFullError
from service.wire.requests import Limits
from service.wire.turns import Turns
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.search.searcher import Searcher
from swiftlet.search.weak import weak_below
from swiftlet.types import Embeddings

_ENTRY_BYTES = 250
"""The bytes of an entry besides its text and its numbers: the array and its place in the order."""


class QueryCache:
    """Normalised query to embedding (dim,); evicts the least recently used. Thread-safe.

    A cache belongs to one encoder: after a reload there is a new cache.
    """

    def __init__(self, max_bytes: int) -> None:
        """Make a cache that takes up about `max_bytes` at most."""
        self._free_bytes = max_bytes
        self._embeddings: OrderedDict[str, Embeddings] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._embeddings)

    def get(self, query: str) -> Embeddings | None:
        """The embedding of a query, or None if it is not in the cache."""
        with self._lock:
            embedding = self._embeddings.get(query)
            if embedding is not None:
                self._embeddings.move_to_end(query)
            return embedding

    def put(self, query: str, embedding: Embeddings) -> None:
        """Keep an embedding, which becomes read-only."""
        embedding.flags.writeable = False
        with self._lock:
            if query in self._embeddings:
                return  # another thread was faster
            self._embeddings[query] = embedding
            self._free_bytes -= _size_bytes(query, embedding)
            while self._free_bytes < 0:
                self._free_bytes += _size_bytes(*self._embeddings.popitem(last=False))


def _size_bytes(query: str, embedding: Embeddings) -> int:
    return sys.getsizeof(query) + embedding.nbytes + _ENTRY_BYTES


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class LoadedIndex:
    """A searcher, the cache of its queries' embeddings, and the titles of its documents.

    A search keeps a reference until its end. So a reload is atomic, and the last reference to the
    earlier index is gone when no search uses it any more.
    """

    searcher: Searcher
    cache: QueryCache | None
    suggestions: Suggestions
    weak: "WeakLines"

    @property
    def generation(self) -> str:
        """The short fingerprint of the index, with the number of its last change."""
        return self.searcher.generation

    @property
    def precision(self) -> str:
        """The precision of the query encoder."""
        encoder = self.searcher.encoder
        return encoder.precision if isinstance(encoder, OnnxEncoder) else ""


class WeakLines:
    """Measured at the first request, which takes some hundred searches, and kept."""

    def __init__(self) -> None:
        self._measuring = asyncio.Lock()
        self._found: dict[str, float] | None = None

    async def of(self, loaded: LoadedIndex) -> dict[str, float]:
        """The scores below which answers are weak, of the index that has these lines."""
        async with self._measuring:
            if self._found is None:
                self._found = await run_in_threadpool(_weak_below, loaded)
            return self._found


def _weak_below(loaded: LoadedIndex) -> dict[str, float]:
    # The index stays open as long as `loaded` is referred to.
    return weak_below(loaded.searcher)


class ServiceState:
    """The one reference to the index in use, and whether the service is draining."""

    loaded: LoadedIndex
    """Read it after the body of a request: a slow client must not keep an earlier index."""

    def __init__(self, searcher: Searcher, *, cache_bytes: int = 0) -> None:
        """Begin with `searcher`; the cache of embeddings takes `cache_bytes`."""
        self.draining = False
        self.refining: Callable[[], tuple[int, int] | None] = lambda: None
        """How many passages the document encoder has read, and of how many, if it is at it."""
        self.is_followed = False
        """Whether `swiftlet up` serves: another process writes the index, from a folder."""
        self._cache_bytes = cache_bytes
        self.publish(searcher)

    def publish(self, searcher: Searcher) -> LoadedIndex:
        """Answer with `searcher` from now on."""
        # A new cache each time, so that no embedding outlives the encoder that made it.
        cache = QueryCache(self._cache_bytes) if self._cache_bytes else None
        self.loaded = loaded = LoadedIndex(searcher, cache, Suggestions(searcher), WeakLines())
        return loaded

    def drain(self) -> None:
        """Refuse new searches from now on; those under way finish."""
        self.draining = True


@dataclass(frozen=True, slots=True)
class Service:
    """The parts of one application that its routes use."""

    state: ServiceState
    executor: SearchExecutor | LineExecutor
    limits: Limits
    unread: UnreadAnswers
    turns: Turns
    has_files: bool = False
    log: QueryLog | None = None
    challenger: Challenger | None = None

    def check(self, *, refuses_overload: bool = False) -> None:
        """Refuse a request that cannot be answered now, before its body is read.

        :raises NotReadyError: When the service is about to stop, or its index is unfit.
        :raises QueueFullError: With `refuses_overload`, when the queue is full, or when clients do
            not read their answers.
        """
        if self.state.draining:
            raise NotReadyError("the service is about to stop and takes no more searches")
        searcher = self.state.loaded.searcher
        if problem := searcher.problem:
            place = searcher.place
            if self.state.is_followed and isinstance(place, Path) and not place.exists():
                problem = "the index of the folder is gone: stop swiftlet up, and start it again"
            raise NotReadyError(problem)
        if not refuses_overload:
            return
        line = self.executor.line
        if line.waiting >= line.max_waiting:
            raise QueueFullError(
                f"{line.waiting} queries are waiting; at most {line.max_waiting} may wait"
            )
        if self.unread.connections and (
            (size_bytes := self.unread.size_bytes()) > self.limits.max_unread_bytes
        ):
            raise QueueFullError(
                f"{size_bytes} bytes of answers wait for clients to read them; at most "
                f"{self.limits.max_unread_bytes} may wait"
            )

    def deadline(self, request: Request) -> float:
        """The time of `perf_counter` at which the answer to a request is due."""
        began: float = request.state.context.began
        return began + self.limits.timeout_ms / 1000

    async def answer(
        self, request: Request, write: Callable[[Argument], bytes], argument: Argument
    ) -> Response:
        """The JSON that `write` makes of `argument`, on a thread of the executor, in time."""
        (completed,) = await self.executor.map(
            write,
            [argument],
            deadline=self.deadline(request),
            expected_seconds=COST.beside_loop,
            receive=request.receive,
        )
        return json_response(completed.result)


async def ready_service(request: Request) -> Service:
    """The service of a request's application.

    :raises NotReadyError: When it cannot answer searches now.
    """
    service: Service = request.app.state.service
    service.check()
    return service


ReadyService = Annotated[Service, Depends(ready_service)]
"""The service, which can answer a search now."""
