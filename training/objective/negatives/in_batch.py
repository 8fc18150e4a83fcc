"""In-batch negatives: the positives of the other queries in a batch."""

from typing import Any

import numpy as np
from typing_extensions import override

from training.objective.negatives.mixed import without_repetition
from training.objective.negatives.sampler import (
    NO_ROW,
    NamedSampler,
    QueryBatch,
    Rows,
    SamplerInputs,
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
