"""A stage of training: its task, and the results of its evaluations."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from training.loop.optimisation import ParameterGroup


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of an evaluation.

    `metrics` go into the log. The evaluation with the highest `score` is kept as the best one;
    without a score it is not considered. `stop` is the reason to end the stage, and `collapse` the
    reason to end the run with an error. `summary` is shown beside the progress bar.
    """

    metrics: Mapping[str, Any]
    score: float | None = None
    stop: str | None = None
    collapse: str | None = None
    summary: str = ""


class Task(Protocol):
    """The data, the objective and the validation of a stage.

    By default a task has no state, and does nothing before the first evaluation and after a step.
    """

    def prepare(self) -> None:
        """Get ready before the first evaluation. A resumed stage calls `restore` instead."""
        return

    def batches(self, epoch: int) -> NDArray[np.int64]:
        """The batches of an epoch, (steps_per_epoch, batch_size) numbers of examples."""
        ...

    def backward(self, step: int, batch: NDArray[np.int64]) -> dict[str, float]:
        """Compute the loss of a batch and its gradient.

        The gradient is added to the parameters. torch is seeded for this step.

        :returns: The terms of the loss by name, for the log.
        """
        ...

    def after_step(self) -> None:
        """Update all that depends on the parameters, which the optimiser has just changed."""
        return

    def is_due(self) -> bool:
        """Whether to evaluate after this step, though it is not one of `evaluate_every`."""
        return False

    def evaluate(self, step: int) -> Evaluation:
        """Measure the model after `step` steps.

        :raises NotFiniteError: When the model's outputs are not finite.
        """
        ...

    def state(self) -> Mapping[str, Any]:
        """The state that `restore` needs, for a checkpoint."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:  # noqa: ARG002 - by default there is none
        """Continue from the state in a checkpoint."""
        return


@dataclass(frozen=True, slots=True)
class StageLength:
    """How many steps a stage takes; examples that do not fill a batch wait for another epoch."""

    num_examples: int
    wanted_batch_size: int
    epochs: float
    most_steps: int | None = None

    @property
    def batch_size(self) -> int:
        """Examples per step: as many as wanted, or all if there are fewer."""
        return min(self.wanted_batch_size, self.num_examples)

    @property
    def steps_per_epoch(self) -> int:
        """Full batches in an epoch."""
        return self.num_examples // self.batch_size

    @property
    def num_steps(self) -> int:
        """Steps in the stage, at least one unless there may be none."""
        wanted = max(1, math.ceil(self.epochs * self.steps_per_epoch))
        return wanted if self.most_steps is None else min(wanted, self.most_steps)

    def shuffled(self, *seed: int) -> NDArray[np.int64]:
        """Full batches of examples in random order, (steps_per_epoch, batch_size)."""
        order = np.random.default_rng(seed).permutation(self.num_examples)
        size, steps = self.batch_size, self.steps_per_epoch
        return order[: steps * size].reshape(steps, size)


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a run with its own optimiser and learning rate schedule.

    `parameters` are trained, each group at its rate. `evaluate_every` and `log_every` count steps.
    `seed` and the number of the step determine the random numbers of a step.
    """

    name: str
    task: Task
    length: StageLength
    parameters: Sequence[ParameterGroup]
    evaluate_every: int
    seed: tuple[int, ...]
    log_every: int = 10
