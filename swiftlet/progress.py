"""The progress of a build, for a terminal or another display."""

import sys
from time import monotonic
from typing import Protocol

_SECONDS_BETWEEN_UPDATES = 0.5


class Progress(Protocol):
    """Shows the progress of a build."""

    def begin(self, name: str, total: int | None, done: int = 0) -> None:
        """Some work begins: `total` steps (None: unknown), `done` of them by an earlier run."""
        ...

    def advance(self, steps: int) -> None:
        """Some of its steps are done."""
        ...

    def note(self, text: str) -> None:
        """Show one sentence to the user."""
        ...


class Silence:
    """Shows nothing."""

    def begin(self, name: str, total: int | None, done: int = 0) -> None:
        """Ignore it."""

    def advance(self, steps: int) -> None:
        """Ignore it."""

    def note(self, text: str) -> None:
        """Ignore it."""


class ProgressLine:
    """Prints a line for each part of the work on standard error, for notebooks and scripts.

    If the number of steps is known, the line is updated in place, twice a second.
    """

    def __init__(self) -> None:
        self._name = ""
        self._total: int | None = None
        self._done = 0
        self._next_update = 0.0

    def begin(self, name: str, total: int | None, done: int = 0) -> None:
        """Begin a line."""
        self._name, self._total, self._done = name, total, done
        self._next_update = 0.0
        if total is None:
            sys.stderr.write(f"{name}\n")

    def advance(self, steps: int) -> None:
        """Update the line, and end it after the last step."""
        self._done += steps
        now = monotonic()
        if self._total is None or (self._done < self._total and now < self._next_update):
            return
        self._next_update = now + _SECONDS_BETWEEN_UPDATES
        end = "\n" if self._done >= self._total else ""
        sys.stderr.write(f"\r{self._name}: {self._done:,} of {self._total:,}{end}")
        sys.stderr.flush()

    def note(self, text: str) -> None:
        """Print the sentence."""
        sys.stderr.write(f"\n{text}\n")
