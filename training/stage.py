"""One stage of a run: steps, evaluations between them, and a checkpoint at each evaluation."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from accelerate.utils import broadcast_object_list
from numpy.typing import NDArray

from training.checkpoints import write_checkpoint
from training.collapse import CollapseFigures, CollapseMonitor, TowerName, Verdict
from training.context import BEST, CHECKPOINT, TrainingContext, last_checkpoint
from training.divergence import AlignmentStopping
from training.dual_encoder import Part
from training.errors import CollapsedError, TrainingStoppedError
from training.negatives.sampler import Rows
from training.optimisation import Optimisation
from training.position import Position
from training.seed import seed_step
from training.step import LossSettings, StepResult, loss_and_gradient

STEPS_PER_RECORD = 10


@dataclass(frozen=True, slots=True)
class Stage:
    """A stretch of training.

    `trains` says which parts learn in which step, `learning_rates` how fast each part does that
    ever learns. With `stopping` the stage ends when the towers are aligned, perhaps before its
    first step; with `chooses_best` the evaluation with the highest nDCG@10 is kept.
    """

    name: str
    epochs: float
    trains: Callable[[int], frozenset[Part]]
    learning_rates: Mapping[Part, float]
    stopping: AlignmentStopping | None = None
    chooses_best: bool = False

    @property
    def trained_towers(self) -> frozenset[TowerName]:
        """The towers whose embeddings change; a projection is part of both."""
        towers: tuple[tuple[TowerName, Part], ...] = (
            ("query", "query_encoder"),
            ("document", "document_encoder"),
        )
        learns = self.learning_rates.keys()
        return frozenset(tower for tower, part in towers if learns & {part, "projection"})


class StageRun:
    """Runs one stage; `position` is moved along and written with every checkpoint."""

    def __init__(
        self,
        context: TrainingContext,
        stage: Stage,
        position: Position,
        resumed: Mapping[str, Any] | None,
    ) -> None:
        """Begin the stage, or go on from a checkpoint within it."""
        recipe = context.recipe
        self._context = context
        self._stage = stage
        self._position = position
        self._num_steps = max(1, math.ceil(stage.epochs * context.steps_per_epoch))
        self._every = recipe.validation.every or context.steps_per_epoch
        self._loss_settings = LossSettings(
            score_factor=recipe.loss.score_factor,
            temperature=recipe.loss.temperature,
            gradient=recipe.negatives.gradient,
            shared=recipe.negatives.shared,
        )
        self._monitor = CollapseMonitor(
            cosine=recipe.collapse.cosine,
            effective_rank=recipe.collapse.effective_rank,
            loss_share=recipe.collapse.loss_share,
            patience=recipe.collapse.patience,
            trained=stage.trained_towers,
            first_ranks=position.first_ranks,
            seen=position.collapse_seen,
        )
        self._sampler = context.make_sampler(position.stage)
        self._optimisation = Optimisation(
            context.dual_encoder.rated(stage.learning_rates),
            recipe.optimiser,
            self._num_steps,
            context.accelerator,
        )
        self._order: NDArray[np.int64] = np.empty(0, np.int64)
        self._order_of = -1
        self._begins = resumed is None
        self._results: list[StepResult] = []
        self._unlogged: list[StepResult] = []
        if resumed is not None:
            self._sampler.restore(resumed["sampler"])
            self._optimisation.restore(resumed["optimisation"])
            if stage.stopping is not None:
                stage.stopping.best = position.kl_best
                stage.stopping.waited = position.kl_waited

    def run(self) -> None:
        """Train until the stage is over."""
        context, position = self._context, self._position
        context.progress.stage(
            f"Stage {position.stage + 1}: {self._stage.name}", self._num_steps, position.step
        )
        if self._begins:
            context.dual_encoder.train_only(self._stage.trains(0))
            self._sampler.prepare(self._encode)
            self._evaluate()
        while position.step < self._num_steps and not position.is_over:
            self._train_step()
            is_due = position.step % self._every == 0 or position.step == self._num_steps
            if is_due or position.step % STEPS_PER_RECORD == 0:
                self._record_steps()
            if is_due:
                self._evaluate()

    def _train_step(self) -> None:
        context, position = self._context, self._position
        began = time.perf_counter()
        parts = self._stage.trains(position.step)
        context.dual_encoder.train_only(parts)
        if "document_encoder" in parts:
            context.encoder.frozen_outputs = None
        process = context.accelerator.process_index
        seed_step(context.recipe.seed, position.stage, position.step, process)
        result = loss_and_gradient(
            context.encoder,
            context.texts,
            self._sampler,
            self._batch(),
            self._loss_settings,
            context.accelerator,
        )
        norm = self._optimisation.step()
        overflow_is_handled = context.accelerator.scaler is not None
        position.step += 1
        self._require_finite("the loss", result.loss)
        if not overflow_is_handled:
            self._require_finite("the gradient", norm)
        self._sampler.refresh(self._encode)
        position.seconds += time.perf_counter() - began
        self._results.append(result)
        self._unlogged.append(result)

    def _batch(self) -> NDArray[np.int64]:
        """The pairs of the next step: each epoch has an order of its own."""
        context, position = self._context, self._position
        epoch, place = divmod(position.step, context.steps_per_epoch)
        if epoch != self._order_of:
            random = np.random.default_rng([context.recipe.seed, position.stage, epoch])
            self._order, self._order_of = random.permutation(len(context.pairs)), epoch
        size = context.batch_size
        return context.pairs[self._order[place * size : (place + 1) * size]]

    def _encode(self, rows: Rows) -> torch.Tensor:
        return self._context.encoder.passages(self._context.texts.passages, rows)

    def _record_steps(self) -> None:
        position, losses = self._position, [result.loss for result in self._unlogged]
        self._unlogged.clear()
        self._write(
            "step",
            loss=float(np.mean(losses)),
            learning_rate=self._optimisation.learning_rate,
            seconds=position.seconds,
        )
        self._context.progress.advance(len(losses))
        self._context.progress.describe(f"loss {np.mean(losses):.3f}")

    def _evaluate(self) -> None:
        context, position, validator = self._context, self._position, self._context.validator
        spreads = validator.spreads(context.encoder)
        self._require_finite("an embedding", *(spread.cosine for spread in spreads))
        measured = (
            CollapseFigures(*spreads, *self._mean_losses()),
            validator.divergence(context.encoder),
            validator.quality(context.encoder),
        )
        # Rounded otherwise in another process, they could send it another way.
        figures, kl, quality = broadcast_object_list(list(measured))
        if position.step == 0:
            self._monitor.begin(figures)
            position.first_ranks = self._monitor.first_ranks
        verdict = self._monitor.verdict(figures)
        self._write(
            "evaluation",
            kl=kl,
            kl_threshold=None if self._stage.stopping is None else self._stage.stopping.delta,
            kl_per_dimension=kl / context.dual_encoder.dim,
            **figures.as_metrics(),
            collapse=verdict,
            **{name.lower(): value for name, value in quality.items()},
            seconds=position.seconds,
        )
        collapsed = position.step > 0 and self._monitor.has_collapsed(figures)
        position.collapse_seen = self._monitor.seen
        if collapsed and context.recipe.collapse.stop:
            raise CollapsedError(
                f"the embeddings have collapsed ({verdict}) by step {position.step} of stage "
                f"{self._stage.name}: {figures}{last_checkpoint(context.directory)}"
            )
        if self._stage.chooses_best and quality["nDCG@10"] > position.best_ndcg:
            position.best_ndcg = quality["nDCG@10"]
            self._write_best()
        self._consider_stopping(kl, verdict)
        self._checkpoint()

    def _consider_stopping(self, kl: float, verdict: Verdict) -> None:
        stopping, position = self._stage.stopping, self._position
        # Towers that give one point for everything are near each other, but not aligned.
        if stopping is None or verdict != "none":
            return
        reason = stopping.reason_to_stop(kl)
        position.kl_best, position.kl_waited = stopping.best, stopping.waited
        if reason is not None:
            position.is_over = True
            self._write("stop", reason=reason)
            self._context.progress.note(
                f"{self._stage.name} ends at step {position.step}: {reason}"
            )

    def _require_finite(self, what: str, *values: float) -> None:
        if not all(map(math.isfinite, values)):
            context = self._context
            precise = context.recipe.optimiser.precision == "fp32"
            raise TrainingStoppedError(
                f"{what} is not a finite number at step {self._position.step} of stage "
                f"{self._stage.name}: lower the learning rate, which --resume allows"
                f"{'' if precise else ', or begin anew with optimiser.precision fp32'}"
                f"{last_checkpoint(context.directory)}"
            )

    def _mean_losses(self) -> tuple[float, float]:
        """The loss and what it would be in a collapse, since the last evaluation."""
        results, self._results = self._results, []
        if not results:
            return math.nan, math.nan
        return (
            float(np.mean([result.loss for result in results])),
            float(np.mean([result.collapsed_loss for result in results])),
        )

    def _write(self, kind: str, **values: Any) -> None:
        context, position = self._context, self._position
        if context.accelerator.is_main_process:
            epoch = round(position.step / context.steps_per_epoch, 4)
            context.log.write(
                kind, stage=self._stage.name, step=position.step, epoch=epoch, **values
            )

    def _checkpoint(self) -> None:
        context = self._context
        if context.accelerator.is_main_process:
            state = {
                "position": self._position.as_state(),
                "model": context.dual_encoder.state_dict(),
                "document_unchanged": context.encoder.frozen_outputs is not None,
                "optimisation": self._optimisation.state(),
                "sampler": self._sampler.state(),
                "log_size": context.log.size(),
            }
            place = context.directory / CHECKPOINT
            write_checkpoint(place, state, dim=context.dual_encoder.dim)
        context.accelerator.wait_for_everyone()

    def _write_best(self) -> None:
        context = self._context
        if context.accelerator.is_main_process:
            state = {
                "model": context.dual_encoder.state_dict(),
                "stage": self._stage.name,
                "step": self._position.step,
                "ndcg@10": self._position.best_ndcg,
            }
            write_checkpoint(context.directory / BEST, state, dim=context.dual_encoder.dim)
        context.accelerator.wait_for_everyone()
