"""Publishes an index to a server, without encoding anything again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from swiftlet.address import Address
from swiftlet.arguments import StrPath, address_of, one_of, path_of
from swiftlet.encoders.encoder import ModelEncoder
from swiftlet.encoders.encoding import encode_texts
from swiftlet.encoders.opening import EncoderSpec, encoder_place
from swiftlet.errors import (
    IndexServerAwayError,
    IndexServerError,
    IndexServerTimeoutError,
    InvalidArgumentError,
    StorageError,
)
from swiftlet.index.building.settings import names_of
from swiftlet.index.building.shards import Shards
from swiftlet.index.building.space import span_of
from swiftlet.index.document_encoder import load_document_encoder
from swiftlet.index.documents.passages import encoder_text, reads_headings
from swiftlet.index.lexical import DEFAULT_LANGUAGE
from swiftlet.index.server import server_at
from swiftlet.index.vectors.tuning import NEAR, TARGET
from swiftlet.manifest import METRIC
from swiftlet.progress import Progress, Silence
from swiftlet.servers.sources import Source, source_of
from swiftlet.servers.state import COMPLETE, WRONG, manifest_text
from swiftlet.servers.target import Target
from swiftlet.types import Embeddings

_ENCODED_AGAIN = 20
_SAME = 0.05  # passages may have one text, and embeddings are rounded
_SAMPLE = 100
_NEAREST = 10
_SEED = 0
_BLOCK_ROWS = 8_192
_OF_ANOTHER = "was begun by a push of another index, or of this one before it changed"
_AGAIN = "interrupted: run the same command again to continue"
_COMPLETED = "has this index already: an earlier push was completed"
_LOST = IndexServerAwayError, IndexServerTimeoutError, StorageError


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a push has written.

    `recall` is the share of each sample query's ten nearest passages that searches find; None if a
    search compares every passage. `without_words` is the reason why searches are by meaning alone,
    empty if they are hybrid.
    """

    num_passages: int
    recall: float | None
    without_words: str


def push(
    index: StrPath | Shards,
    to: str | Address,
    encoder: EncoderSpec | None = None,
    *,
    language: str | None = DEFAULT_LANGUAGE,
    facets: Sequence[str] = (),
    index_type: str | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Pushed:
    """Write an index, with its changes, to a server, without encoding.

    Embeddings are as precise as the index keeps them. An interrupted push goes on where it was.
    The collection can be searched when this returns, and not before.

    :param index: An index directory, or `Shards`.
    :param to: An address, as `swiftlet.open` takes it.
    :param encoder: The directory of the document encoder, which measures the recall of searches;
        None takes the one that the index remembers.
    :param language: The language of the words of shards; None pushes no words. An index has its
        own.
    :param facets: Of shards: fields that the server indexes for filters. An index has its own.
    :param index_type: One of the types that the server has, such as FLAT or HNSW; None depends on
        the number of passages.
    :raises ArtefactError: When the index or the encoder is damaged, or they do not fit together.
    :raises InvalidArgumentError: When the collection exists and `overwrite` is not set, or is not
        of Swiftlet; or a document has more than the server can hold.
    :raises IndexServerError: When the server is away or refuses; the same call goes on.
    """
    place = index if isinstance(index, Shards) else path_of("index", index)
    address, directory, progress = (
        address_of("to", to),
        encoder_place(encoder),
        progress or Silence(),
    )
    facets = names_of("facets", facets)
    kind: type[Target] | None = server_at(address).target
    if kind is None:
        raise InvalidArgumentError(f"indexes cannot be pushed to {address.server}")
    if index_type is not None:
        one_of("the type of the index", index_type, kind.index_types)
    source = source_of(place, language, facets)
    if source.manifest.vectors > 1:
        raise InvalidArgumentError(
            f"a passage has {source.manifest.vectors} vectors there, but one on {kind.server}"
        )
    if not source.manifest.normalised or source.manifest.metric != METRIC:
        raise InvalidArgumentError(
            f"the index compares by {source.manifest.metric} of vectors of any length, but servers "
            "are searched by cosine: search the index directory, or adopt its vectors as cosine"
        )
    loaded = load_document_encoder(source.manifest.details, directory).reading("query")
    target = kind(address)
    without_words = target.reason_against_words(source.manifest.details)
    done = _done(target, source, index_type, overwrite=overwrite)
    total = target.check(source, progress)
    if done is None:
        target.create(source, progress)
    try:
        target.write(source, total, done or 0, progress)
        target.index(total, index_type, progress)
        _check(target, total, loaded, headings=reads_headings(source.manifest.details))
        progress.begin("Measuring recall", None)
        effort, recall = _tuned(target, loaded, source.embeddings())
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_AGAIN) from None
    except _LOST as error:
        raise type(error)(f"{error}; then the same command goes on where it was") from error
    _complete(target, effort)
    return Pushed(total, recall, without_words)


