"""A query to its documents: encoder, index, maxP and store, with the time that each took."""

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Protocol

import numpy as np

from retrieval.aggregation import DocumentNumbers, best_passages
from retrieval.documents import DocumentStore
from retrieval.encoder import Encoder, OnnxEncoder, Precision
from retrieval.errors import (
    CorruptIndexError,
    EmbeddingSpaceMismatch,
    InvalidArgumentError,
    ManifestError,
    QueryError,
)
from retrieval.index import FaissIndex, SearchEffort, VectorIndex
from retrieval.manifest import Manifest, load_manifest, read_manifest
from retrieval.text import has_lone_surrogate, normalise
from retrieval.types import Document, Embeddings, Hit

INDEX_FILE = "index.faiss"
DOCUMENTS_FILE = "documents.sqlite"
PASSAGE_TO_DOCUMENT_FILE = "passage_to_document.npy"

# Passages fetched for each document asked for, and the fewest: most documents that answer a query
# do so with more than one passage, and one search for more costs less than a second search.
_PASSAGES_PER_DOCUMENT = 4
_FEWEST_CANDIDATES = 40
_WIDENING = 4


class EmbeddingCache(Protocol):
    """Remembers the embeddings of normalised queries, all from one encoder."""

    def get(self, query: str) -> Embeddings | None:
        """The embedding (dim,) of a normalised query, if it is remembered."""
        ...

    def put(self, query: str, embedding: Embeddings) -> None:
        """Remember the embedding (dim,) of a normalised query."""
        ...


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Seconds that each stage of one search took; 0 where it did not run."""

    tokenise: float
    encode: float
    search: float
    aggregate: float
    fetch: float


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found, best document first, and whether the embedding was in its cache."""

    hits: list[Hit]
    stage_seconds: StageTimes
    cached: bool = False


class Searcher:
    """Answers queries on the calling thread. Thread-safe."""

    def __init__(
        self,
        *,
        encoder: Encoder,
        index: VectorIndex,
        passage_to_document: DocumentNumbers,
        store: DocumentStore,
        index_manifest: Manifest,
        encoder_manifest: Manifest,
    ) -> None:
        """Put the parts together.

        :raises CorruptIndexError: When they do not hold the same passages.
        :raises EmbeddingSpaceMismatch: When encoder and index are of different embedding spaces.
        """
        check_embedding_spaces(encoder_manifest, index_manifest)
        counts = index.size, len(passage_to_document), store.num_passages
        if len(set(counts)) != 1 or index.dim != encoder.dim:
            raise CorruptIndexError(
                "the parts of the index do not belong together: "
                f"{counts[0]} embeddings of {index.dim} dimensions, {counts[1]} passages in the "
                f"map and {counts[2]} in the store, for an encoder of {encoder.dim} dimensions"
            )
        self.encoder = encoder
        self.index = index
        self.index_manifest = index_manifest
        self.encoder_manifest = encoder_manifest
        self._passage_to_document = passage_to_document
        self._store = store

    @classmethod
    def open(
        cls,
        index_directory: Path,
        encoder_directory: Path,
        *,
        precision: Precision | None = None,
        readers: int = 1,
    ) -> "Searcher":
        """Open an index with the query encoder in `encoder_directory`; verifies every file of both.

        :param readers: How many threads will search at once; no file is opened later for them.
        :raises ManifestError: When one is not what it should be, or of a newer format.
        :raises CorruptArtefactError: When a file has been altered.
        :raises EmbeddingSpaceMismatch: When their embedding spaces differ.
        """
        # First what is quick to refuse.
        check_embedding_spaces(
            read_manifest(encoder_directory, "encoder"), read_manifest(index_directory, "index")
        )
        index_manifest = load_manifest(index_directory, "index")
        encoder = OnnxEncoder.load(encoder_directory, precision=precision)
        try:
            effort = SearchEffort(**index_manifest.details["search_effort"])
            # As a plain array, whose elements are found several times as fast.
            passage_to_document = np.asarray(
                np.load(
                    index_directory / PASSAGE_TO_DOCUMENT_FILE, mmap_mode="r", allow_pickle=False
                )
            )
        except KeyError as error:
            raise ManifestError(f"the manifest of {index_directory} lacks {error}") from error
        except (OSError, ValueError, TypeError) as error:
            raise CorruptIndexError(f"{index_directory} is no whole index: {error}") from error
        return cls(
            encoder=encoder,
            index=FaissIndex.load(index_directory / INDEX_FILE, effort),
            passage_to_document=passage_to_document,
            store=DocumentStore(index_directory / DOCUMENTS_FILE, readers=readers),
            index_manifest=index_manifest,
            encoder_manifest=encoder.manifest,
        )

    @property
    def num_documents(self) -> int:
        """Documents in the index."""
        return self._store.num_documents

    @property
    def num_passages(self) -> int:
        """Passages in the index."""
        return self._store.num_passages

    def search(
        self,
        query: str,
        top_k: int = 10,
        *,
        include_text: bool = True,
        cache: EmbeddingCache | None = None,
    ) -> SearchResult:
        """The min(top_k, number of documents) best documents for `query`; ties go by document_id.

        :param cache: Embeddings that this searcher's encoder made before.
        :raises QueryError: When the query is blank or not valid text.
        :raises InvalidArgumentError: When `top_k` is below 1.
        """
        check_query(query)
        if top_k < 1:
            raise InvalidArgumentError(f"top_k is {top_k}, but at least 1 is expected")
        watch = _Stopwatch()
        embedding = None
        if cache is not None:
            query = normalise(query)
            embedding = cache.get(query)
        cached = embedding is not None
        if embedding is None:
            token_ids = self.encoder.tokenise(query)
            watch.lap("tokenise")
            embedding = self.encoder.embed(token_ids)
            if cache is not None:
                cache.put(query, embedding)
            watch.lap("encode")
        wanted = min(top_k, self.num_documents)
        num_candidates = num_candidates_for(top_k)
        while True:
            candidate_scores, rows = self.index.search(embedding, num_candidates)
            watch.lap("search")
            scores, rows = best_passages(candidate_scores, rows, self._passage_to_document)
            watch.lap("aggregate")
            if num_candidates >= self.index.size:
                break
            # A grouped search that gives fewer than top_k is the best known fault of its kind; and
            # what ties with the last document may be among the passages that were not fetched.
            if len(rows) >= wanted and scores[wanted - 1] > candidate_scores[-1]:
                break
            num_candidates *= _WIDENING
        found = self._store.passages(rows[:top_k].tolist(), include_text=include_text)
        hits = [
            Hit(passage.document_id, score, title, passage, metadata)
            for score, (passage, title, metadata) in zip(scores.tolist(), found, strict=False)
        ]
        watch.lap("fetch")
        return SearchResult(hits, StageTimes(**watch.seconds), cached)

    def document(self, document_id: str) -> Document:
        """The document with this id.

        :raises UnknownDocumentError: When there is none.
        """
        return self._store.document(document_id)

    def close(self) -> None:
        """Give the store's connections back; no search may be running."""
        self._store.close()


