"""The training loop: steps, evaluations between them, and a checkpoint at each evaluation."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from training.errors import CollapsedError, NotFiniteError, TrainingStoppedError
from training.loop.checkpoints import (
    BEST,
    CHECKPOINT,
    STAGES,
    last_checkpoint,
    read_checkpoint,
    weight_errors,
    write_checkpoint,
)
from training.loop.log import TrainingLog
from training.loop.optimisation import Optimisation
from training.loop.run import Run, publish_run
from training.loop.stage import Stage


@dataclass(slots=True)
class TrainState:
    """The progress of a run: the number of finished stages, and the steps of the current one."""

    stage: int = 0
    step: int = 0
    seconds: float = 0.0
    best_score: float = -1.0
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class Best:
    """The evaluation with the highest score."""

    stage: str
    step: int
    score: float


class TrainingLoop:
    """Trains a model stage by stage. A killed run loses only the steps after its checkpoint."""

    def __init__(
        self,
        run: Run,
        model: nn.Module,
        dim: int,
        *,
        average: float = 0.0,
        keep_stages: bool = False,
    ) -> None:
        """Begin, or continue from the checkpoint of the run if there is one.

        :param dim: The size of the embeddings, for manifests.
        :param average: The share of the present weights of `model` in the final ones.
        :param keep_stages: Keep the weights at the end of each stage.
        :raises CorruptArtefactError: When the checkpoint was altered.
        :raises MissingExtraError: When TensorBoard is requested and not installed.
        """
        self.state = TrainState()
        self._run, self._model, self._dim = run, model, dim
        self._directory, self._accelerator = run.out, run.accelerator
        self._finish = run.start.get("finish", False)
        self.log = TrainingLog(run.out, tensorboard=run.tensorboard)
        self._average = average
        self._initial = [each.detach().clone() for each in model.parameters()] if average else []
        self._keep_stages = keep_stages
        self._num_stages_seen = 0
        self._resumed: Mapping[str, Any] | None = None
        log_size = 0
        goes_on = run.start.get("resume", False) or self._finish
        if goes_on and (run.out / CHECKPOINT).is_dir():
            self._resumed = read_checkpoint(run.out / CHECKPOINT)
            self.state = TrainState(**self._resumed["train_state"])
            model.load_state_dict(self._resumed["model"])
            log_size = self._resumed["log_size"]
        self.log.truncate(log_size)

    def train(self, make_stage: Callable[[int], Stage]) -> None:
        """Run the next stage, or the rest of it. A stage that is already finished is skipped.

        :param make_stage: Makes the stage from its number. It is not called for a finished stage.
        :raises CollapsedError: When the embeddings collapsed.
        :raises TrainingStoppedError: When the loss or the gradient is not finite.
        :raises StorageError: When the file system refuses.
        """
        number = self._num_stages_seen
        self._num_stages_seen += 1
        if self.state.stage > number or self._finish:
            return
        if self.state.stage < number:
            self.state = TrainState(stage=number, seconds=self.state.seconds)
        stage = make_stage(number)
        optimisation = Optimisation(
            stage.parameters, self._run.optimiser, stage.length.num_steps, self._accelerator
        )
        begins = self._resumed is None
        if self._resumed is not None:
            stage.task.restore(self._resumed["task"])
            optimisation.restore(self._resumed["optimisation"])
            self._resumed = None  # frees its memory
        self._finish_stage(stage, optimisation, begins=begins)
        if self._keep_stages:
            self._write(f"{STAGES}/{stage.name}", {})

    def take_best(self) -> Best:
        """Load the weights of the evaluation with the highest score, and mix the initial ones in.

        :raises ManifestError: When no evaluation had a score.
        """
        best = read_checkpoint(self._directory / BEST)
        self._model.load_state_dict(best.pop("model"))
        with torch.no_grad():
            for weight, before in zip(self._model.parameters(), self._initial, strict=False):
                weight.lerp_(before, self._average)
        return Best(**best)

    def publish(
        self,
        save: Callable[[Path], object],
        end: Mapping[str, Any],
        *,
        embedding_space: str,
        details: Mapping[str, Any],
    ) -> None:
        """Save the encoders, write the manifest, and then remove the checkpoints.

        :param save: Writes the encoders into the folder that it is given.
        :param end: The last record of the log.
        :raises StorageError: When the file system refuses.
        """
        self.log.write("end", **end)
        self.log.close()
        with weight_errors(self._directory):
            save(self._directory)
        publish_run(
            self._directory,
            dim=self._dim,
            embedding_space=embedding_space,
            details=details,
            temporary=self._run.temporary,
        )

    def _finish_stage(self, stage: Stage, optimisation: Optimisation, *, begins: bool) -> None:
        state, num_steps = self.state, stage.length.num_steps
        self._run.progress.begin(f"Stage {state.stage + 1}: {stage.name}", num_steps, state.step)
        if begins:
            stage.task.prepare()
            self._evaluate(stage, optimisation)
        unlogged: list[dict[str, float]] = []
        for batch in islice(_batches(stage, state.step), num_steps - state.step):
            if state.is_over:
                break
            unlogged.append(self._step(stage, optimisation, batch))
            is_due = state.step % stage.evaluate_every == 0 or state.step == num_steps
            is_due = is_due or stage.task.is_due()
            if is_due or state.step % stage.log_every == 0:
                self._log_steps(stage, unlogged, optimisation.learning_rate)
                unlogged.clear()
            if is_due:
                self._evaluate(stage, optimisation)

    def _step(
        self, stage: Stage, optimisation: Optimisation, batch: NDArray[np.int64]
    ) -> dict[str, float]:
        state, began = self.state, time.perf_counter()
        _seed_torch(*stage.seed, state.step, 0)
        losses = stage.task.backward(state.step, batch)
        norm = optimisation.step()
        state.step += 1
        self._require_finite(stage, "the loss", *losses.values())
        if self._accelerator.scaler is None:  # otherwise the scaler handles an overflow
            self._require_finite(stage, "the gradient", norm)
        stage.task.after_step()
        state.seconds += time.perf_counter() - began
        return losses

    def _log_steps(
        self, stage: Stage, losses: Sequence[Mapping[str, float]], learning_rate: float
    ) -> None:
        means = {name: float(np.mean([each[name] for each in losses])) for name in losses[0]}
        seconds = self.state.seconds
        self._write_log(stage, "step", **means, learning_rate=learning_rate, seconds=seconds)
        self._run.progress.advance(len(losses))
        self._run.progress.describe(f"loss {sum(means.values()):.3f}")

    def _evaluate(self, stage: Stage, optimisation: Optimisation) -> None:
        state = self.state
        try:
            evaluation = stage.task.evaluate(state.step)
        except NotFiniteError as error:
            raise self._not_finite(stage, str(error)) from error
        self._write_log(stage, "evaluation", **evaluation.metrics, seconds=state.seconds)
        if evaluation.collapse is not None:
            raise CollapsedError(evaluation.collapse + last_checkpoint(self._directory))
        if evaluation.summary:
            self._run.progress.describe(evaluation.summary)
        if evaluation.score is not None and evaluation.score > state.best_score:
            state.best_score = evaluation.score
            self._write(BEST, asdict(Best(stage.name, state.step, evaluation.score)))
        if evaluation.stop is not None:
            state.is_over = True
            self._write_log(stage, "stop", reason=evaluation.stop)
            self._run.progress.note(f"{stage.name} ends at step {state.step}: {evaluation.stop}")
        self._write(
            CHECKPOINT,
            {
                "train_state": asdict(state),
                "optimisation": optimisation.state(),
                "task": stage.task.state(),
                "log_size": self.log.size(),
            },
        )

    def _require_finite(self, stage: Stage, quantity: str, *values: float) -> None:
        if not all(map(math.isfinite, values)):
            raise self._not_finite(stage, quantity)

    def _not_finite(self, stage: Stage, quantity: str) -> TrainingStoppedError:
        precision = self._run.optimiser.precision
        others = "" if precision == "fp32" else f", or start again with fp32 instead of {precision}"
        rates = ", ".join(f"{rate:g}" for rate in sorted({rate for _, rate in stage.parameters}))
        return TrainingStoppedError(
            f"{quantity} is not a finite number at step {self.state.step} of stage {stage.name}: "
            f"lower the learning rate (now {rates}), which --resume allows{others}"
            f"{last_checkpoint(self._directory)}"
        )

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        """Write the model and `content` as a checkpoint."""
        state = {"model": self._model.state_dict(), **content}
        write_checkpoint(self._directory / name, state, dim=self._dim)

    def _write_log(self, stage: Stage, kind: str, **values: Any) -> None:
        step = self.state.step
        epoch = round(step / stage.length.steps_per_epoch, 4)
        self.log.write(kind, stage=stage.name, step=step, epoch=epoch, **values)


def _batches(stage: Stage, first_step: int) -> Iterator[NDArray[np.int64]]:
    """The batches from `first_step` on, without end."""
    first_epoch, skipped = divmod(first_step, stage.length.steps_per_epoch)
    for epoch in count(first_epoch):
        yield from stage.task.batches(epoch)[skipped:]
        skipped = 0


def _seed_torch(*entropy: int) -> None:
    """Seed torch for one step, so that dropout is the same after a run was resumed."""
    state = np.random.SeedSequence(entropy).generate_state(1, np.uint64)
    torch.manual_seed(int(state[0] >> 1))
