"""Replaces the index and the encoder while searches continue."""

import asyncio
import ctypes
import gc
import logging
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Event, Thread

from prometheus_client import CollectorRegistry, Counter

from service.live.peers import Peers
from service.live.state import LoadedIndex, ServiceState
from service.live.suggestions import Suggestions
from service.wire.problems import ReloadRefusedError
from swiftlet.errors import (
    ArtefactError,
    CorruptArtefactError,
    EmbeddingSpaceMismatch,
    InvalidArgumentError,
    ManifestError,
    RetrievalError,
)
from swiftlet.search.searcher import Searcher

_LOADED = "loaded"
_FAILED = "failed"
_SECONDS_UNTIL_COLLECTION = 1.0
_SECONDS_UNTIL_GIVEN_UP = 10

logger = logging.getLogger(__name__)


class ReplacedError(ArtefactError):
    """An artefact was replaced by another one while it was read."""


_REASONS: dict[type[Exception], str] = {
    ManifestError: "bad_manifest",
    CorruptArtefactError: "corrupt_file",
    EmbeddingSpaceMismatch: "other_embedding_space",
    ReplacedError: "replaced_meanwhile",
    InvalidArgumentError: "wrong_setting",
}
"""The outcomes of refused reloads in the metric; all other errors count as "failed"."""


class Reloader:
    """Loads one index after the other on a thread of its own, so two searchers exist at most.

    The earlier searcher is closed when its last search has ended.
    """

    def __init__(
        self,
        state: ServiceState,
        load: Callable[[], Searcher],
        registry: CollectorRegistry,
        peers: Peers | None = None,
    ) -> None:
        self._state = state
        self._load = load
        self._peers = peers or Peers()
        self._outcomes: SimpleQueue[Future[LoadedIndex] | None] = SimpleQueue()
        # A daemon, so that a file system that hangs does not keep the process from ending.
        self._thread = Thread(target=self._work, name="reload", daemon=True)
        self._thread.start()
        reloads = Counter(
            "swiftlet_reloads",
            "Reloads by outcome; all outcomes but loaded are refusals, which change nothing.",
            ["outcome"],
            registry=registry,
        )
        outcomes = (_LOADED, *_REASONS.values(), _FAILED)
        self._reloads = {outcome: reloads.labels(outcome) for outcome in outcomes}

    async def reload(self) -> LoadedIndex:
        """Load, and answer searches with it from now on.

        :raises ReloadRefusedError: When the artefacts are not valid, with the reason.
        """
        if self._peers.writes:
            return await asyncio.wrap_future(self.request())
        await asyncio.to_thread(self._peers.ask_writer, "reload")
        return self._state.loaded

    def request(self) -> Future[LoadedIndex]:
        """Begin a reload; the log has its outcome."""
        outcome: Future[LoadedIndex] = Future()
        self._outcomes.put(outcome)
        return outcome

    def answer(self) -> None:
        """Reload as another process asks."""
        self.request().result()

    def close(self) -> None:
        """Cancel waiting reloads, and wait a while for the one under way."""
        with suppress(Empty):
            while True:
                if (outcome := self._outcomes.get_nowait()) is not None:
                    outcome.cancel()
        self._outcomes.put(None)
        self._thread.join(_SECONDS_UNTIL_GIVEN_UP)
        if self._thread.is_alive():
            logger.warning(
                "a reload has not ended after %d s and is given up", _SECONDS_UNTIL_GIVEN_UP
            )

    def _work(self) -> None:
        while (outcome := self._outcomes.get()) is not None:
            if outcome.set_running_or_notify_cancel():  # else it was cancelled meanwhile
                try:
                    self._reload(outcome)
                except Exception as error:
                    # Reloads that follow must still run.
                    logger.exception("a reload has failed unexpectedly")
                    if not outcome.done():
                        outcome.set_exception(error)
            del outcome

    def _reload(self, outcome: Future[LoadedIndex]) -> None:
        try:
            searcher = self._load()
        except Exception as error:  # noqa: BLE001 - after any error, the earlier index stays in use
            outcome.set_exception(self._refusal(error))
            return
        earlier = self._state.loaded
        loaded = self._state.publish(searcher)
        logger.info("reloaded: index %s", loaded.generation)
        if self._peers.writes:  # it is one reload of all processes
            self._reloads[_LOADED].inc()
        try:
            self._peers.tell_others("reload")
        except RetrievalError as error:
            logger.error("a process keeps the earlier index: %s", error)  # noqa: TRY400
            outcome.set_exception(error)
        else:
            outcome.set_result(loaded)
        close = closing(earlier)
        del searcher, loaded, outcome, earlier
        close()

    def _refusal(self, error: Exception) -> Exception:
        reason = next((_REASONS[base] for base in type(error).__mro__ if base in _REASONS), _FAILED)
        self._reloads[reason].inc()
        known = isinstance(error, RetrievalError)
        logger.error("reload refused, nothing has changed: %s", error, exc_info=not known)
        if not known:
            return error
        return ReloadRefusedError(
            f"{error}; the index {self._state.loaded.generation} stays in use"
        )


def closing(loaded: LoadedIndex) -> Callable[[], None]:
    """Closes an index as soon as nothing refers to it, also not the caller."""
    unused = Event()
    weakref.finalize(loaded, unused.set)
    parts: list[Suggestions | Searcher] = [loaded.searcher, loaded.suggestions]

    def close() -> None:
        # A failed search may keep a reference to it, in a cycle of frames and their exception.
        while not unused.wait(_SECONDS_UNTIL_COLLECTION):
            gc.collect()
        while parts:
            parts.pop().close()
        _give_memory_back()

    return close


def _give_memory_back() -> None:
    """Return the allocator's free memory to the system."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
