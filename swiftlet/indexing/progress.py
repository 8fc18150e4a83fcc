"""The progress of a build, for a terminal or another display."""

from typing import Protocol


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
