"""The log of a training run, read back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from swiftlet.corpora.lines import LineError, parse_lines

Scale = Literal["step", "epoch"]

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

    def x(self, by: Scale) -> float:
        """Its steps or epochs since the start of its stage."""
        return float(self.step if by == "step" else self.values["epoch"])


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

    def stage_starts(self, by: Scale = "step") -> dict[str, float]:
        """Stage -> its first x: the sum of the steps, or epochs, of the stages before it."""
        starts: dict[str, float] = {}
        ends: dict[str, float] = {}
        for record in self.records:
            if record.kind in _MEASURED:
                starts.setdefault(record.stage, sum(ends.values()))
                ends[record.stage] = max(ends.get(record.stage, 0.0), record.x(by))
        return starts

    def position(self, record: LogRecord, by: Scale = "step") -> float:
        """The x of a record."""
        return self.stage_starts(by).get(record.stage, 0.0) + record.x(by)

    def series(self, kind: str, key: str, by: Scale = "step") -> tuple[Series, ...]:
        """The figure `key` of the records of `kind` that have it, one series per stage."""
        points: dict[str, list[tuple[float, float]]] = {}
        starts = self.stage_starts(by)
        for record in self.of_kind(kind):
            if (y := record.values.get(key)) is not None:
                place = starts[record.stage] + record.x(by), y
                points.setdefault(record.stage, []).append(place)
        return tuple(
            Series(stage, np.array([x for x, _ in found]), np.array([y for _, y in found]))
            for stage, found in points.items()
        )

    def last(self, kind: str, key: str) -> float | None:
        """The figure `key` of the last record of `kind` that has it."""
        figures = (record.values.get(key) for record in reversed(self.of_kind(kind)))
        return next((figure for figure in figures if figure is not None), None)


def read_training_log(path: Path) -> LoggedRun:
    """Read metrics.jsonl, as a run wrote it: one JSON object per line.

    :raises CollectionError: When the file cannot be read or is empty, or a line is no record.
    """
    return LoggedRun(path, tuple(record for _, record in parse_lines(path, _parse)))


def _parse(line: str) -> LogRecord:
    try:
        values = json.loads(line)
        kind = values.pop("kind")
        return LogRecord(kind, values.pop("stage", ""), values.pop("step", 0), values)
    except (ValueError, RecursionError, TypeError, AttributeError, KeyError) as error:
        raise LineError("it is no record of a training run") from error
