"""The state that all routes share: the index in use, the executor, the limits and the metrics."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from service.admission.executor import SearchExecutor
from service.live.query_cache import QueryCache
from service.live.suggestions import Suggestions
from service.wire.connection import UnreadAnswers
from service.wire.limits import Limits
from service.wire.problems import NotReadyError, QueueFullError
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.search.searcher import Searcher


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class LoadedIndex:
    """A searcher, the cache of its queries' embeddings, and the titles of its documents.

    A search keeps a reference until its end. So a reload is atomic, and the last reference to the
    earlier index is gone when no search uses it any more.
    """

    searcher: Searcher
    cache: QueryCache | None
    suggestions: Suggestions

    @property
    def generation(self) -> str:
        """The short fingerprint of the index, with the number of its last change."""
        return self.searcher.generation

    @property
    def precision(self) -> str:
        """The precision of the query encoder."""
        encoder = self.searcher.encoder
        return encoder.precision if isinstance(encoder, OnnxEncoder) else ""


class ServiceState:
    """The one reference to the index in use, and whether the service is draining."""

    def __init__(self, searcher: Searcher | None = None, *, cache_bytes: int = 0) -> None:
        """Begin with `searcher`, if there is one; the cache of embeddings takes `cache_bytes`."""
        self.draining = False
        self.loaded: LoadedIndex | None = None
        self._cache_bytes = cache_bytes
        if searcher is not None:
            self.publish(searcher)

    def publish(self, searcher: Searcher) -> LoadedIndex:
        """Answer with `searcher` from now on."""
        # A new cache each time, so that no embedding outlives the encoder that made it.
        cache = QueryCache(self._cache_bytes) if self._cache_bytes else None
        self.loaded = loaded = LoadedIndex(searcher, cache, Suggestions(searcher))
        return loaded

    def drain(self) -> None:
        """Refuse new searches from now on; those under way finish."""
        self.draining = True


@dataclass(frozen=True, slots=True)
class Service:
    """The parts of one application that its routes use."""

    state: ServiceState
    executor: SearchExecutor
    limits: Limits
    unread: UnreadAnswers

    def check(self, *, refuses_overload: bool = False) -> None:
        """Refuse a request that cannot be answered now, before its body is read.

        :raises NotReadyError: When the index is still loading, or the service is about to stop.
        :raises QueueFullError: With `refuses_overload`, when the queue is full, or when clients do
            not read their answers.
        """
        if self.state.draining:
            raise NotReadyError("the service is about to stop and takes no more searches")
        if problem := self.loaded.searcher.problem:
            raise NotReadyError(problem)
        if not refuses_overload:
            return
        queue = self.executor.queue
        if queue.waiting >= queue.max_waiting:
            raise QueueFullError(
                f"{queue.waiting} queries are waiting; at most {queue.max_waiting} may wait"
            )
        if self.unread.connections and (
            (size_bytes := self.unread.size_bytes()) > self.limits.max_unread_bytes
        ):
            raise QueueFullError(
                f"{size_bytes} bytes of answers wait for clients to read them; at most "
                f"{self.limits.max_unread_bytes} may wait"
            )

    @property
    def loaded(self) -> LoadedIndex:
        """The index in use. Read it after the body: a slow client must not keep an earlier index.

        :raises NotReadyError: When there is none.
        """
        if self.state.loaded is None:
            raise NotReadyError("the index is still loading")
        return self.state.loaded


async def ready_service(request: Request) -> Service:
    """The service of a request's application.

    :raises NotReadyError: When it cannot answer searches now.
    """
    service: Service = request.app.state.service
    service.check()
    return service


ReadyService = Annotated[Service, Depends(ready_service)]
"""The service, which can answer a search now."""
