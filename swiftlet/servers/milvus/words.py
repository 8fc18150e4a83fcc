"""The words of passages on a Milvus server: sparse vectors, and how many passages have each word.

The passages' vectors stand beside their embeddings. The counts have a collection of their own.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from threading import Lock
from typing import Any, Self

import numpy as np

from swiftlet.address import Address
from swiftlet.index.lexical.analysis import Analysis
from swiftlet.index.lexical.bm25 import query_vector, word_place
from swiftlet.index.lexical.index import Words, counted_words
from swiftlet.index.vectors.vector_index import Rows
from swiftlet.servers.milvus.collection import Collection
from swiftlet.servers.milvus.found_rows import FoundRows
from swiftlet.servers.milvus.schema import PLACE, ROW, WITH_WORD, WORD_STATISTICS, WORDS
from swiftlet.servers.words import MarkedWords
from swiftlet.types import Embeddings

_MOST_KEPT = 200_000
_SCORED_TOGETHER = 1_000


@dataclass(frozen=True, slots=True)
class WordStatistics:
    """The number of passages that words were counted in, and their mean number of words."""

    size: int
    mean_length: float

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self | None:
        """The statistics in the properties of a collection, if it has words."""
        found = properties.get(WORD_STATISTICS)
        return None if found is None else cls(**json.loads(found))

    def as_property(self) -> str:
        """What `of` reads."""
        return json.dumps(asdict(self))


class WordCounts:
    """How many passages have the word at each place. Thread-safe."""

    def __init__(self, passages: Address) -> None:
        """Connect to the collection beside the collection of the passages."""
        name = f"{passages.collection}_words"
        self.collection = Collection(replace(passages, collection=name))
        self._kept: dict[int, int] = {}
        self._lock = Lock()

    def of(self, places: Iterable[int]) -> dict[int, int]:
        """The count of each place, 0 if no passage had the word when they were counted."""
        with self._lock:
            found = {place: self._kept.get(place, 0) for place in places}
        if missing := [place for place, count in found.items() if not count]:
            known = self.collection.rows(missing, [WITH_WORD], key=PLACE)
            new = {place: int(row[WITH_WORD]) for place, row in known.items()}
            found |= new
            with self._lock:
                if len(self._kept) > _MOST_KEPT:
                    self._kept.clear()
                self._kept |= new
        return found


class MilvusWords:
    """Finds the passages of an expression, or of all, that share words with a query. Thread-safe.

    Scores are as in `LexicalIndex`, with the counts of the moment in which the index was pushed.
    """

    def __init__(
        self,
        collection: Collection,
        found_rows: FoundRows,
        analysis: Analysis,
        statistics: WordStatistics,
        counts: WordCounts,
        expression: str = "",
    ) -> None:
        self.collection, self.found_rows, self.analysis = collection, found_rows, analysis
        self._statistics, self._counts = statistics, counts
        self.expression = expression

    def restricted_to(self, expression: str) -> "MilvusWords":
        """The passages of an expression alone."""
        parts = self.collection, self.found_rows, self.analysis, self._statistics, self._counts
        return MilvusWords(*parts, expression)

    def has_all(self, asked: int, found: int) -> bool:
        """As `SearchedWords.has_all`."""
        return found < asked

    def parse(self, text: str) -> "MilvusWordQuery":
        """As `SearchedWords.parse`."""

        def passages(words: Sequence[str]) -> dict[str, int]:
            found = self._counts.of([word_place(word) for word in words])
            return {word: found[word_place(word)] for word in words}

        words = counted_words(text, self.analysis, self._statistics.size, passages)
        return MilvusWordQuery(self, words)


class MilvusWordQuery(MarkedWords):
    """The words of a query, to be searched by the server."""

    def __init__(self, index: MilvusWords, words: Words) -> None:
        super().__init__(index.analysis, words)
        self._index = index
        self._vector = query_vector(words)

    def search(self, num_candidates: int) -> tuple[Embeddings, Rows]:
        """As `WordQuery.search`."""
        found = self._found(self._index.expression, num_candidates)
        scores = np.array([hit.distance for hit in found], np.float32)
        return scores, np.array([hit.id for hit in found], np.int64)

    def scores(self, rows: Rows) -> Embeddings:
        """As `WordQuery.scores`."""
        scores = np.zeros(len(rows), np.float32)
        for start in range(0, len(rows), _SCORED_TOGETHER):
            part = rows[start : start + _SCORED_TOGETHER].tolist()
            for hit in self._found(f"{ROW} in {part}", len(part)):
                scores[np.searchsorted(rows, hit.id)] = hit.distance
        return scores

    def _found(self, expression: str, wanted: int) -> list[Any]:
        if not self._vector:
            return []
        return self._index.found_rows.search(self._vector, WORDS, expression, wanted, {})
