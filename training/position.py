"""Where a run stands, as its checkpoints keep it."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class Position:
    """How far a run has come: finished stages, and what the one that follows has seen.

    `first_ranks` are the effective ranks at the stage's first evaluation, by tower.
    """

    stage: int = 0
    step: int = 0
    seconds: float = 0.0
    best_ndcg: float = -1.0
    collapse_seen: int = 0
    first_ranks: dict[str, float] = field(default_factory=dict)
    kl_best: float = float("inf")
    kl_waited: int = 0
    is_over: bool = False

    def as_state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return asdict(self)
