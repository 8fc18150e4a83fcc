"""How a run reports its progress."""

from typing import Protocol

from swiftlet.indexing.progress import Progress


class TrainingProgress(Progress, Protocol):
    """Receives the progress of a run."""

    def describe(self, text: str) -> None:
        """Show a short description of the current state of the stage."""
        ...
