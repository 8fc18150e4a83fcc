"""A file of embeddings that grows."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from swiftlet.publication import storage_errors
from swiftlet.types import Embeddings

_BATCHES_PER_FLUSH = 16


class EmbeddingsFile:
    """Embeddings (n, width) as raw little-endian float32 rows, appended in order."""

    def __init__(self, path: Path, width: int) -> None:
        self.path = path
        self.width = width

    def __len__(self) -> int:
        """The number of complete rows in the file."""
        try:
            return self.path.stat().st_size // (4 * self.width)
        except FileNotFoundError:
            return 0

    def append(self, batches: Iterable[Embeddings]) -> Iterator[int]:
        """Append each batch (n, width), and yield its number of rows.

        :raises StorageError: When the file system refuses.
        """
        with storage_errors(self.path), self.path.open("ab") as file:
            file.truncate(len(self) * 4 * self.width)
            for number, batch in enumerate(batches, start=1):
                file.write(batch.astype("<f4", copy=False).tobytes())
                if number % _BATCHES_PER_FLUSH == 0:
                    file.flush()
                    os.fsync(file.fileno())
                yield len(batch)

    def rows(self) -> Embeddings:
        """All embeddings (n, width), mapped from the file."""
        return np.memmap(self.path, dtype="<f4", mode="r", shape=(len(self), self.width))
