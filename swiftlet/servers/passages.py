"""The passages of an index on a server: a kind of server fills in what it is asked."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from sys import maxsize
from threading import Lock
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from swiftlet.errors import ChangedMeanwhileError, UnknownDocumentError
from swiftlet.index.columns.facets import values_of
from swiftlet.index.columns.filters import Condition, Filter
from swiftlet.index.documents.store import Store
from swiftlet.index.lexical.analysis import Analysis
from swiftlet.index.lexical.bm25 import SparseVector, query_vector, word_place
from swiftlet.index.lexical.index import Words, counted_words
from swiftlet.index.parts.search_parts import Counts
from swiftlet.index.vectors.vector_index import (
    NO_SYNONYMS,
    Rows,
    SearchedRows,
    SearchedWords,
    Synonyms,
    WordQuery,
)
from swiftlet.types import Document, Embeddings, Span

_MOST_IDS = 200_000


class ServerPassages(SearchedRows, SearchedWords, Store, ABC):
    """The passages that pass a filter, searched and read on the server. Thread-safe.

    A row is always of the same document, so the ids of the latest rows are kept. `where` is the
    filter as the server takes it, and `everything` that of all passages. `version` changes with
    what searches find, and `change` counts the changes, if the server does. Scores of words
    are as in `LexicalIndex`, as far as the server counts words and lengths anew.
    """

    everything: Any
    waiting_seconds: float
    analysis: Analysis
    counted_in: int
    counts_values = False

    base = None
    changed: Mapping[str, Document | None] = MappingProxyType({})
    size = maxsize
    num_documents = num_passages = change = 0
    version: object = 0

    def __init__(self) -> None:
        self.where = self.everything
        self._ids: dict[int, str] = {}
        self._lock = Lock()

    def use_words(self, analysis: Analysis, size: int) -> None:
        """Search by words, which were counted in `size` passages, too."""
        self.analysis, self.counted_in = analysis, size

    def restricted_to(self, where: Any, size: int) -> Self:
        """The `size` passages of some documents alone, or fewer."""
        found = copy(self)
        found.where, found.size = where, size
        return found

    @abstractmethod
    def where_of(self, tree: Filter) -> Any:
        """A filter as the server takes it."""

    @abstractmethod
    def exists(self, condition: Condition) -> bool:
        """Whether a document passes a condition."""

    @abstractmethod
    def has_several(self, path: str, where: Any) -> bool:
        """Whether a document has several values of a field."""

    def sizes(self, where: Any) -> tuple[int, int]:  # noqa: ARG002
        """The numbers of documents and passages that pass a filter, or more."""
        return maxsize, maxsize

    @abstractmethod
    def document_ids(self, where: Any) -> list[str]:
        """The ids of the documents that pass a filter."""

    def fields(self) -> tuple[str, ...]:
        """The fields of the metadata, if the server can list them."""
        return ()

    def facets(self, fields: Sequence[str], where: Any) -> Counts:  # noqa: ARG002
        """The most frequent values of each field, if the server `counts_values`."""
        return {}

    @abstractmethod
    def read_ids(self, rows: list[int]) -> Mapping[int, str]:
        """The ids of the documents at those of the `rows` that there are."""

    @abstractmethod
    def find(self, document_id: str) -> Document | None:
        """The document with this id, if there is one."""

    @abstractmethod
    def word_counts(self, places: Sequence[int]) -> Mapping[int, int]:
        """How many passages have the words at these places, as far as there are any."""

    @abstractmethod
    def best_by_words(self, vector: SparseVector, count: int) -> Sequence[tuple[int, float]]:
        """The rows with the best scores, best first, with these scores."""

    @abstractmethod
    def scored_by_words(self, vector: SparseVector, rows: Rows) -> Iterable[tuple[int, float]]:
        """Those of the `rows` (k,) that share words with a query, each with its score."""

    def present(self, facets: Iterable[str]) -> tuple[str, ...]:
        """Those fields that a document has a value of."""
        return tuple(field for field in facets if self.exists(values_of(field)))

    def note(self, ids: Mapping[int, str]) -> None:
        """Keep the ids of the documents at some rows."""
        with self._lock:
            self._ids |= ids
            while len(self._ids) > _MOST_IDS:
                del self._ids[next(iter(self._ids))]

    def __getitem__(self, rows: Rows) -> NDArray[np.int32]:
        """Numbers of the documents at `rows` (k,), in the order of their ids."""
        ids = {row: self._ids.get(row) for row in rows.tolist()}
        if missing := [row for row, document_id in ids.items() if document_id is None]:
            found = self.read_ids(missing)
            self.note(found)
            ids |= found
        in_order = np.array([ids[row] or "" for row in rows.tolist()], dtype=object)
        return np.unique(in_order, return_inverse=True)[1].astype(np.int32)

    @override
    def has_all(self, asked: int, found: int) -> bool:
        return found < asked

    @override
    def parse(
        self, text: str, *, exact: bool = False, synonyms: Synonyms = NO_SYNONYMS
    ) -> "ServerWordQuery":
        def passages(words: Sequence[str]) -> dict[str, int]:
            places = {word: word_place(word) for word in words}
            found = self.word_counts([*places.values()])
            return {word: found.get(place, 0) for word, place in places.items()}

        words = counted_words(text, self.analysis, self.counted_in, passages)
        return ServerWordQuery(self, words)

    @override
    def document(self, document_id: str) -> Document:
        if (found := self.find(document_id)) is None:
            raise UnknownDocumentError(document_id)
        return found

    @override
    def titles(self, count: int) -> dict[str, str]:
        return {}

    @override
    def close(self) -> None: ...


class ServerWordQuery(WordQuery):
    """The words of a query, which are marked in texts without asking the server."""

    def __init__(self, passages: ServerPassages, words: Words) -> None:
        self._passages, self._vector = passages, query_vector(words)
        self._highlights = passages.analysis.highlighter(words.searched)

    @override
    def search(self, num_candidates: int) -> tuple[Embeddings, Rows]:
        found: Sequence[tuple[int, float]] = ()
        if self._vector:
            found = self._passages.best_by_words(self._vector, num_candidates)
        scores = np.array([score for _, score in found], np.float32)
        return scores, np.array([row for row, _ in found], np.int64)

    @override
    def scores(self, rows: Rows) -> Embeddings:
        scores = np.zeros(len(rows), np.float32)
        if self._vector:
            for row, score in self._passages.scored_by_words(self._vector, rows):
                scores[np.searchsorted(rows, row)] = score
        return scores

    @override
    def highlights(self, text: str) -> tuple[Span, ...]:
        return self._highlights(text)


def gone() -> ChangedMeanwhileError:
    """What is raised when a passage that a search has found is gone."""
    return ChangedMeanwhileError("documents were deleted during the search: search again")
