"""What a frozen language model says about each passage, computed once and kept on disk.

While the document language model does not change, neither do its outputs. The alignment stage then
costs a projection a passage, and several runs from one document encoder share what they computed.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from retrieval.publication import storage_errors
from training.negatives.sampler import Rows


class Passages(Protocol):
    """The passages of a store; `key` tells them from those of another."""

    @property
    def num_passages(self) -> int:
        """How many there are."""
        ...

    @property
    def key(self) -> str:
        """What tells this store from others."""
        ...

    def texts(self, rows: Rows) -> list[str]:
        """What the document encoder reads for each of `rows`."""
        ...


class FrozenOutputs:
    """Language model outputs that fill themselves as passages are asked for.

    For each store of passages there are two sparse files, of which only the rows that were computed
    take up room: 4 bytes times width for each. In memory each passage takes a byte.
    """

    def __init__(self, directory: Path, key: str, width: int) -> None:
        """Keep outputs (passages, width) in `directory`.

        :param key: Whatever changes an output: weights, truncation, precision.
        """
        self._directory = directory
        self._key = key
        self._width = width
        self._tables: dict[str, _Table] = {}

    def get(
        self, passages: Passages, rows: Rows, compute: Callable[[Rows], torch.Tensor]
    ) -> torch.Tensor:
        """Outputs (n, width) of `rows` (n,), on the CPU; `compute` is asked for the new ones.

        :raises StorageError: When the file system refuses.
        """
        if passages.key not in self._tables:
            self._tables[passages.key] = self._open(passages)
        return self._tables[passages.key].get(rows, compute)

    def _open(self, passages: Passages) -> "_Table":
        named = f"{self._key} {passages.key} {passages.num_passages} {self._width}"
        name = hashlib.sha256(named.encode()).hexdigest()[:16]
        with storage_errors(self._directory):
            self._directory.mkdir(parents=True, exist_ok=True)
            return _Table(self._directory / name, passages.num_passages, self._width)


class _Table:
    def __init__(self, path: Path, num_passages: int, width: int) -> None:
        self._files = path.with_suffix(".outputs"), path.with_suffix(".known")
        for file, row_bytes in zip(self._files, (4 * width, 1), strict=True):
            with file.open("ab") as sized:
                sized.truncate(num_passages * row_bytes)
        self._outputs = np.memmap(self._files[0], np.float32, "r", shape=(num_passages, width))
        self._known = np.fromfile(self._files[1], np.uint8)

    def get(self, rows: Rows, compute: Callable[[Rows], torch.Tensor]) -> torch.Tensor:
        missing = np.unique(rows[self._known[rows] == 0])
        if len(missing):
            _write(self._files[0], missing, compute(missing).float().cpu().numpy())
            # Only now, so that a row that is known is whole even if the process dies here.
            self._known[missing] = 1
            _write(self._files[1], missing, self._known[missing])
        return torch.from_numpy(self._outputs[rows])


def _write(path: Path, rows: Rows, values: NDArray[np.generic]) -> None:
    """Write `values` (n, …) where `rows` (n,) are.

    Not through a mapping, by which a full disk would kill the process.
    """
    with storage_errors(path), path.open("r+b") as file:
        for row, value in zip(rows.tolist(), values, strict=True):
            content = value.tobytes()
            file.seek(row * len(content))
            file.write(content)
