"""The documents of an index that a batch of queries is ranked on."""

import numpy as np
import torch

from retrieval.index import FaissIndex


class Neighbours:
    """What the teacher finds for each query, shown to the whole batch."""

    def __init__(self, index: FaissIndex, per_query: int) -> None:
        """Take the best `per_query` passages of `index`."""
        self._index = index
        self._per_query = per_query

    def of(self, teacher: torch.Tensor) -> torch.Tensor:
        """Embeddings (m, dim), as the index keeps them, of what `teacher` (n, dim) finds.

        :raises InvalidArgumentError: When the index cannot give embeddings back.
        """
        found = [self._index.search(embedding, self._per_query)[1] for embedding in teacher.numpy()]
        return torch.from_numpy(self._index.embeddings(np.unique(np.concatenate(found))))
