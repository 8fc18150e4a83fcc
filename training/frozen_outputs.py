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
    take up room: 4 bytes times width for each.
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
        shape = (passages.num_passages, self._width)
        with storage_errors(self._directory):
            self._directory.mkdir(parents=True, exist_ok=True)
            return _Table(
                _mapped(self._directory / f"{name}.outputs", shape, np.dtype(np.float32)),
                _mapped(self._directory / f"{name}.known", shape[:1], np.dtype(np.uint8)),
            )


class _Table:
    def __init__(self, outputs: NDArray[np.float32], known: NDArray[np.uint8]) -> None:
        self._outputs = outputs
        self._known = known

    def get(self, rows: Rows, compute: Callable[[Rows], torch.Tensor]) -> torch.Tensor:
        missing = np.unique(rows[self._known[rows] == 0])
        if len(missing):
            self._outputs[missing] = compute(missing).cpu().numpy()
            # Only now, so that a row that is known is whole even if the process dies here.
            self._known[missing] = 1
        return torch.from_numpy(self._outputs[rows])


def _mapped(path: Path, shape: tuple[int, ...], kind: np.dtype[np.generic]) -> np.memmap:
    size_bytes = int(np.prod(shape)) * kind.itemsize
    if not path.exists() or path.stat().st_size != size_bytes:
        with path.open("ab") as file:
            file.truncate(size_bytes)
    return np.memmap(path, dtype=kind, mode="r+", shape=shape)
