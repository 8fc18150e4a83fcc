"""Distillation as a task of the training loop: the student imitates the teacher's outputs."""

from collections.abc import Callable, Mapping
from time import monotonic, perf_counter
from typing import Any, TypedDict, Unpack

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch.nn import functional
from typing_extensions import override

from training.distillation.batches import encode_by_length, length_bucketed_batches, token_counts
from training.distillation.ranking import Neighbours, RerankedTargets, distance, ranking_loss
from training.distillation.relevance import RelevanceTerm
from training.distillation.settings import Distillation
from training.distillation.student import Student
from training.distillation.teacher import Targets
from training.distillation.texts import TextMixture
from training.errors import NotFiniteError
from training.loop.stage import Evaluation, Stage, StageLength, Task
from training.objective.negatives.sampler import Rows
from training.objective.ridge import fit_map

_LOG_EVERY, _FEWEST_SAVED = 50, 10
_FITTED_ON, _PAIRS_FITTED_ON = 8192, 20_000
# Queries of other subjects than the passages would take a linear map away from the passages.
_WEIGHT_OF_QUERY = 0.2
_TIMED_TEXTS, _TIMED_STEPS, _MUCH_LONGER = 64, 4, 3
_PASSAGES_AT_ONCE, _SPREADS, _LEAST_SPREAD = 4096, 2.0, 1e-3


class OnIndex(TypedDict, total=False):
    """What a task does with an index.

    `neighbours` or `reranked` are for the ranking loss, `relevance` is the term of judged queries,
    and `passages` are the vectors whose scores are learnt.
    """

    neighbours: Neighbours
    reranked: RerankedTargets
    relevance: RelevanceTerm
    passages: torch.Tensor


