"""Another index and encoder in place of those at work, while searches go on."""

import asyncio
import ctypes
import gc
import logging
import os
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread

from prometheus_client import CollectorRegistry, Counter
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response

from retrieval.errors import (
    ArtefactError,
    CorruptArtefactError,
    EmbeddingSpaceMismatch,
    InvalidArgumentError,
    ManifestError,
    RetrievalError,
)
from retrieval.manifest import Manifest, read_manifest
from retrieval.searcher import Searcher
from service.problems import ReloadRefusedError
from service.reading import RequestReader
from service.schemas import Limits, ReloadRequest
from service.settings import Settings
from service.state import ServiceState, Serving

# Of several lengths, since what a length allocates it allocates on its first use.
_WARM_UP_QUERIES = ["warm up", "how long does the first answer take " * 4, "many words " * 200]

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
"""Why a reload was refused, as the metric says it; "failed" for all else."""


def open_searcher(settings: Settings) -> Searcher:
    """The searcher that the settings name, verified and warm.

    Links are followed once, so that all files come from the directories that they lead to now.

    :raises ArtefactError: When the index or the encoder cannot be trusted.
    :raises InvalidArgumentError: When the encoder has no model of the precision that is set.
    """
    index, encoder = _target(settings.index), _target(settings.encoder)
    searcher = Searcher.open(index, encoder, precision=settings.precision, readers=settings.threads)
    try:
        _check_not_replaced(settings.index, searcher.index_manifest)
        _check_not_replaced(settings.encoder, searcher.encoder_manifest)
        warm_up(searcher)
    except BaseException:
        searcher.close()
        raise
    return searcher


def warm_up(searcher: Searcher) -> None:
    """Search a little, so that the first client does not wait for what happens once."""
    for query in _WARM_UP_QUERIES:
        searcher.search(query)


class Reloader:
    """Loads on a thread of its own, one after the other, so that there are two searchers at most.

    The one before goes when its last search has ended.
    """

    def __init__(
        self, state: ServiceState, load: Callable[[], Searcher], registry: CollectorRegistry
    ) -> None:
        self._state = state
        self._load = load
        self._outcomes: SimpleQueue[Future[Serving] | None] = SimpleQueue()
        # A file system may hold it up for ever, which must not hold up the end of the process.
        self._thread = Thread(target=self._work, name="reload", daemon=True)
        self._thread.start()
        reloads = Counter(
            "swiftlet_reloads",
            "Reloads by outcome; all but those loaded were refused, and changed nothing.",
            ["outcome"],
            registry=registry,
        )
        outcomes = (_LOADED, *_REASONS.values(), _FAILED)
        self._reloads = {outcome: reloads.labels(outcome) for outcome in outcomes}

    async def reload(self) -> Serving:
        """Load, and answer searches with it from now on.

        :raises ReloadRefusedError: When what is there cannot be trusted; says why.
        """
        return await asyncio.wrap_future(self.request())

    def request(self) -> Future[Serving]:
        """Begin as `reload` does; the log says how it ends."""
        outcome: Future[Serving] = Future()
        self._outcomes.put(outcome)
        return outcome

    def close(self) -> None:
        """Begin no more, and wait a while for the load that is under way."""
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
            if outcome.set_running_or_notify_cancel():  # else who asked has given up meanwhile
                try:
                    self._reload(outcome)
                except Exception as error:
                    # Whatever it is, those that follow are to have their turn.
                    logger.exception("a reload has failed unexpectedly")
                    if not outcome.done():
                        outcome.set_exception(error)
            del outcome

    def _reload(self, outcome: Future[Serving]) -> None:
        try:
            searcher = self._load()
        except Exception as error:  # noqa: BLE001 - whatever it is, the one before goes on
            outcome.set_exception(self._refusal(error))
            return
        earlier = self._state.current
        serving = self._state.publish(searcher)
        logger.info("reloaded: index %s", serving.index)
        self._reloads[_LOADED].inc()
        outcome.set_result(serving)
        del searcher, serving, outcome
        if earlier is not None:
            unused = Event()
            weakref.finalize(earlier, unused.set)
            parts = [earlier.searcher]
            del earlier
            # Searches that failed may hold it in a cycle of frames and their exception.
            while not unused.wait(_SECONDS_UNTIL_COLLECTION):
                gc.collect()
            parts.pop().close()
            _give_memory_back()

    def _refusal(self, error: Exception) -> Exception:
        reason = next((_REASONS[base] for base in type(error).__mro__ if base in _REASONS), _FAILED)
        self._reloads[reason].inc()
        known = isinstance(error, RetrievalError)
        logger.error("reload refused, nothing has changed: %s", error, exc_info=not known)
        if not known:
            return error
        at_work = self._state.current.index if self._state.current else "none"
        return ReloadRefusedError(f"{error}; the index {at_work} goes on")


class ReloadRoute:
    """The endpoint by which an operator reloads."""

    def __init__(self, reloader: Reloader, limits: Limits) -> None:
        self.read = RequestReader(ReloadRequest, limits)
        self._reloader = reloader

    async def reload(self, request: Request) -> Response:
        """Load what the paths of the index and the encoder lead to now; SIGHUP does the same."""
        await self.read.from_body(request, empty=b"{}")
        serving = await self._reloader.reload()
        answer = {
            "index": serving.index,
            "encoder": serving.searcher.encoder_manifest.fingerprint,
            "num_documents": serving.searcher.num_documents,
            "num_passages": serving.searcher.num_passages,
        }
        return Response(to_json(answer), media_type="application/json")


def _check_not_replaced(directory: Path, opened: Manifest) -> None:
    if read_manifest(directory, opened.kind).fingerprint != opened.fingerprint:
        raise ReplacedError(f"{directory} was replaced while it was read: load it once more")


def _target(directory: Path) -> Path:
    return Path(os.path.realpath(directory))


def _give_memory_back() -> None:
    """Let the allocator return what is free to the system, which it would keep for itself."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