def _complete(target: Target, effort: int | None) -> None:
    """Note that all is there; a second time if no answer comes, since the first may be lost."""
    try:
        target.set_state(COMPLETE, effort)
    except _LOST:
        try:
            target.set_state(COMPLETE, effort)
        except _LOST as error:
            raise type(error)(
                f"{error}; then the same command ends the push, or says that it was completed"
            ) from error


def _done(target: Target, source: Source, index_type: str | None, *, overwrite: bool) -> int | None:
    """How many passages an interrupted push of this source has written; None if there was none.

    :raises InvalidArgumentError: When there is another collection and `overwrite` is not set.
    """
    begun = target.begun()
    if begun is None:
        return None
    what = {COMPLETE: "exists", WRONG: "has wrong passages"}.get(begun.state)
    about = manifest_text(source.manifest), source.identity
    if what is None and (begun.manifest, begun.source) == about:
        if index_type is None or begun.index_type in (None, index_type):
            return int(begun.state)
        what = f"has an index of the type {begun.index_type}"
    if begun.state == COMPLETE and (begun.manifest, begun.source) == about:
        what = _COMPLETED
    if not overwrite:
        raise InvalidArgumentError(
            f"{target.address} {what or _OF_ANOTHER}; choose another name or pass --overwrite"
        )
    return None


def _check(target: Target, total: int, encoder: ModelEncoder, *, headings: bool) -> None:
    """Count the passages, and encode the texts of some again.

    Each must be nearest to the embedding that it has.
    """
    problem = ""
    sample = target.sample(_ENCODED_AGAIN)
    if (found := target.count()) != total:
        problem = f"{found:,} passages, but the index has {total:,}: push it"
    elif sample:
        stored = np.stack([embedding for *_, embedding in sample])
        texts = [encoder_text(*each[: 2 + headings]) for *each, _ in sample]
        scores = encode_texts(encoder.reading("passage"), texts) @ stored.T
        if (scores.max(axis=1) - scores.diagonal() > _SAME).any():
            problem = "embeddings that do not belong to their texts: push the index"
    if problem:
        target.set_state(WRONG)
        raise IndexServerError(f"{target.address} has {problem} again with --overwrite")


def _tuned(
    target: Target, encoder: ModelEncoder, embeddings: Iterator[Embeddings]
) -> tuple[int | None, float | None]:
    """How much a search should visit, and what share of the nearest passages it then finds.

    The queries are short spans of words, and a passage is found if it is near enough, as for an
    index on this machine. There are neither if a search compares every passage.

    :param embeddings: Those (dim,) of all passages.
    """
    if target.efforts is None:
        return None, None
    random = np.random.default_rng(_SEED)
    texts = [span_of(text, random) for _, text, *_ in target.sample(_SAMPLE)]
    queries = encode_texts(encoder, texts)
    least = _last_of_nearest(embeddings, queries)
    least -= (1 - NEAR) * np.abs(least)
    effort, most = target.efforts
    while True:
        scores = target.search(queries, _NEAREST, effort)
        found = np.array([each + [-1.0] * (_NEAREST - len(each)) for each in scores], np.float32)
        recall = float((found >= least[:, np.newaxis]).mean())
        if recall >= TARGET or effort >= most:
            return effort, recall
        effort *= 2


def _last_of_nearest(embeddings: Iterator[Embeddings], queries: Embeddings) -> Embeddings:
    """The score (q,) of the last of the nearest passages of each of `queries` (q, dim)."""
    best = np.full((len(queries), _NEAREST), -1, np.float32)
    while block := [*islice(embeddings, _BLOCK_ROWS)]:
        scores = np.concatenate((best, queries @ np.stack(block).T), axis=1)
        best = np.partition(scores, -_NEAREST, axis=1)[:, -_NEAREST:]
    last: Embeddings = best.min(axis=1)
    return last
