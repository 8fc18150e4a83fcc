"""Opens the searcher that the settings name, verified and warm."""

import logging
import os
from contextlib import suppress
from pathlib import Path
from weakref import WeakValueDictionary

from service.live.no_index import NoIndex
from service.live.reload import ReplacedError
from service.settings import Settings
from swiftlet.encoders import DEFAULT_QUERY_ENCODER
from swiftlet.encoders.encoder import ModelEncoder
from swiftlet.encoders.opening import Place, open_encoder
from swiftlet.encoders.reranker import OnnxReranker
from swiftlet.index.query_encoder import query_encoder_if_any
from swiftlet.manifest import Manifest, read_manifest
from swiftlet.search.searcher import Searcher

# Of several lengths, because the first text of a length allocates memory; and accents and a script
# without spaces, whose patterns are compiled at their first text.
_WARM_UP_QUERIES = [
    "warm up",
    "how long does the first answer take " * 4,
    "many words " * 200,
    "réchauffé 東京",
]

_ATTEMPTS = 3

logger = logging.getLogger(__name__)


class SharedEncoders:
    """Query encoders of directories, each of which is opened once as long as an index uses it."""

    def __init__(self, settings: Settings) -> None:
        """Take the encoder that is set for all indexes of its embedding space."""
        self._settings = settings
        self._opened = WeakValueDictionary[tuple[Path, str], ModelEncoder]()

    def of(self, index: Path) -> Place | ModelEncoder | None:
        """The query encoder of an index; None if it has none.

        :raises ArtefactError: When it is damaged.
        """
        place = self._settings.encoder
        space = read_manifest(index, "index").embedding_space
        if not isinstance(place, Path) or read_manifest(place, "encoder").embedding_space != space:
            place = query_encoder_if_any(index)
        if not isinstance(place, Path):
            return place
        key = place, read_manifest(place, "encoder").fingerprint
        found = self._opened.get(key)
        if found is None:
            precision = self._settings.precision
            found = self._opened[key] = open_encoder(place, "query", precision=precision)
        return found


def open_searcher(settings: Settings) -> Searcher:
    """The searcher that the settings name, verified and warm.

    Links are followed once, so that all files come from the directories that they lead to now. If
    one is replaced meanwhile, as by a merge, the new one is opened.

    :raises ArtefactError: When the index or the encoder cannot be trusted.
    :raises InvalidArgumentError: When the encoder has no model of the precision that is set.
    """
    for _ in range(_ATTEMPTS - 1):
        with suppress(ReplacedError):
            return _opened(settings)
    return _opened(settings)


def _opened(settings: Settings) -> Searcher:
    index, encoder = settings.index, settings.query_encoder
    if isinstance(encoder, Path):
        encoder = _target(encoder)
    if isinstance(index, Path):
        index = _target(index)
    reranker = None if settings.reranker is None else OnnxReranker.load(_target(settings.reranker))
    if reranker is not None and reranker.weight == 0:
        logger.warning(
            "the re-ranker %s has the weight 0: it takes time, but never changes an order",
            settings.reranker,
        )
    if index is None:
        loaded = open_encoder(
            encoder or DEFAULT_QUERY_ENCODER, "query", precision=settings.precision
        )
        alone = NoIndex(loaded, reranker)
        warm_up(alone)
        return alone
    searcher = Searcher.open(
        index,
        encoder,
        precision=settings.precision,
        reranker=reranker,
        readers=settings.threads,
    )
    try:
        if isinstance(settings.index, Path):
            _check_not_replaced(settings.index, searcher.index_manifest)
        if isinstance(place := settings.query_encoder, Path):
            _check_not_replaced(place, searcher.encoder_manifest)
        warm_up(searcher)
    except BaseException:
        searcher.close()
        raise
    return searcher


def open_one_of(encoders: SharedEncoders, threads: int, index: Path) -> Searcher:
    """The searcher of an index of the folder, verified and warm; errors as `open_searcher`."""
    searcher = Searcher.open(index, encoders.of(index), readers=threads)
    warm_up(searcher)
    return searcher


def warm_up(searcher: Searcher) -> None:
    """Run a few searches, so that no client waits for first-time allocations."""
    if isinstance(searcher, NoIndex):
        searcher.encoder.encode(_WARM_UP_QUERIES)
        return
    if searcher.mode_of(None) == "lexical" or searcher.has_encoder:
        for query in _WARM_UP_QUERIES:
            searcher.search(query)
    if not searcher.has_encoder:
        searcher.search(embedding=[1.0] * searcher.index_manifest.dim)


def _check_not_replaced(directory: Path, opened: Manifest) -> None:
    if read_manifest(directory, opened.kind).fingerprint != opened.fingerprint:
        raise ReplacedError(
            f"{directory} was replaced {_ATTEMPTS} times while it was read: load it once more"
        )


def _target(directory: Path) -> Path:
    return Path(os.path.realpath(directory))
