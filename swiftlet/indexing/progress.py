"""The progress of a build, for a terminal or another display."""

from typing import Protocol


class Progress(Protocol):
    """Shows the progress of a build."""

    def stage(self, name: str, total: int | None, done: int = 0) -> None:
        """A stage begins; of `total` steps (None: unknown), `done` were done by an earlier run."""
        ...

    def advance(self, steps: int) -> None:
        """Some steps of the stage are done."""
        ...

    def note(self, text: str) -> None:
        """Show one sentence to the user."""
        ...


class Silence:
    """Shows nothing."""

    def stage(self, name: str, total: int | None, done: int = 0) -> None:
        """Ignore it."""

    def advance(self, steps: int) -> None:
        """Ignore it."""

    def note(self, text: str) -> None:
        """Ignore it."""
