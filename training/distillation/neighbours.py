"""The passages of an index for the ranking loss."""

from collections.abc import Sequence

import numpy as np
import torch

from swiftlet.index.lexical.index import LexicalIndex
from swiftlet.index.vectors.vector_index import VectorIndex
from training.objective.negatives.sampler import Rows


class Neighbours:
    """Searches the best passages of the teacher and of BM25 for a batch of queries."""

    def __init__(self, index: VectorIndex, words: LexicalIndex | None, per_query: int) -> None:
        """Search the best `per_query` passages of each index for each query."""
        self._index = index
        self._words = words
        self._per_query = per_query

    def rows(self, texts: Sequence[str], teacher: torch.Tensor) -> Rows:
        """The rows (m,) of all passages found for n queries.

        :param teacher: The teacher's embeddings (n, dim) of the `texts`.
        """
        found = [self._index.search(embedding, self._per_query)[1] for embedding in teacher.numpy()]
        if self._words is not None:
            found += [self._words.parse(text).search(self._per_query)[1] for text in texts]
        return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)

    def embeddings(self, rows: Rows) -> torch.Tensor:
        """Embeddings (n, dim), as stored, of the n different passages in `rows`.

        :raises InvalidArgumentError: When the index cannot reconstruct embeddings.
        """
        return torch.from_numpy(self._index.embeddings(np.unique(rows)))
