"""In-batch negatives: what is relevant to one query of a batch serves all the others."""

import numpy as np

from training.negatives.mixed import without_repetition
from training.negatives.sampler import NO_ROW, NegativeSampler, QueryBatch, Rows
from training.positives import KnownPositives


class InBatchSampler(NegativeSampler):
    """Takes the other queries' positives (Karpukhin et al., 2020), which cost no encoding."""

    def __init__(self, known: KnownPositives) -> None:
        self.known = known

    def draw(self, batch: QueryBatch) -> Rows:
        """The batch's positives for each query, (n, n).

        Column j is the positive of query j, or NO_ROW where it is relevant to the line's query,
        which it is on the diagonal, or stands further left already.
        """
        size = len(batch.queries)
        positives = np.broadcast_to(batch.positives, (size, size))
        relevant = self.known.mask(batch.queries, batch.positives)
        relevant |= batch.positives[:, np.newaxis] == batch.positives
        return without_repetition(np.where(relevant, NO_ROW, positives))