class DistillationTask(Task):
    """Trains the student on a mixture of texts."""

    def __init__(
        self,
        settings: Distillation,
        *,
        teacher: Targets,
        student: Student,
        mixture: TextMixture,
        accelerator: Accelerator,
        describe: Callable[[str], object] = str,
        **on_index: Unpack[OnIndex],
    ) -> None:
        """Take what is learnt, and by whom.

        :param describe: Takes a few words for the progress line.
        """
        self._settings = settings
        self._teacher = teacher
        self._student = student
        self._mixture = mixture
        self._neighbours = on_index.get("neighbours")
        self._reranked = on_index.get("reranked")
        self._relevance = on_index.get("relevance")
        self._passages = on_index.get("passages")
        if self._passages is not None:
            some = self._passages[:: max(1, len(self._passages) // 512)]
            # Some models have all cosines in a small range.
            self._factor = _SPREADS / max(float((some @ some.T).std()), _LEAST_SPREAD)
        self._is_exact = np.ones(len(mixture.lines), bool)
        if settings.learns_scores:
            first, end = np.cumsum([source.num_passages for source in mixture.sources[:2]])
            self._is_exact[first:end] = False
        self._accelerator = accelerator
        self._token_counts = token_counts(student.tower, mixture.texts(mixture.training))
        most = 0 if settings.projection_only else None
        size = len(mixture.training)
        self._length = StageLength(size, settings.batch_size, settings.epochs, most)
        self._began = monotonic()
        self._best_score = -1.0
        self._waited = 0
        self._describe = describe
        self._expected_step, self._step_ends = np.inf, list[float]()  # seconds
        self.figure: Callable[[], float] | None = None
        """Measures the student. If it is there, the best step of a training has the highest one."""
        self.start: float | None = None
        """The `figure` before the training."""
        self.trained: float | None = None
        """The highest `figure` of the training."""

    def stage(self) -> Stage:
        """This task for the training loop."""
        every = self._settings.every
        if self._passages is not None:  # the run is saved, and its student measured
            every = min(every, max(1, self._length.num_steps // _FEWEST_SAVED))
        return Stage(
            name="distillation",
            task=self,
            length=self._length,
            parameters=[(list(self._student.parameters()), self._settings.learning_rate)],
            evaluate_every=every,
            log_every=_LOG_EVERY,
            seed=(self._settings.seed,),
        )

    def expected(self) -> str:
        """How long the closed form and the training of pairs take, by some texts and steps."""
        seconds, told = 0.0, list[str]()
        if self._student.projection is not None:
            passages = np.arange(self._mixture.sources[0].num_passages)[:_PAIRS_FITTED_ON]
            some = passages[:: -(-len(passages) // _TIMED_TEXTS)]
            began = perf_counter()
            self._encode(self._student.tower, some)
            seconds += (perf_counter() - began) * len(passages) / len(some)
            told.append(f"the closed form of {len(passages):,} passages")
        if steps := self._length.num_steps:
            batches = self.batches(0)
            order = np.argsort(self._token_counts[batches].sum(axis=1))
            places = (2 * np.arange(_TIMED_STEPS) + 1) * len(order) // (2 * _TIMED_STEPS)
            self.backward(0, batches[0])  # the first one takes longer
            began = perf_counter()
            for batch in batches[order[places]]:
                self.backward(0, batch)
            self._expected_step = (perf_counter() - began) / _TIMED_STEPS
            training = self._expected_step * steps
            seconds += min(training, 60 * (self._settings.minutes or np.inf))
            self._student.zero_grad()
            told.append(f"{steps:,} steps of {self._length.batch_size} texts")
        minutes = round(seconds / 60)
        length = f"about {minutes} min" if minutes else "less than a minute"
        return f"{length}: {', then '.join(told)}"

    @override
    def prepare(self) -> None:
        """Fit the student's projection, if it has one, in closed form."""
        if self._student.projection is None:
            return
        training, held_out, weights = self._mixture.training, self._mixture.held_out, None
        training = training[self._is_exact[training]]
        random = np.random.default_rng(self._settings.seed)
        most = _PAIRS_FITTED_ON if self._settings.pairs else _FITTED_ON
        chosen = training[np.sort(random.permutation(len(training))[:most])]
        if self._settings.pairs:
            passages = np.arange(self._mixture.sources[0].num_passages)
            held_out = np.setdiff1d(passages, self._mixture.training)
            is_passage = torch.from_numpy(chosen < len(passages))
            weights = torch.where(is_passage, 1.0, _WEIGHT_OF_QUERY)
        pairs = self._pairs(chosen), self._pairs(held_out)
        fit_map(self._student.projection, *pairs, weights=weights)

    @override
    def batches(self, epoch: int) -> NDArray[np.int64]:
        """Batches of texts of similar length, (steps_per_epoch, batch_size), in random order."""
        random = np.random.default_rng([self._settings.seed, epoch])
        return length_bucketed_batches(self._token_counts, self._length.batch_size, random)

    @override
    def backward(self, step: int, batch: NDArray[np.int64]) -> dict[str, float]:
        """Compute the distance to the teacher's outputs, and the ranking loss if there is one."""
        numbers = self._mixture.training[batch]
        self._student.train()
        teacher = self._teacher.outputs(self._mixture, numbers)
        texts = self._mixture.texts(numbers)
        losses = self._losses(texts, self._outputs(texts), teacher, self._is_exact[numbers])
        loss = torch.stack(list(losses.values())).sum()
        self._accelerator.backward(loss)
        return {name: value.item() for name, value in losses.items()}

    @override
    def after_step(self) -> None:
        if len(self._step_ends) > _TIMED_STEPS:
            return
        self._step_ends.append(perf_counter())
        if len(self._step_ends) > _TIMED_STEPS:
            seconds = (self._step_ends[-1] - self._step_ends[0]) / _TIMED_STEPS
            if seconds > _MUCH_LONGER * self._expected_step:
                minutes = seconds * self._length.num_steps / 60
                times = seconds / self._expected_step
                self._describe(f"{times:.0f} times slower than expected: about {minutes:.0f} min")

    @override
    def is_due(self) -> bool:
        """Whether the minutes are over."""
        minutes = self._settings.minutes
        return minutes is not None and monotonic() - self._began >= 60 * minutes

    @override
    def evaluate(self, step: int) -> Evaluation:
        """Compare student and teacher on the held-out texts."""
        held_out = self._mixture.held_out
        expected = self._teacher.outputs(self._mixture, held_out)
        outputs = self._encode(self._student, held_out)
        if not outputs.isfinite().all():
            raise NotFiniteError("an embedding")
        cosines = functional.cosine_similarity(outputs, expected, dim=-1)
        metrics = {
            "cosine": float(cosines.mean()),
            "lowest_cosine": float(cosines.min()),
            "distance": float(distance(outputs, expected, self._settings.distance)),
        }
        # The cosine falls while documents are learnt: then the last step is the best one, or that
        # with the highest figure.
        by_cosine = self._relevance is None and self._passages is None
        score = metrics["cosine"] if by_cosine else float(step)
        self._waited = 0 if score > self._best_score else self._waited + 1
        self._best_score = max(score, self._best_score)
        stop = None
        if self._waited >= self._settings.patience:
            stop = f"the held-out cosine has not risen in the last {self._waited} evaluation(s)"
        if step < self._length.num_steps and self.is_due():
            stop = f"{self._settings.minutes:g} minute(s) are over"
        if self._length.num_steps and self.figure is not None:
            score = self.figure()
            if step:
                self.trained = max(score, self.trained or 0.0)
            else:
                self.start = score
        summary = f"held-out cosine {metrics['cosine']:.4f}"
        return Evaluation(metrics, score=score, stop=stop, summary=summary)

    @override
    def state(self) -> Mapping[str, Any]:
        """The best score, the number of evaluations since, and the figures of the student."""
        return {
            "best_score": self._best_score,
            "waited": self._waited,
            "start": self.start,
            "trained": self.trained,
        }

    @override
    def restore(self, state: Mapping[str, Any]) -> None:
        self._best_score, self._waited = state["best_score"], state["waited"]
        # Earlier versions did not measure them.
        self.start, self.trained = state.get("start"), state.get("trained")

    def _pairs(self, numbers: Rows) -> tuple[torch.Tensor, torch.Tensor]:
        """Outputs (n, own width) of the student's tower, and those wanted, (n, width)."""
        found = self._encode(self._student.tower, numbers)
        wanted = self._teacher.outputs(self._mixture, numbers)
        # The vectors of passages have length 1, unlike the outputs of a teacher.
        return found, functional.normalize(wanted, dim=-1) if self._settings.pairs else wanted

    def _outputs(self, texts: list[str]) -> torch.Tensor:
        """Outputs (n, width) of the student for `texts`, with gradient."""
        device = self._accelerator.device
        with self._accelerator.autocast():
            outputs: torch.Tensor = self._student(self._student.tower.tokenise(texts, device))
        return outputs.float()

    def _losses(
        self,
        texts: list[str],
        outputs: torch.Tensor,
        teacher: torch.Tensor,
        is_exact: NDArray[np.bool],
    ) -> dict[str, torch.Tensor]:
        """Each term of the loss of a batch, weighted, by outputs (n, width) of the student.

        :param is_exact: The texts (n,) whose outputs of the teacher are their own.
        """
        settings, device = self._settings, self._accelerator.device
        exact = torch.from_numpy(is_exact)
        losses = {"distance": outputs.new_zeros(())}
        if is_exact.any():
            differ = distance(outputs[exact], teacher[exact].to(device), settings.distance)
            losses["distance"] = float(is_exact.mean()) * differ
        unit, found = (functional.normalize(each, dim=-1) for each in (teacher, outputs))
        if self._relevance is not None:
            losses["relevance"] = self._relevance.loss(texts, found, unit)
        if self._reranked is not None:
            targets = self._reranked.of(texts, unit)
            losses["ranking"] = settings.ranking * self._reranked.loss(found, targets)
        if self._passages is not None:
            chosen = torch.randperm(len(self._passages))[:_PASSAGES_AT_ONCE]
            passages = torch.cat([unit, self._passages[chosen]]).to(device)
            found_scores = ranking_loss(found, unit.to(device), passages, self._factor)
            losses["scores"] = settings.passage_scores * found_scores
        if self._neighbours is not None:
            rows = self._neighbours.rows(texts, unit)
            losses["ranking"] = settings.ranking * ranking_loss(
                found,
                unit.to(device),
                self._neighbours.embeddings(rows).to(device),
                settings.score_factor,
                settings.ranking_loss,
            )
        return losses

    def _encode(self, model: torch.nn.Module, numbers: Rows) -> torch.Tensor:
        """Outputs (n, width) of `model`, the student or its tower, on the CPU."""
        model.eval()
        texts = self._mixture.texts(numbers)
        with self._accelerator.autocast():
            return encode_by_length(self._student.tower, model, texts, self._accelerator.device)
