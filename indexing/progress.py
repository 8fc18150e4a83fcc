"""How a build tells what it is doing, without knowing who listens."""

from typing import Protocol


class Progress(Protocol):
    """Listens to a build."""

    def stage(self, name: str, total: int | None, done: int = 0) -> None:
        """A stage begins; of `total` steps (None: unknown), `done` were done by an earlier run."""
        ...

    def advance(self, steps: int) -> None:
        """Some steps of the stage are done."""
        ...

    def note(self, text: str) -> None:
        """Something that the user should know, in one sentence."""
        ...


class Silence:
    """Listens to nothing."""

    def stage(self, name: str, total: int | None, done: int = 0) -> None:
        """Ignore it."""

    def advance(self, steps: int) -> None:
        """Ignore it."""

    def note(self, text: str) -> None:
        """Ignore it."""
