"""What all stages of a run share."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from accelerate import Accelerator
from numpy.typing import NDArray

from indexing.progress import Progress
from training.dual_encoder import DualEncoder
from training.encoding import BatchEncoder
from training.log import TrainingLog
from training.negatives.sampler import NegativeSampler
from training.recipe import Recipe
from training.step import TrainingTexts
from training.validator import Validator

CHECKPOINT, BEST, STAGES = "checkpoint", "best", "stages"


class TrainingProgress(Progress, Protocol):
    """Listens to a run."""

    def describe(self, text: str) -> None:
        """What the current stage looks like just now, in a few words."""
        ...


@dataclass(frozen=True, slots=True)
class TrainingContext:
    """The parts of a run.

    `pairs` (p, 2) are query numbers and positive rows; `make_sampler` makes the sampler of a stage
    from the stage's number; `directory` is where the run keeps its log and checkpoints.
    """

    recipe: Recipe
    directory: Path
    dual_encoder: DualEncoder
    encoder: BatchEncoder
    texts: TrainingTexts
    pairs: NDArray[np.int64]
    validator: Validator
    make_sampler: Callable[[int], NegativeSampler]
    accelerator: Accelerator
    progress: TrainingProgress
    log: TrainingLog

    @property
    def batch_size(self) -> int:
        """Pairs a step; fewer than the recipe says only if there are no more."""
        return min(self.recipe.optimiser.batch_size, len(self.pairs))

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches in the pairs."""
        return len(self.pairs) // self.batch_size


def last_checkpoint(directory: Path) -> str:
    """Where a run in `directory` that stops can go on from, as the end of a sentence."""
    place = directory / CHECKPOINT
    return f"; the last checkpoint is {place}" if place.is_dir() else "; there is no checkpoint yet"
