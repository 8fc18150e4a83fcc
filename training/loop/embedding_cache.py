"""A cache on disk for the outputs of a frozen language model.

The outputs of a frozen document language model do not change. With the cache, the alignment stage
only computes the projection of each passage, and several runs with one document encoder share the
outputs.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from swiftlet import disk
from training.data.passages import PassageTexts
from training.objective.negatives.sampler import Rows


class EmbeddingCache:
    """A cache of language model outputs by passage row; missing outputs are computed on request.

    For each store of passages there are two sparse files. Only computed rows take disk space: 4
    bytes times the width. In memory each passage takes one byte.
    """

    def __init__(self, directory: Path, key: str, width: int) -> None:
        """Keep outputs (passages, width) in `directory`.

        :param key: Identifies everything that outputs depend on: weights, truncation, precision.
        """
        self._directory = directory
        self._key = key
        self._width = width
        self._tables: dict[str, _Table] = {}

    def get(
        self, passages: PassageTexts, rows: Rows, compute: Callable[[Rows], torch.Tensor]
    ) -> torch.Tensor:
        """Outputs (n, width) of `rows` (n,), on the CPU; `compute` is called for missing rows.

        :raises StorageError: When the file system refuses.
        """
        if passages.key not in self._tables:
            self._tables[passages.key] = self._open(passages)
        return self._tables[passages.key].get(rows, compute)

    def _open(self, passages: PassageTexts) -> "_Table":
        named = f"{self._key} {passages.key} {passages.num_passages} {self._width}"
        name = hashlib.sha256(named.encode()).hexdigest()[:16]
        with disk.storage_errors(self._directory):
            disk.make_directory(self._directory, parents=True, exist_ok=True)
            return _Table(self._directory / name, passages.num_passages, self._width)


class _Table:
    def __init__(self, path: Path, num_passages: int, width: int) -> None:
        self._files = path.with_suffix(".outputs"), path.with_suffix(".known")
        for file, row_bytes in zip(self._files, (4 * width, 1), strict=True):
            with disk.opened(file, "ab") as sized:
                sized.truncate(num_passages * row_bytes)
        disk.sync(path.parent)  # else a loss of power might leave the known rows alone
        self._outputs = np.memmap(self._files[0], np.float32, "r", shape=(num_passages, width))
        self._known = np.fromfile(self._files[1], np.uint8)

    def get(self, rows: Rows, compute: Callable[[Rows], torch.Tensor]) -> torch.Tensor:
        missing = np.unique(rows[self._known[rows] == 0])
        if len(missing):
            outputs = compute(missing).float().cpu().numpy()
            _write(self._files[0], missing, outputs)
            # Written last, so that known rows are complete even after a crash.
            _write(self._files[1], missing, np.ones(len(missing), np.uint8))
            self._known[missing] = 1
        return torch.from_numpy(self._outputs[rows])


def _write(path: Path, rows: Rows, values: NDArray[np.generic]) -> None:
    """Write `values` (n, …) at `rows` (n,).

    Memory-mapped writing is avoided: on a full disk it would kill the process.
    """
    with disk.storage_errors(path), disk.opened(path, "r+b") as file:
        for row, value in zip(rows.tolist(), values, strict=True):
            content = value.tobytes()
            file.seek(row * len(content))
            file.write(content)
        disk.sync(file)
