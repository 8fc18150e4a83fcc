"""The words of passages as servers keep them: sparse vectors with BM25 weights."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Self

import numpy as np
from typing_extensions import override

from swiftlet.index.documents.passages import encoder_text
from swiftlet.index.lexical.analysis import PIECES, Analysis
from swiftlet.index.lexical.bm25 import SparseVector, passage_vector, query_vector, word_place
from swiftlet.index.lexical.index import Words, counted_words
from swiftlet.index.vectors.vector_index import Rows, SearchedWords, WordQuery
from swiftlet.types import Embeddings, Span


def reason_against_words(language: str | None) -> str:
    """Why a server cannot have the words of an index, as the part of a sentence; or empty."""
    if language is None:
        return "the index has no words"
    return f"words of the language {language!r} cannot be pushed" if language in PIECES else ""


class WordVectors:
    """The words of passages as sparse vectors."""

    def __init__(self, analysis: Analysis, mean_length: float) -> None:
        """Weigh words as among passages of `mean_length` words."""
        self._analysis, self._mean = analysis, mean_length

    def of(self, title: str, text: str) -> SparseVector:
        """The vector of a passage."""
        return passage_vector(words_of(self._analysis, title, text), self._mean)


def words_of(analysis: Analysis, title: str, text: str) -> list[str]:
    """The words of a passage, with repetitions."""
    return analysis.passage_words(encoder_text(title, text))


class ServerWords(SearchedWords, ABC):
    """Finds the passages of some documents, or of all, that share words with a query. Thread-safe.

    Scores are as in `LexicalIndex`, as far as the server counts words and lengths anew.
    """

    def __init__(self, analysis: Analysis, size: int, where: Any) -> None:
        """Search the documents of `where` in an index of `size` passages."""
        self.analysis, self._size, self.where = analysis, size, where

    def restricted_to(self, where: Any) -> Self:
        """The passages of some documents alone."""
        found = copy(self)
        found.where = where
        return found

    @override
    def has_all(self, asked: int, found: int) -> bool:
        return found < asked

    @override
    def parse(self, text: str) -> "ServerWordQuery":
        def passages(words: Sequence[str]) -> dict[str, int]:
            places = {word: word_place(word) for word in words}
            found = self.counts([*places.values()])
            return {word: found.get(place, 0) for word, place in places.items()}

        return ServerWordQuery(self, counted_words(text, self.analysis, self._size, passages))

    @abstractmethod
    def counts(self, places: Sequence[int]) -> Mapping[int, int]:
        """How many passages have the words at these places, as far as there are any."""

    @abstractmethod
    def best(self, vector: SparseVector, count: int) -> Sequence[tuple[int, float]]:
        """The rows with the best scores, best first, with these scores."""

    @abstractmethod
    def scored(self, vector: SparseVector, rows: Rows) -> Iterable[tuple[int, float]]:
        """Those of the `rows` (k,) that share words with a query, each with its score."""


class ServerWordQuery(WordQuery):
    """The words of a query, which are marked in texts without asking the server."""

    def __init__(self, index: ServerWords, words: Words) -> None:
        self._index, self._vector = index, query_vector(words)
        self._highlights = index.analysis.highlighter(words.searched)

    @override
    def search(self, num_candidates: int) -> tuple[Embeddings, Rows]:
        found = self._index.best(self._vector, num_candidates) if self._vector else ()
        scores = np.array([score for _, score in found], np.float32)
        return scores, np.array([row for row, _ in found], np.int64)

    @override
    def scores(self, rows: Rows) -> Embeddings:
        scores = np.zeros(len(rows), np.float32)
        for row, score in self._index.scored(self._vector, rows) if self._vector else ():
            scores[np.searchsorted(rows, row)] = score
        return scores

    @override
    def highlights(self, text: str) -> tuple[Span, ...]:
        return self._highlights(text)
