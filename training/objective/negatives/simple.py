"""Samplers that need no search: in-batch negatives, random ones, and those of the data."""

from typing import Any

import numpy as np
from typing_extensions import override

from swiftlet.errors import InvalidArgumentError
from training.objective.negatives.sampler import (
    NO_ROW,
    NamedSampler,
    PerQuery,
    QueryBatch,
    Rows,
    SamplerInputs,
    SeededSampler,
    choose,
    without_repetition,
)


class InBatchSampler(NamedSampler):
    """Takes the positives of the other queries (Karpukhin et al., 2020). They cost no encoding."""

    def __init__(self, settings: Any, inputs: SamplerInputs) -> None:  # noqa: ARG002
        self.known = inputs.known

    @override
    def draw(self, batch: QueryBatch) -> Rows:
        """The positives of the batch for each query, (n, n).

        Column j is the positive of query j. It is NO_ROW if this passage is relevant to the query
        of the line, as on the diagonal, or is in an earlier column.
        """
        size = len(batch.queries)
        positives = np.broadcast_to(batch.positives, (size, size))
        relevant = self.known.mask(batch.queries, batch.positives)
        relevant |= batch.positives[:, np.newaxis] == batch.positives
        return without_repetition(np.where(relevant, NO_ROW, positives))


class UniformSampler(SeededSampler):
    """Draws uniformly from all passages without the known positives of the query."""

    @override
    def _draw(self, batch: QueryBatch, random: np.random.Generator) -> Rows:
        drawn = np.full((len(batch.queries), self.per_query), NO_ROW, dtype=np.int64)
        for line, query in zip(drawn, batch.queries, strict=True):
            positives = self.known.of(query)
            available = self.inputs.passages.num_passages - len(positives)
            ranks = random.choice(available, min(self.per_query, available), replace=False)
            # The number of non-positives below each positive maps a rank to its row.
            below = positives - np.arange(len(positives))
            line[: len(ranks)] = ranks + np.searchsorted(below, ranks, side="right")
        return drawn


class GivenSampler(SeededSampler):
    """Draws from all negatives of a query in the data, such as MS MARCO's triples."""

    def __init__(self, settings: PerQuery, inputs: SamplerInputs) -> None:
        super().__init__(settings, inputs)
        if inputs.given_negatives is None:
            raise InvalidArgumentError(
                "negatives.samplers has 'given', but the data have no triples"
            )
        present = inputs.given_negatives != NO_ROW
        found = np.column_stack((inputs.pairs[present, 0], inputs.given_negatives[present]))
        table = np.unique(found, axis=0)
        self._rows = table[:, 1]
        self._ends = np.searchsorted(table[:, 0], np.arange(len(self.known) + 1))

    @classmethod
    @override
    def check(cls, recipe: Any) -> None:
        if all(source.triples is None for source in recipe.data):
            raise ValueError("negatives.samplers has 'given', but no source in data has triples")

    @override
    def _draw(self, batch: QueryBatch, random: np.random.Generator) -> Rows:
        found = [self._rows[self._ends[q] : self._ends[q + 1]] for q in batch.queries]
        width = max((1, *map(len, found)))
        candidates = np.full((len(found), width), NO_ROW, dtype=np.int64)
        for line, rows in zip(candidates, found, strict=True):
            line[: len(rows)] = rows
        candidates[self.known.mask(batch.queries, candidates)] = NO_ROW
        return choose(candidates, self.per_query, random)
