"""Lexical negatives: passages that share words with a query but are not relevant to it."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from typing_extensions import override

from swiftlet.index.lexical.analysis import analysis_of
from swiftlet.index.lexical.index import LexicalIndex
from swiftlet.index.lexical.writer import GrowingWords
from training.errors import TrainingDataError
from training.objective.negatives.sampler import (
    NO_ROW,
    Depth,
    EncodeDocuments,
    QueryBatch,
    Rows,
    SamplerInputs,
    SeededSampler,
    check_depth,
    choose,
)

_READ_PASSAGES = 8192


class Bm25Sampler(SeededSampler):
    """Draws uniformly from the passages that BM25 ranks first for a query.

    The candidates of a query are searched at its first draw, and kept. The lexical index is as of
    `swiftlet index --language none`, in memory. Texts are read in blocks.
    """

    def __init__(self, settings: Depth, inputs: SamplerInputs) -> None:
        """Draw of the best `depth` passages without the known positives."""
        super().__init__(settings, inputs)
        self.depth, self.passages = settings.depth, inputs.passages
        self._analysis = analysis_of("none", None)
        self._index: LexicalIndex | None = None
        self._candidates: dict[int, Rows] = {}

    @classmethod
    @override
    def check(cls, recipe: Any) -> None:
        check_depth(recipe)

    @override
    def prepare(self, encode: EncodeDocuments) -> None:
        """Build the lexical index. A resumed run builds it at the first draw.

        :raises TrainingDataError: When no passage has a word to match.
        """
        self._index = self._index or self._build()

    @override
    def _draw(self, batch: QueryBatch, random: np.random.Generator) -> Rows:
        candidates = np.full((len(batch.queries), self.depth), NO_ROW, dtype=np.int64)
        for line, query in zip(candidates, batch.queries.tolist(), strict=True):
            if query not in self._candidates:
                self._candidates[query] = self._search(query)
            found = self._candidates[query]
            line[: len(found)] = found
        return choose(candidates, self.per_query, random)

    def _search(self, query: int) -> Rows:
        """The best rows that share a word with the query, at most `depth`, best first."""
        self._index = self._index or self._build()
        positives = self.known.of(query)
        words = self._index.parse(self.inputs.queries[query])
        _, rows = words.search(self.depth + len(positives))
        return rows[~np.isin(rows, positives)][: self.depth]

    def _build(self) -> LexicalIndex:
        return GrowingWords(self._analysis).with_texts(self._texts())

    def _texts(self) -> Iterator[str]:
        """The texts of all passages, of which one must have a word."""
        has_words = False
        for start in range(0, self.passages.num_passages, _READ_PASSAGES):
            stop = min(start + _READ_PASSAGES, self.passages.num_passages)
            for text in self.passages.texts(np.arange(start, stop)):
                has_words = has_words or bool(self._analysis.words(text))
                yield text
        if not has_words:
            raise TrainingDataError(
                f"none of the {self.passages.num_passages} passages has a word for BM25 to match"
            )
