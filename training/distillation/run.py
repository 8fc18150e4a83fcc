"""The steps of a distillation, with an evaluation and a checkpoint between them."""

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch.nn import functional

from training.checkpoints import read_checkpoint, write_checkpoint
from training.context import BEST, CHECKPOINT, TrainingProgress, last_checkpoint
from training.distillation.batches import length_bucketed_batches, token_counts
from training.distillation.loss import distance, ranking_loss
from training.distillation.neighbours import Neighbours
from training.distillation.settings import Distillation
from training.distillation.student import Student
from training.distillation.teacher import Teacher
from training.distillation.texts import Places, TextMixture
from training.errors import TrainingStoppedError
from training.log import TrainingLog
from training.optimisation import Optimisation
from training.seed import seed_step

STEPS_PER_RECORD = 50
_BATCH_SIZE = 64
_FITTED_ON = 8192


@dataclass(slots=True)
class Progressed:
    """How far a run has come; `waited` evaluations ago it was best."""

    step: int = 0
    seconds: float = 0.0
    best_step: int = 0
    best_cosine: float = -1.0
    waited: int = 0


@dataclass(frozen=True, slots=True)
class DistillationContext:
    """The parts of a run; `neighbours` are there if documents are to be ranked."""

    settings: Distillation
    directory: Path
    teacher: Teacher
    student: Student
    mixture: TextMixture
    neighbours: Neighbours | None
    accelerator: Accelerator
    progress: TrainingProgress
    log: TrainingLog


