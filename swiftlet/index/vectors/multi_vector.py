"""Passages of several vectors each, as rows of an index for single vectors (002, section 3).

The embedding (vectors · dim,) of a passage has its vectors one after the other. The score of the
passage is the largest score of one of its vectors for the query.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from typing_extensions import override

from swiftlet.index.vectors.vector_index import (
    Mask,
    Rows,
    SearchedRows,
    SearchParameters,
    VectorIndex,
    scores_by,
)
from swiftlet.manifest import METRIC
from swiftlet.types import Embeddings


def best_scores(embeddings: Embeddings, query: Embeddings, metric: str = METRIC) -> Embeddings:
    """The scores (n,) of passages (n, vectors · dim) for one query embedding (dim,)."""
    vectors = embeddings.reshape(-1, len(query))
    found = vectors @ query if metric == METRIC else scores_by(metric, vectors, query)
    scores: Embeddings = found.reshape(len(embeddings), -1).max(axis=1)
    return scores


def best_rows(rows: Rows, vectors: int) -> tuple[Rows, Rows]:
    """The passages (p,) of rows (k,) of vectors, best first, and the place of each one's best."""
    passages = rows // vectors
    places = np.unique(passages, return_index=True)[1]
    places.sort()
    return passages[places], places


class GroupedRows(SearchedRows):
    """Rows of vectors, searched as passages of `vectors` rows each. Thread-safe."""

    def __init__(self, rows: SearchedRows, vectors: int) -> None:
        self._rows = rows
        self.vectors, self.size = vectors, rows.size // vectors

    @override
    def search(self, embedding: Embeddings, num_candidates: int) -> tuple[Embeddings, Rows]:
        # So many vectors are of at least `num_candidates` passages.
        wanted = min(num_candidates, self.size) * self.vectors
        scores, rows = self._rows.search(embedding, wanted)
        passages, places = best_rows(rows, self.vectors)
        return scores[places][:num_candidates], passages[:num_candidates]

    @override
    def scores(self, embedding: Embeddings, rows: Rows) -> Embeddings:
        scores = self._rows.scores(embedding, _vectors_of(rows, self.vectors))
        best: Embeddings = scores.reshape(-1, self.vectors).max(axis=1)
        return best


class MultiVectorIndex(GroupedRows, VectorIndex):
    """An index of passages of several vectors each, which are rows of `index`."""

    _rows: VectorIndex

    def __init__(self, index: VectorIndex, vectors: int) -> None:
        super().__init__(index, vectors)
        self.file_name = index.file_name
        self.parameters_type = index.parameters_type
        self.metric, self.dim = index.metric, index.dim
        """Width of a query's embedding, and of each vector."""

    @property
    def parameters(self) -> SearchParameters:
        """Those of the searches for vectors."""
        return self._rows.parameters

    @parameters.setter
    def parameters(self, parameters: SearchParameters) -> None:
        self._rows.parameters = parameters

    @override
    def training_size(self, num_passages: int) -> int:
        return -(-self._rows.training_size(num_passages * self.vectors) // self.vectors)

    def train(self, embeddings: Embeddings, *, threads: int = 1) -> None:
        """Learn from the vectors of a sample of passages (n, vectors · dim)."""
        self._rows.train(embeddings.reshape(-1, self.dim), threads=threads)

    @override
    def reserve(self, num_rows: int) -> None:
        self._rows.reserve(num_rows * self.vectors)

    def add(self, embeddings: Embeddings, *, threads: int = 1) -> None:
        """Append passages (n, vectors · dim)."""
        self._rows.add(embeddings.reshape(-1, self.dim), threads=threads)
        self.size = self._rows.size // self.vectors

    @override
    def save(self, path: Path) -> None:
        self._rows.save(path)

    def embeddings(self, rows: Rows) -> Embeddings:
        """The embeddings (n, vectors · dim) of the passages at `rows` (n,)."""
        return self._rows.embeddings(_vectors_of(rows, self.vectors)).reshape(len(rows), -1)

    @override
    def empty_exact(self) -> "MultiVectorIndex":
        return MultiVectorIndex(self._rows.empty_exact(), self.vectors)

    @override
    def restricted_to(self, allowed: Mask) -> GroupedRows:
        return GroupedRows(self._rows.restricted_to(np.repeat(allowed, self.vectors)), self.vectors)

    def tuning_grid(self) -> Mapping[str, Sequence[int]]:
        """That of the searches for vectors."""
        return self._rows.tuning_grid()


def _vectors_of(rows: Rows, vectors: int) -> Rows:
    """The rows (n · vectors,) of the vectors of passages (n,)."""
    return (rows[:, np.newaxis] * vectors + np.arange(vectors)).ravel()
