"""The passages of an index for the ranking loss."""

from collections.abc import Sequence

import numpy as np
import torch

from swiftlet.retrieval.index import VectorIndex
from swiftlet.retrieval.lexical.index import LexicalIndex


class Neighbours:
    """Searches the best passages of the teacher and of BM25 for a batch of queries."""

    def __init__(self, index: VectorIndex, words: LexicalIndex | None, per_query: int) -> None:
        """Search the best `per_query` passages of each index for each query."""
        self._index = index
        self._words = words
        self._per_query = per_query

    def of(self, texts: Sequence[str], teacher: torch.Tensor) -> torch.Tensor:
        """Embeddings (m, dim), as stored, of all passages found for n queries.

        :param teacher: The teacher's embeddings (n, dim) of the `texts`.
        :raises InvalidArgumentError: When the index cannot reconstruct embeddings.
        """
        found = [self._index.search(embedding, self._per_query)[1] for embedding in teacher.numpy()]
        if self._words is not None:
            found += [self._words.parse(text).search(self._per_query)[1] for text in texts]
        return torch.from_numpy(self._index.embeddings(np.unique(np.concatenate(found))))