def num_candidates_for(top_k: int) -> int:
    """How many passages a search for `top_k` documents fetches at first."""
    return max(_FEWEST_CANDIDATES, _PASSAGES_PER_DOCUMENT * top_k)


def check_query(query: str) -> None:
    """Refuse what no encoder can read.

    :raises QueryError: When the query is blank, or holds NUL or half of a surrogate pair.
    """
    if not normalise(query).strip():
        raise QueryError("the query is empty: at least one character that is not blank is expected")
    if "\0" in query:
        raise QueryError("the query holds a NUL character")
    if has_lone_surrogate(query):
        raise QueryError("the query holds a lone surrogate, which is no character")


def check_embedding_spaces(encoder: Manifest, index: Manifest) -> None:
    """Refuse an encoder that would search an index at random.

    :raises EmbeddingSpaceMismatch: When their embedding spaces or dimensions differ.
    """
    name = f"the query encoder {encoder.details.get('name', '')!r}"
    check_embedding_space(name, encoder.embedding_space, encoder.dim, index)


def check_embedding_space(name: str, embedding_space: str, dim: int, index: Manifest) -> None:
    """Refuse what embeds into another space than that of an index; `name` is its subject.

    :raises EmbeddingSpaceMismatch: When the embedding spaces or the dimensions differ.
    """
    if (embedding_space, dim) != (index.embedding_space, index.dim):
        raise EmbeddingSpaceMismatch(
            f"{name} is of the embedding space {embedding_space[:12]} with {dim} dimensions, but "
            "the index was "
            f"built in {index.embedding_space[:12]} with {index.dim} "
            f"(by the encoder {index.details.get('encoder', '')!r}): name that encoder, or one "
            "trained for its space"
        )


class _Stopwatch:
    """Adds up the time of each stage."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(StageTimes.__slots__, 0.0)
        self._last = perf_counter()

    def lap(self, stage: str) -> None:
        """Count the time since the last lap to `stage`."""
        now = perf_counter()
        self.seconds[stage] += now - self._last
        self._last = now
