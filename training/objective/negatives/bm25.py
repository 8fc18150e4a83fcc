"""Lexical negatives: passages that share words with a query but are not relevant to it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from swiftlet.extras import extra
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

if TYPE_CHECKING:
    import bm25s

_READ_PASSAGES = 8192


class Bm25Sampler(SeededSampler):
    """Draws uniformly from the passages that BM25 ranks first for a query.

    The candidates of a query are searched at its first draw, and kept. The BM25 index takes about
    8 bytes of memory per distinct word of each passage, and several times as much while it is
    built. Texts are read in blocks.
    """

    def __init__(self, settings: Depth, inputs: SamplerInputs) -> None:
        """Draw of the best `depth` passages without the known positives."""
        super().__init__(settings, inputs)
        self.depth, self.passages = settings.depth, inputs.passages
        self._index: bm25s.BM25 | None = None
        self._candidates: dict[int, Rows] = {}

    @classmethod
    @override
    def check(cls, recipe: Any) -> None:
        check_depth(recipe)

    @override
    def prepare(self, encode: EncodeDocuments) -> None:
        """Build the BM25 index. A resumed run builds it at the first draw.

        :raises TrainingDataError: When no passage has a word to match.
        :raises MissingExtraError: When bm25s is not installed.
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
        with extra("training"):
            import bm25s
        self._index = self._index or self._build()
        words = bm25s.tokenize(self.inputs.queries[query], return_ids=False, show_progress=False)[0]
        scores = self._index.get_scores_from_ids(self._index.get_tokens_ids(words))
        scores[self.known.of(query)] = 0
        best = np.argpartition(-scores, min(self.depth, len(scores)) - 1)[: self.depth]
        best = best[np.argsort(-scores[best], kind="stable")]
        found: Rows = best[scores[best] > 0]
        return found

    def _build(self) -> "bm25s.BM25":
        with extra("training"):
            import bm25s
        tokens = bm25s.tokenize(self._texts(), show_progress=False)
        if not tokens.vocab:
            raise TrainingDataError(
                f"none of the {self.passages.num_passages} passages has a word for BM25 to match"
            )
        index = bm25s.BM25()
        index.index(tokens, create_empty_token=False, show_progress=False)
        return index

    def _texts(self) -> Iterator[str]:
        for start in range(0, self.passages.num_passages, _READ_PASSAGES):
            stop = min(start + _READ_PASSAGES, self.passages.num_passages)
            yield from self.passages.texts(np.arange(start, stop))
