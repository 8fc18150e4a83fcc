"""The log of a training run, read back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swiftlet.corpora.lines import LineError, parse_lines


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
class LoggedRun:
    """All records of a run, in order."""

    records: tuple[LogRecord, ...]

    def of_kind(self, kind: str) -> list[LogRecord]:
        """The records of one kind."""
        return [record for record in self.records if record.kind == kind]


def read_training_log(path: Path) -> LoggedRun:
    """Read metrics.jsonl, as a run wrote it: one JSON object per line.

    :raises CollectionError: When the file cannot be read or is empty, or a line is no record.
    """
    return LoggedRun(tuple(record for _, record in parse_lines(path, _parse)))


def _parse(line: str) -> LogRecord:
    try:
        values = json.loads(line)
        kind = values.pop("kind")
        return LogRecord(kind, values.pop("stage", ""), values.pop("step", 0), values)
    except (ValueError, RecursionError, TypeError, AttributeError, KeyError) as error:
        raise LineError("it is no record of a training run") from error
