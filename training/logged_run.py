"""The log of a training run, read back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from swiftlet.corpora.lines import LineError, parse_lines
from swiftlet.errors import CollectionError, shown

_MEASURED = ("step", "evaluation")


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One line: a "step", an "evaluation", or another kind, such as "stop".

    `step` counts from the start of `stage`. `values` are all further keys; a figure that was not
    finite or not measured is None.
    """

    kind: str
    stage: str
    step: int
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Series:
    """One figure during one stage: x and y of shape (n,). x continues from stage to stage."""

    stage: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """All records of a run, in order."""

    path: Path
    records: tuple[LogRecord, ...]

    def of_kind(self, kind: str) -> list[LogRecord]:
        """The records of one kind."""
        return [record for record in self.records if record.kind == kind]

    def stage_starts(self, by: Literal["step", "epoch"] = "step") -> dict[str, float]:
        """Stage -> its first x: the sum of the steps, or epochs, of the stages before it.

        :raises CollectionError: When an "epoch" is not a number.
        """
        starts: dict[str, float] = {}
        ends: dict[str, float] = {}
        for record in self.records:
            if record.kind in _MEASURED:
                starts.setdefault(record.stage, sum(ends.values()))
                here = self._x(record, by)
                ends[record.stage] = max(ends.get(record.stage, 0.0), here or 0.0)
        return starts

    def position(self, record: LogRecord, by: Literal["step", "epoch"] = "step") -> float:
        """The x of a record.

        :raises CollectionError: When an "epoch" is not a number.
        """
        return self.stage_starts(by).get(record.stage, 0.0) + (self._x(record, by) or 0.0)

    def series(
        self, kind: str, key: str, by: Literal["step", "epoch"] = "step"
    ) -> tuple[Series, ...]:
        """The figure `key` of the records of `kind` that have it, one series per stage.

        :raises CollectionError: When it is not a number.
        """
        starts = self.stage_starts(by)
        points: dict[str, list[tuple[float, float]]] = {}
        for record in self.of_kind(kind):
            x, y = self._x(record, by), self._number(record, key)
            if x is not None and y is not None:
                start = starts.get(record.stage, 0.0)
                points.setdefault(record.stage, []).append((start + x, y))
        return tuple(
            Series(stage, np.array([x for x, _ in found]), np.array([y for _, y in found]))
            for stage, found in points.items()
        )

    def last(self, kind: str, key: str) -> float | None:
        """The figure `key` of the last record of `kind` that has it.

        :raises CollectionError: When it is not a number.
        """
        for record in reversed(self.of_kind(kind)):
            if (value := self._number(record, key)) is not None:
                return value
        return None

    def _x(self, record: LogRecord, by: Literal["step", "epoch"]) -> float | None:
        return float(record.step) if by == "step" else self._number(record, "epoch")

    def _number(self, record: LogRecord, key: str) -> float | None:
        value = record.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise CollectionError(
                self.path,
                f"{shown(key)} is {shown(value)}, not a number, at step {record.step} of stage "
                f"{shown(record.stage)}",
            )
        return float(value)


def read_training_log(path: Path) -> LoggedRun:
    """Read metrics.jsonl: one JSON object per line, with "kind".

    A step or an evaluation also has its "stage" and the "step" in that stage.

    :raises CollectionError: When the file cannot be read or is empty, or a line is malformed.
    """
    return LoggedRun(path, tuple(record for _, record in parse_lines(path, _parse)))


def _parse(line: str) -> LogRecord:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LineError(f"not valid JSON: {error}") from error
    if not isinstance(values, dict):
        raise LineError("the record is not a JSON object")
    kind = values.pop("kind", None)
    if not isinstance(kind, str):
        raise LineError('there is no "kind" that is a string')
    if kind not in _MEASURED:
        values = {"stage": "", "step": 0} | values
    stage, step = values.pop("stage", None), values.pop("step", None)
    if not isinstance(stage, str):
        raise LineError(f'the {kind} has no "stage" that is a string')
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        raise LineError(f'the {kind} has no "step" that is an integer from 0')
    return LogRecord(kind, stage, step, values)