class DistillationRun:
    """Trains the student; a killed run loses what came after its last checkpoint."""

    def __init__(self, context: DistillationContext, *, resume: bool) -> None:
        """Start, or go on from the directory's checkpoint if there is one.

        :raises CorruptArtefactError: When the checkpoint was altered.
        """
        settings = context.settings
        self._context = context
        self._at = Progressed()
        texts = context.mixture.texts(context.mixture.training)
        self._lengths = token_counts(context.student.tower, texts)
        self._batch_size = min(settings.batch_size, len(texts))
        self._steps_per_epoch = len(texts) // self._batch_size
        self._num_steps = max(1, math.ceil(settings.epochs * self._steps_per_epoch))
        self._optimisation = Optimisation(
            [(list(context.student.parameters()), settings.learning_rate)],
            settings.optimiser(),
            self._num_steps,
            context.accelerator,
        )
        self._batches: NDArray[np.int64] = np.empty((0, 0), np.int64)
        self._batches_of = -1
        self._unlogged: list[dict[str, float]] = []
        self._begins = True
        if resume and (context.directory / CHECKPOINT).is_dir():
            self._go_on(read_checkpoint(context.directory / CHECKPOINT))
        else:
            context.log.truncate(0)

    def run(self) -> Progressed:
        """Train to the end, and return to the evaluation that came closest to the teacher.

        :raises TrainingStoppedError: When the loss is no number any more.
        :raises StorageError: When the file system refuses.
        """
        context, at, settings = self._context, self._at, self._context.settings
        if self._begins:
            self._fit_projection()
        context.progress.stage("Distilling", self._num_steps, at.step)
        if self._begins:
            self._evaluate()
        while at.step < self._num_steps and at.waited < settings.patience:
            self._step()
            is_due = at.step % settings.every == 0 or at.step == self._num_steps
            if is_due or at.step % STEPS_PER_RECORD == 0:
                self._record()
            if is_due:
                self._evaluate()
        if at.waited >= settings.patience and at.step < self._num_steps:
            context.log.write("stop", step=at.step, reason="patience")
            context.progress.note(
                f"distilling ends at step {at.step}: the held-out texts have not come closer "
                f"{at.waited} times in a row"
            )
        best = read_checkpoint(context.directory / BEST)
        context.student.load_state_dict(best["model"])
        return at

    def embeddings(self, places: Places) -> torch.Tensor:
        """The student's normalised embeddings (n, width) of the texts at `places`."""
        return functional.normalize(self._outputs(places), dim=-1)

    def _step(self) -> None:
        context, at = self._context, self._at
        began = time.perf_counter()
        places = context.mixture.training[self._batch()]
        seed_step(context.settings.seed, at.step)
        context.student.train()
        teacher = context.teacher.outputs(context.mixture, places)
        losses = self._loss(context.mixture.texts(places), teacher)
        loss = torch.stack(list(losses.values())).sum()
        scaler = context.accelerator.scaler
        (loss if scaler is None else scaler.scale(loss)).backward()
        norm = self._optimisation.step()
        at.step += 1
        values = {name: value.item() for name, value in losses.items()}
        finite = [*values.values(), *([] if scaler is not None else [norm])]
        if not all(map(math.isfinite, finite)):
            raise TrainingStoppedError(
                f"the loss or its gradient is not a finite number at step {at.step}: lower the "
                f"learning rate, which --resume allows{last_checkpoint(context.directory)}"
            )
        at.seconds += time.perf_counter() - began
        self._unlogged.append(values)

    def _loss(self, texts: list[str], teacher: torch.Tensor) -> dict[str, torch.Tensor]:
        """Each term of the loss, weighted."""
        context, settings = self._context, self._context.settings
        device = context.accelerator.device
        features = context.student.tower.tokenise(texts)
        with context.accelerator.autocast():
            outputs = context.student({name: ids.to(device) for name, ids in features.items()})
        outputs, wanted = outputs.float(), teacher.to(device)
        losses = {"distance": distance(outputs, wanted, settings.distance)}
        if context.neighbours is not None:
            unit = functional.normalize(teacher, dim=-1)
            documents = context.neighbours.of(unit).to(device)
            losses["ranking"] = settings.ranking * ranking_loss(
                functional.normalize(outputs, dim=-1),
                unit.to(device),
                documents,
                settings.score_factor,
            )
        return losses

    def _batch(self) -> NDArray[np.int64]:
        epoch, place = divmod(self._at.step, self._steps_per_epoch)
        if epoch != self._batches_of:
            random = np.random.default_rng([self._context.settings.seed, epoch])
            self._batches = length_bucketed_batches(self._lengths, self._batch_size, random)
            self._batches_of = epoch
        batch: NDArray[np.int64] = self._batches[place]
        return batch

    def _fit_projection(self) -> None:
        context = self._context
        if context.student.projection is None:
            return
        training = context.mixture.training
        random = np.random.default_rng(context.settings.seed)
        chosen = random.permutation(len(training))[:_FITTED_ON]
        places = training[np.sort(chosen)]
        texts = context.mixture.texts(places)
        context.student.fit_projection(
            self._encoded(context.student.tower, texts),
            context.teacher.outputs(context.mixture, places),
        )

    @torch.inference_mode()
    def _encoded(self, model: torch.nn.Module, texts: list[str]) -> torch.Tensor:
        """Outputs (n, width) of `model`, on the CPU."""
        context = self._context
        model.eval()
        order = np.argsort(token_counts(context.student.tower, texts), kind="stable")
        pieces = []
        for start in range(0, len(order), _BATCH_SIZE):
            chosen = [texts[place] for place in order[start : start + _BATCH_SIZE]]
            features = context.student.tower.tokenise(chosen)
            on_device = {n: ids.to(context.accelerator.device) for n, ids in features.items()}
            pieces.append(model(on_device).float().cpu())
        return torch.cat(pieces)[torch.from_numpy(np.argsort(order))].clone()

    def _outputs(self, places: Places) -> torch.Tensor:
        return self._encoded(self._context.student, self._context.mixture.texts(places))

    def _evaluate(self) -> None:
        context, at, settings = self._context, self._at, self._context.settings
        held_out = context.mixture.held_out
        wanted = context.teacher.outputs(context.mixture, held_out)
        found = self._outputs(held_out)
        cosines = functional.cosine_similarity(found, wanted, dim=-1)
        cosine = float(cosines.mean())
        self._write(
            "evaluation",
            cosine=cosine,
            lowest_cosine=float(cosines.min()),
            distance=float(distance(found, wanted, settings.distance)),
        )
        context.progress.describe(f"held-out cosine {cosine:.4f}")
        if cosine > at.best_cosine:
            at.best_cosine, at.best_step, at.waited = cosine, at.step, 0
            state = {"model": context.student.state_dict(), "step": at.step, "cosine": cosine}
            write_checkpoint(context.directory / BEST, state, dim=context.teacher.width)
        else:
            at.waited += 1
        state = {
            "position": asdict(at),
            "model": context.student.state_dict(),
            "optimisation": self._optimisation.state(),
            "log_size": context.log.size(),
        }
        write_checkpoint(context.directory / CHECKPOINT, state, dim=context.teacher.width)

    def _go_on(self, state: Mapping[str, Any]) -> None:
        context = self._context
        self._at = Progressed(**state["position"])
        context.student.load_state_dict(state["model"])
        self._optimisation.restore(state["optimisation"])
        context.log.truncate(state["log_size"])
        self._begins = False

    def _record(self) -> None:
        names = self._unlogged[0]
        means = {name: float(np.mean([each[name] for each in self._unlogged])) for name in names}
        self._write("step", **means, learning_rate=self._optimisation.learning_rate)
        self._context.progress.advance(len(self._unlogged))
        self._unlogged.clear()

    def _write(self, kind: str, **values: float) -> None:
        at = self._at
        epoch = round(at.step / self._steps_per_epoch, 4)
        self._context.log.write(
            kind, stage="distillation", step=at.step, epoch=epoch, **values, seconds=at.seconds
        )
