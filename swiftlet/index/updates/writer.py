"""The interface of writers, which put documents into an index, and what prepares documents."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from swiftlet.corpora.lines import SkippedLines
from swiftlet.corpora.records import EMBEDDING
from swiftlet.corpora.rows import Corpus, documents_of
from swiftlet.corpora.vector_sources.source import problem_of
from swiftlet.encoders.encoder import ModelEncoder
from swiftlet.encoders.encoding import encode_texts
from swiftlet.encoders.function import FunctionEncoder
from swiftlet.encoders.opening import Place
from swiftlet.errors import CollectionError, InvalidArgumentError, shown
from swiftlet.index.acceptance import of_index
from swiftlet.index.changes.log import Change
from swiftlet.index.document_encoder import MissingEncoderError, load_document_encoder
from swiftlet.index.documents.passages import PassageSplitter, read_texts
from swiftlet.index.documents.writer import hash_of
from swiftlet.index.vectors.lengths import comparable
from swiftlet.manifest import Manifest
from swiftlet.progress import Progress, Silence
from swiftlet.types import Document, EmbeddedDocument, Embeddings, Span

BATCH_DOCUMENTS = 100


@dataclass(frozen=True, slots=True)
class Changed:
    """How many documents were put or deleted, the ids that were unknown, and the last change."""

    num_documents: int
    change: int
    unknown: tuple[str, ...] = ()


def checked_ids(document_ids: Iterable[str]) -> list[str]:
    """The ids without repetitions.

    :raises InvalidArgumentError: When they are no list of strings.
    """
    if isinstance(document_ids, str | bytes) or not isinstance(document_ids, Iterable):
        raise InvalidArgumentError(
            f"document_ids is {shown(document_ids)}, but a list of ids is expected"
        )
    ids = [*dict.fromkeys(document_ids)]
    if bad := [each for each in ids if not isinstance(each, str)]:
        raise InvalidArgumentError(f"the id {shown(bad[0])} is not a string")
    return ids


class KnownPassages:
    """Passages whose vectors an index has, by the hash of what the encoder read.

    `num_reused` and `num_encoded` count the passages of puts that were given these.
    """

    def __init__(
        self,
        places: Mapping[int, int],
        vectors_at: Callable[[NDArray[np.int64]], Embeddings | None],
    ) -> None:
        """Take vectors from `places`, by hash; `vectors_at` gives those (n, width) at places (n,).

        It gives None when the places do not hold any more: then all passages are encoded.
        """
        self._places, self._vectors_at = places, vectors_at
        self.num_reused = self.num_encoded = 0

    def embed(
        self, texts: Sequence[str], encode: Callable[[Sequence[str]], Embeddings]
    ) -> Embeddings:
        """The embeddings (n, width) of texts; those that are not known are encoded once each."""
        places = [self._places.get(hash_of(text)) for text in texts]
        known = np.array([each is not None for each in places])
        found = self._vectors_at(np.array([each for each in places if each is not None], np.int64))
        if found is None:
            known[:], found = False, np.empty((0, 0), np.float32)
        new = [*dict.fromkeys(text for text, one in zip(texts, known, strict=True) if not one)]
        self.num_reused += len(found)
        self.num_encoded += len(new)
        if not new:
            return found
        encoded, at = encode(new), {text: row for row, text in enumerate(new)}
        rows = np.empty((len(texts), encoded.shape[1]), np.float32)
        if len(found):
            rows[known] = found
        rows[~known] = encoded[
            [at[text] for text, one in zip(texts, known, strict=True) if not one]
        ]
        return rows


class Preparation:
    """Prepares documents for an index, with its document encoder. Thread-safe."""

    def __init__(
        self, encoder_place: Place | None, threads: int | None = None, index: Path | None = None
    ) -> None:
        """Encode with `threads` threads (default: all cores); the encoder is loaded when needed.

        Without a place, it is the encoder that the index remembers. One that is named for an index
        of vectors alone must reproduce a sample of the `index`.
        """
        self._place, self._threads, self._index = encoder_place, threads, index
        self._encoder: ModelEncoder | None = None
        self._loaded_for: object = None
        self._loading = Lock()

    def changes(
        self,
        documents: Sequence[Document],
        manifest: Manifest,
        first: int = 0,
        known: KnownPassages | None = None,
    ) -> list[Change]:
        """Changes without numbers that put `documents` into the index of `manifest`.

        :param first: How many rows came before them, for messages.
        :param known: Passages that are not encoded again.
        :raises ArtefactError: As `encoder`.
        """
        spans = self.spans(documents, manifest, first=first)
        texts = [*texts_of(documents, spans, manifest)]
        encode = partial(self.embed, manifest=manifest)
        found = encode(texts) if known is None or not texts else known.embed(texts, encode)
        return changes_of(documents, spans, found, manifest, first)

    def spans(
        self,
        documents: Sequence[Document],
        manifest: Manifest,
        most: int | None = None,
        first: int = 0,
    ) -> list[tuple[Span, ...]]:
        """The places of the first `most` passages of each document.

        A document with an embedding is one passage.

        :param first: How many rows came before them, for messages.
        :raises ArtefactError: As `encoder`.
        """
        if all(isinstance(each, EmbeddedDocument) for each in documents):
            return [((0, len(each.text)),) for each in documents]
        try:
            encoder, splitting = self.encoder(manifest), manifest.details["splitting"]
        except MissingEncoderError as error:
            raise MissingEncoderError(f"{_without_vector(documents, first)}: {error}") from None
        if splitting["truncate"]:  # an index of vectors alone knows no number
            splitting = {**splitting, "max_tokens": encoder.max_tokens}
        # A passage has at least a word, so the words of these passages have at most these tokens.
        words = None if most is None else most * encoder.max_tokens
        splitter = PassageSplitter(
            encoder.tokenizer, **splitting, prompt=encoder.prompt, most_words=words
        )
        return [
            ((0, len(document.text)),)
            if isinstance(document, EmbeddedDocument)
            else tuple((each.start, each.end) for each in islice(splitter.split(document), most))
            for document in documents
        ]

    def embed(self, texts: Sequence[str], manifest: Manifest) -> Embeddings:
        """The embeddings (n, width) of texts that the document encoder reads.

        :raises ArtefactError: As `encoder`.
        """
        if not texts:
            return np.empty((0, manifest.width), np.float32)
        return encode_texts(self.encoder(manifest), texts, self._threads)

    def encoder(self, manifest: Manifest) -> ModelEncoder:
        """The document encoder of the index of `manifest`.

        :raises ArtefactError: When the encoder is damaged, or is another one.
        """
        wanted = encoder_details(manifest)
        with self._loading:
            if self._encoder is None or self._loaded_for != wanted:
                trial = partial(of_index, index=self._index, manifest=manifest)
                found = load_document_encoder(manifest.details, self._place, trial=trial)
                if isinstance(found, FunctionEncoder):
                    found.normalises = manifest.normalised
                self._encoder = found
                self._loaded_for = wanted
            return self._encoder


@cache
def _preparation(encoder_place: Place | None, threads: int, index: Path | None) -> Preparation:
    return Preparation(encoder_place, threads, index)


def prepared(
    encoder_place: Place | None,
    threads: int,
    index: Path | None,
    method: Callable[..., Any],
    *arguments: Any,
) -> Any:
    """What a method of `Preparation` gives, for a process that keeps the encoder between calls.

    :raises ArtefactError: As `Preparation.encoder`.
    """
    return method(_preparation(encoder_place, threads, index), *arguments)


def _without_vector(documents: Sequence[Document], first: int) -> str:
    """The row and the id of the first document without an embedding, and what it has instead."""
    row, document = next(
        (row, each)
        for row, each in enumerate(documents, first + 1)
        if not isinstance(each, EmbeddedDocument)
    )
    problem = "has no embedding"
    if EMBEDDING in document.metadata:
        given = shown(document.metadata[EMBEDDING])
        problem = f"has the embedding {given} where a list of numbers is expected"
    return f"row {row:,}: the document {shown(document.document_id)} {problem}"


def texts_of(
    documents: Iterable[Document], spans: Iterable[Sequence[Span]], manifest: Manifest
) -> Iterator[str]:
    """What the encoder reads of each passage; not all at once, since each has the title."""
    for document, places in zip(documents, spans, strict=True):
        if not isinstance(document, EmbeddedDocument):
            yield from read_texts(document, places, manifest.details)


def changes_of(
    documents: Sequence[Document],
    spans: Sequence[tuple[Span, ...]],
    embeddings: Embeddings,
    manifest: Manifest,
    first_row: int = 0,
) -> list[Change]:
    """Changes without numbers that put `documents` into the index of `manifest`.

    :param embeddings: Those of all passages of the documents that do not have their own.
    :param first_row: How many rows came before these documents, for messages.
    :raises CollectionError: When an own embedding is none of the index; it names the document.
    """
    changes, first = list[Change](), 0
    numbered = enumerate(zip(documents, spans, strict=True), start=first_row + 1)
    for row, (document, places) in numbered:
        if isinstance(document, EmbeddedDocument):
            rows = _own_embedding(document, row, manifest)
            document = document.plain  # noqa: PLW2901
        else:
            rows = embeddings[first : first + len(places)]
            first += len(places)
        changes.append(Change(0, document.document_id, document, places, rows))
    return changes


def _own_embedding(document: EmbeddedDocument, row: int, manifest: Manifest) -> Embeddings:
    """The embedding (1, width) that a document came with, as the index compares it."""
    try:
        with np.errstate(over="ignore"):  # beyond single precision, it is infinite
            found = np.asarray(document.embedding, np.float32)
    except OverflowError:  # a whole number of hundreds of digits
        found = np.full(len(document.embedding), np.inf, np.float32)
    problem = problem_of(found)
    if len(found) != manifest.width:
        problem = f"has {len(found):,} numbers where {manifest.width:,} are expected"
    if problem:
        name = shown(document.document_id)
        raise CollectionError("the documents", f"the embedding of {name} {problem}", row)
    return comparable(found[np.newaxis], normalised=manifest.normalised)


def encoder_details(manifest: Manifest) -> tuple[object, ...]:
    """What embeddings depend on: embeddings with equal details fit together."""
    details = manifest.details
    return details["encoder_fingerprint"], details["precision"], details["splitting"]


class Writer(ABC):
    """Changes one index."""

    place: object
    """What is written: a directory without links, or an address."""

    change: int
    """The number of the last change."""

    needs_merge = False
    """Whether `compact` would make searches faster."""

    def __init__(self, preparation: Preparation) -> None:
        """Split and encode documents by `preparation`."""
        self._preparation = preparation

    @property
    @abstractmethod
    def num_documents(self) -> int:
        """Documents in the index, with all changes."""

    @abstractmethod
    def manifest(self) -> Manifest:
        """The manifest of the index as it is now.

        :raises RetrievalError: When the writer is closed.
        :raises ArtefactError: When there is no index any more.
        """

    def check_encoder(self) -> None:
        """Load the document encoder now, not when it is first needed.

        :raises ArtefactError: When it is damaged, or is not the encoder of the index.
        """
        self._preparation.encoder(self.manifest())

    @abstractmethod
    def append(self, changes: Sequence[Change], prepared_for: Manifest) -> Changed:
        """Write all changes or none; `Preparation.changes` made them for the index of a manifest.

        :raises ArtefactError: When an index with another encoder has taken its place since then.
        :raises RetrievalError: When the storage or the server refuses.
        """

    @abstractmethod
    def delete(self, document_ids: Iterable[str]) -> Changed:
        """Delete the documents with these ids; ids that the index does not have are returned.

        :raises InvalidArgumentError: When the ids are no list of strings.
        :raises RetrievalError: When the storage or the server refuses; then none is deleted.
        """

    def compact(
        self,
        *,
        progress: Progress | None = None,  # noqa: ARG002
        merge: Callable[[Path, Path, int, Place | None], object] | None = None,  # noqa: ARG002
    ) -> bool:
        """Merge the changes into the base, if there is one; false if there is nothing to merge."""
        return False

    @abstractmethod
    def close(self) -> None:
        """End; nothing may be running, and nothing can follow."""

    def put(
        self,
        documents: Corpus,
        *,
        skipped: SkippedLines | None = None,
        batch_documents: int = BATCH_DOCUMENTS,
        progress: Progress | None = None,
        known: KnownPassages | None = None,
    ) -> Changed:
        """Add documents; one with an id that the index has replaces the earlier document.

        Each batch is written completely or not at all.

        :param documents: A corpus, as `swiftlet.build` takes it.
        :param skipped: Collects bad rows or lines, which are left out; None refuses them.
        :param progress: Shows how many documents are written; None shows nothing.
        :param known: Passages of the index that are not encoded again.
        :raises CollectionError: When a document is bad, or an id comes twice.
        :raises ArtefactError: When the encoder is damaged, or is not the encoder of the index.
        :raises StorageError: When the file system refuses.
        """
        rest = documents_of(documents, skipped=skipped)
        progress = progress or Silence()
        progress.begin("Putting documents", None)
        count = 0
        while batch := list(islice(rest, batch_documents)):
            manifest = self.manifest()
            self.append(self._preparation.changes(batch, manifest, count, known), manifest)
            count += len(batch)
            progress.advance(len(batch))
        return Changed(count, self.change)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
