"""A second engine: NumPy compares the query with every embedding."""

from pathlib import Path
from typing import Self

import numpy as np

from swiftlet.disk import storage_errors
from swiftlet.errors import CorruptIndexError, InvalidArgumentError
from swiftlet.index.vectors.vector_index import Engine, Rows, SearchParameters
from swiftlet.types import Embeddings


class ExactIndex(Engine):
    """All embeddings in one array."""

    name = "exact"
    file_name = "index.npy"

    def __init__(self, embeddings: Embeddings) -> None:
        self._embeddings = embeddings
        self.size, self.dim = embeddings.shape
        self.parameters = SearchParameters()

    @classmethod
    def default_factory(cls, num_passages: int, dim: int) -> str:
        return "array"

    @classmethod
    def create(cls, factory: str, dim: int, metric: str = "inner_product") -> Self:
        if factory != "array":
            raise InvalidArgumentError(f"{factory!r} is no type of this index: it has 'array'")
        return cls(np.empty((0, dim), np.float32))

    @classmethod
    def load(cls, path: Path) -> Self:
        try:
            return cls(np.load(path, allow_pickle=False))
        except (OSError, EOFError, ValueError) as error:
            raise CorruptIndexError(f"{path} is no array: {error}") from error

    def add(self, embeddings: Embeddings, *, threads: int = 1) -> None:
        self._embeddings = np.concatenate((self._embeddings, embeddings))
        self.size = len(self._embeddings)

    def save(self, path: Path) -> None:
        with storage_errors(path), path.open("wb") as file:
            np.save(file, self._embeddings, allow_pickle=False)

    def search(self, embedding: Embeddings, num_candidates: int) -> tuple[Embeddings, Rows]:
        scores = self._embeddings @ embedding
        rows = np.argsort(-scores, kind="stable")[:num_candidates]
        return scores[rows], rows

    def embeddings(self, rows: Rows) -> Embeddings:
        return self._embeddings[rows]
