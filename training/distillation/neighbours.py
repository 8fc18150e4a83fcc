"""The passages of an index for the ranking loss."""

import numpy as np
import torch

from swiftlet.retrieval.index import VectorIndex


class Neighbours:
    """Searches the best passages of the teacher for a batch of queries."""

    def __init__(self, index: VectorIndex, per_query: int) -> None:
        """Search the best `per_query` passages of `index` for each query."""
        self._index = index
        self._per_query = per_query

    def of(self, teacher: torch.Tensor) -> torch.Tensor:
        """Embeddings (m, dim), as stored, of all passages found for `teacher` embeddings (n, dim).

        :raises InvalidArgumentError: When the index cannot reconstruct embeddings.
        """
        found = [self._index.search(embedding, self._per_query)[1] for embedding in teacher.numpy()]
        return torch.from_numpy(self._index.embeddings(np.unique(np.concatenate(found))))
