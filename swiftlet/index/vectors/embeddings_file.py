"""A file of embeddings that grows."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from swiftlet import disk
from swiftlet.progress import Progress
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

    def append(
        self, batches: Iterable[Embeddings], progress: Progress, name: str, total: int | None
    ) -> None:
        """Append the batches (n, width) that the file does not have yet, up to `total` rows.

        :param name: The name of this work, which `progress` shows.
        :raises StorageError: When the file system refuses.
        """
        progress.begin(name, total, done=len(self))
        with disk.storage_errors(self.path), disk.opened(self.path, "ab") as file:
            file.truncate(len(self) * 4 * self.width)
            for number, batch in enumerate(batches, start=1):
                file.write(batch.astype("<f4", copy=False).tobytes())
                if number % _BATCHES_PER_FLUSH == 0:
                    disk.sync(file)
                progress.advance(len(batch))

    def rows(self) -> Embeddings:
        """All embeddings (n, width), mapped from the file."""
        return np.memmap(self.path, dtype="<f4", mode="r", shape=(len(self), self.width))
