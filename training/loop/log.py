"""How a run reports: its progress, and its log in metrics.jsonl and optionally TensorBoard."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from swiftlet import disk
from swiftlet.extras import extra
from swiftlet.progress import Progress

FILE_NAME = "metrics.jsonl"


class TrainingProgress(Progress, Protocol):
    """Receives the progress of a run."""

    def describe(self, text: str) -> None:
        """Show a few words on the current state."""
        ...


class TrainingLog:
    """Appends records to metrics.jsonl, each one JSON object in a line.

    Each has a `kind`: "step", "evaluation", "stop" or "end".
    """

    def __init__(self, directory: Path, *, tensorboard: bool = False) -> None:
        """Log into `directory`.

        :raises MissingExtraError: When TensorBoard is requested and not installed.
        """
        self.path = directory / FILE_NAME
        self._board: Any = None
        if tensorboard:
            with extra("tensorboard"):
                from torch.utils.tensorboard import SummaryWriter
            self._board = SummaryWriter(str(directory / "tensorboard"))

    def write(self, kind: str, **values: Any) -> None:
        """Append a record. Numbers that are not finite become null.

        :raises StorageError: When the file system refuses.
        """
        record = {"kind": kind} | {name: _finite(value) for name, value in values.items()}
        with disk.storage_errors(self.path), disk.opened(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
        if self._board is not None:
            self._draw(values)

    def size(self) -> int:
        """The number of bytes written so far, for `truncate`; they are on the disk.

        :raises StorageError: When the file system refuses.
        """
        if not self.path.exists():
            return 0
        with disk.storage_errors(self.path):
            disk.sync(self.path)
            disk.sync(self.path.parent)
        return self.path.stat().st_size

    def truncate(self, size_bytes: int) -> None:
        """Remove records after `size_bytes`, which were written after the last checkpoint."""
        if self.path.exists():
            with disk.storage_errors(self.path), disk.opened(self.path, "r+b") as file:
                file.truncate(size_bytes)

    def close(self) -> None:
        """Write the records that TensorBoard still buffers."""
        if self._board is not None:
            self._board.close()

    def _draw(self, values: Mapping[str, Any]) -> None:
        stage, step = values.get("stage", ""), values.get("step", 0)
        for name, value in values.items():
            if isinstance(value, float) and math.isfinite(value):
                self._board.add_scalar(f"{stage}/{name}", value, step)


def logged(path: Path, kind: str) -> list[dict[str, Any]]:
    """The records of one kind in metrics.jsonl, in order; none if there is no file."""
    lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
