"""Contrastive training of a dual encoder, as a task of the training loop."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from training.contrastive.collapse import (
    Collapse,
    CollapseMetrics,
    CollapseMonitor,
    TowerName,
    Verdict,
)
from training.contrastive.step import ContrastiveStep, StepResult
from training.contrastive.validator import Validator
from training.errors import NotFiniteError
from training.loop.stage import Evaluation, Stage, StageLength, Task
from training.model.dual_encoder import Part
from training.objective.divergence import AlignmentStopping


@dataclass(frozen=True, slots=True)
class ContrastiveStage:
    """The settings of a stage of contrastive training.

    `trains` gives the parts that are trained in a step, and `learning_rates` the rate of each part
    that is trained in any step. With `stopping`, the stage ends when the towers are aligned,
    possibly before its first step. With `chooses_best`, the evaluation with the highest nDCG@10 is
    kept.
    """

    name: str
    epochs: float
    trains: Callable[[int], frozenset[Part]]
    learning_rates: Mapping[Part, float]
    stopping: AlignmentStopping | None = None
    chooses_best: bool = False
    most_steps: int | None = None

    def length(self, num_pairs: int, batch_size: int) -> StageLength:
        """The number of its steps."""
        return StageLength(num_pairs, batch_size, self.epochs, self.most_steps)

    @property
    def trained_towers(self) -> frozenset[TowerName]:
        """The towers with changing embeddings; the projection is part of both."""
        towers: tuple[tuple[TowerName, Part], ...] = (
            ("query", "query_encoder"),
            ("document", "document_encoder"),
        )
        trained = self.learning_rates.keys()
        return frozenset(tower for tower, part in towers if trained & {part, "projection"})


class ContrastiveTask(Task):
    """Trains a dual encoder on pairs of a query and a relevant passage."""

    def __init__(
        self,
        settings: ContrastiveStage,
        step: ContrastiveStep,
        pairs: NDArray[np.int64],
        validator: Validator,
        *,
        batch_size: int,
        evaluate_every: int,
        collapse: Collapse,
        seed: tuple[int, ...],
    ) -> None:
        """Train on `pairs` (n, 2) of a query number and a positive row, by this step.

        :param evaluate_every: In steps; 0 for once an epoch.
        """
        self._settings, self._step, self._pairs, self._seed = settings, step, pairs, seed
        self._encoder, self._sampler = step.encoder, step.source.sampler
        self._encode = step.source.inputs.encode_passages
        self._validator = validator
        self._length = settings.length(len(pairs), batch_size)
        self._evaluate_every = evaluate_every or self._length.steps_per_epoch
        self._monitor = CollapseMonitor(collapse, settings.trained_towers)
        self._results: list[StepResult] = []

    def stage(self) -> Stage:
        """This task for the training loop."""
        return Stage(
            name=self._settings.name,
            task=self,
            length=self._length,
            parameters=self._encoder.dual_encoder.parameter_groups(self._settings.learning_rates),
            evaluate_every=self._evaluate_every,
            seed=self._seed,
        )

    @override
    def prepare(self) -> None:
        self._encoder.dual_encoder.train_only(self._settings.trains(0))
        self._sampler.prepare(self._encode)

    @override
    def batches(self, epoch: int) -> NDArray[np.int64]:
        return self._length.shuffled(*self._seed, epoch)

    @override
    def backward(self, step: int, batch: NDArray[np.int64]) -> dict[str, float]:
        parts = self._settings.trains(step)
        self._encoder.dual_encoder.train_only(parts)
        if "document_encoder" in parts:
            self._encoder.embedding_cache = None
        result = self._step(self._pairs[batch])
        self._results.append(result)
        return {"loss": result.loss}

    @override
    def after_step(self) -> None:
        self._sampler.refresh(self._encode)

    @override
    def evaluate(self, step: int) -> Evaluation:
        settings, validator, encoder = self._settings, self._validator, self._encoder
        statistics = validator.embedding_statistics(encoder)
        if not all(math.isfinite(each.cosine) for each in statistics):
            raise NotFiniteError("an embedding")
        quality = validator.quality(encoder)
        figures = CollapseMetrics(*statistics, *self._mean_losses(), quality["nDCG@10"])
        kl = validator.divergence(encoder)
        if step == 0:
            self._monitor.begin(figures)
        verdict = self._monitor.verdict(figures)
        metrics = {
            "kl": kl,
            "kl_threshold": None if settings.stopping is None else settings.stopping.delta,
            "kl_per_dimension": kl / encoder.dual_encoder.dim,
            **figures.as_metrics(),
            "collapse": verdict,
            **{name.lower(): value for name, value in quality.items()},
        }
        collapse = None
        if step > 0 and self._monitor.has_collapsed(figures) and self._monitor.settings.stop:
            collapse = (
                f"the run has collapsed ({verdict}) by step {step} of stage {settings.name}: "
                f"{figures} ({self._monitor.first_ndcg:.3f} before the stage)"
            )
        return Evaluation(
            metrics,
            score=figures.ndcg if settings.chooses_best else None,
            stop=None if collapse else self._reason_to_stop(step, kl, figures.ndcg, verdict),
            collapse=collapse,
        )

    @override
    def state(self) -> Mapping[str, Any]:
        stopping = self._settings.stopping
        return {
            "sampler": self._sampler.state(),
            "documents_unchanged": self._encoder.embedding_cache is not None,
            "first_ranks": self._monitor.first_ranks,
            "first_ndcg": self._monitor.first_ndcg,
            "last_ndcg": self._monitor.last_ndcg,
            "collapse_seen": self._monitor.seen,
            "stopping": None if stopping is None else [stopping.best, stopping.best_epoch],
        }

    @override
    def restore(self, state: Mapping[str, Any]) -> None:
        self._sampler.restore(state["sampler"])
        if not state["documents_unchanged"]:
            self._encoder.embedding_cache = None
        self._monitor.first_ranks = dict(state["first_ranks"])
        self._monitor.first_ndcg = state["first_ndcg"]
        self._monitor.last_ndcg = state.get("last_ndcg", math.inf)  # of an earlier version
        self._monitor.seen = state["collapse_seen"]
        if (stopping := self._settings.stopping) is not None:
            stopping.best, stopping.best_epoch = state["stopping"]

    def _reason_to_stop(self, step: int, kl: float, ndcg: float, verdict: Verdict) -> str | None:
        # The KL estimate of collapsed towers is small although they are not aligned.
        if self._settings.stopping is None or verdict != "none":
            return None
        epoch = step / self._length.steps_per_epoch
        return self._settings.stopping.reason_to_stop(epoch, kl, ndcg)

    def _mean_losses(self) -> tuple[float, float]:
        """The mean loss and the mean collapsed loss since the last evaluation."""
        results, self._results = self._results, []
        if not results:
            return math.nan, math.nan
        return (
            float(np.mean([result.loss for result in results])),
            float(np.mean([result.collapsed_loss for result in results])),
        )
