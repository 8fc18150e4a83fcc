"""The words of passages as servers keep them: sparse vectors with BM25 weights."""

import re
from collections.abc import Sequence
from copy import copy
from typing import Self

import numpy as np
from typing_extensions import override

from swiftlet.index.documents.passages import encoder_text
from swiftlet.index.lexical.analysis import PIECES, Analysis, analysis_of
from swiftlet.index.lexical.bm25 import SparseVector, passage_vector, query_vector, word_place
from swiftlet.index.lexical.index import Words, counted_words
from swiftlet.index.vectors.vector_index import Rows, SearchedWords, WordQuery
from swiftlet.servers.passages import ServerPassages
from swiftlet.types import Embeddings, Span

# Letters and digits, and marks such as vowels that follow a letter.
_WORD = re.compile(r"(?:[^\W_][\u0300-\u036f\u0900-\u0dff]*)+")


def reason_against_words(language: str | None) -> str:
    """Why a server cannot have the words of an index, as the part of a sentence; or empty."""
    if language is None:
        return "the index has no words"
    return f"words of the language {language!r} cannot be pushed" if language in PIECES else ""


class WordVectors:
    """The words of passages as sparse vectors."""

    def __init__(self, language: str, mean_length: float) -> None:
        """Weigh words as among passages of `mean_length` words."""
        self._analysis, self._mean = analysis_of(language), mean_length

    def of(self, title: str, text: str) -> SparseVector:
        """The vector of a passage."""
        return passage_vector(words_of(self._analysis, title, text), self._mean)


def words_of(analysis: Analysis, title: str, text: str) -> list[str]:
    """The words of a passage, with repetitions."""
    return analysis.words(analysis.indexed(encoder_text(title, text)))


class ServerWords(SearchedWords):
    """Finds the passages that share words with a query. Thread-safe.

    Scores are as in `LexicalIndex`, as far as the server counts words and lengths anew.
    """

    def __init__(self, passages: ServerPassages, language: str, size: int) -> None:
        """Search `passages` of an index of `size` passages."""
        self.passages, self._size = passages, size
        self.analysis = analysis_of(language)

    def among(self, passages: ServerPassages) -> Self:
        """The words of some of the passages alone."""
        found = copy(self)
        found.passages = passages
        return found

    @override
    def has_all(self, asked: int, found: int) -> bool:
        return found < asked

    @override
    def parse(self, text: str) -> "ServerWordQuery":
        def passages(words: Sequence[str]) -> dict[str, int]:
            places = {word: word_place(word) for word in words}
            found = self.passages.word_counts([*places.values()])
            return {word: found.get(place, 0) for word, place in places.items()}

        return ServerWordQuery(self, counted_words(text, self.analysis, self._size, passages))


class ServerWordQuery(WordQuery):
    """The words of a query, which are marked in texts without asking the server."""

    def __init__(self, index: ServerWords, words: Words) -> None:
        self._index, self._words, self._vector = index, words, query_vector(words)

    @override
    def search(self, num_candidates: int) -> tuple[Embeddings, Rows]:
        passages, vector = self._index.passages, self._vector
        found = passages.best_by_words(vector, num_candidates) if vector else ()
        scores = np.array([score for _, score in found], np.float32)
        return scores, np.array([row for row, _ in found], np.int64)

    @override
    def scores(self, rows: Rows) -> Embeddings:
        passages, vector = self._index.passages, self._vector
        scores = np.zeros(len(rows), np.float32)
        for row, score in passages.scored_by_words(vector, rows) if vector else ():
            scores[np.searchsorted(rows, row)] = score
        return scores

    @override
    def highlights(self, text: str) -> tuple[Span, ...]:
        searched = {*self._words.searched}
        spans = (found.span() for found in _WORD.finditer(text))
        words = self._index.analysis.words
        return tuple(span for span in spans if searched.intersection(words(text[slice(*span)])))
