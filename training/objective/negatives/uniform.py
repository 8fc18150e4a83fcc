"""Random negatives."""

from typing import Self

import numpy as np
from typing_extensions import override

from training.data.positives import KnownPositives
from training.objective.negatives.sampler import (
    NO_ROW,
    PerQuery,
    QueryBatch,
    Rows,
    SamplerInputs,
    Seed,
)
from training.objective.negatives.seeded import SeededSampler


class UniformSampler(SeededSampler):
    """Draws uniformly from all passages without the known positives of the query."""

    def __init__(
        self, known: KnownPositives, *, num_passages: int, per_query: int, seed: Seed
    ) -> None:
        """Draw `per_query` different passages of `num_passages` for each query.

        :raises InvalidArgumentError: When `per_query` is not at least 1.
        """
        super().__init__(known, per_query=per_query, seed=seed)
        self.num_passages = num_passages

    @classmethod
    @override
    def of(cls, settings: PerQuery, inputs: SamplerInputs) -> Self:
        return cls(
            inputs.known,
            num_passages=inputs.passages.num_passages,
            per_query=settings.per_query,
            seed=inputs.seed,
        )

    def _draw(self, batch: QueryBatch, random: np.random.Generator) -> Rows:
        drawn = np.full((len(batch.queries), self.per_query), NO_ROW, dtype=np.int64)
        for line, query in zip(drawn, batch.queries, strict=True):
            positives = self.known.of(query)
            available = self.num_passages - len(positives)
            ranks = random.choice(available, min(self.per_query, available), replace=False)
            # The number of non-positives below each positive maps a rank to its row.
            below = positives - np.arange(len(positives))
            line[: len(ranks)] = ranks + np.searchsorted(below, ranks, side="right")
        return drawn
