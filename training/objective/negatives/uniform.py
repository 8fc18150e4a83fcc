"""Random negatives."""

import numpy as np
from typing_extensions import override

from training.objective.negatives.sampler import (
    NO_ROW,
    QueryBatch,
    Rows,
)
from training.objective.negatives.seeded import SeededSampler


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
