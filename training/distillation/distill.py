"""Distils a small query encoder from a teacher, in the embedding space of the teacher."""

from dataclasses import dataclass
from pathlib import Path

import torch

from swiftlet.retrieval.embedding_space import check_embedding_space
from swiftlet.retrieval.errors import InvalidArgumentError
from swiftlet.retrieval.manifest import read_manifest
from training.distillation.neighbours import Neighbours
from training.distillation.overlap import IndexComparison, Overlap
from training.distillation.settings import LOOKUP, Distillation
from training.distillation.student import Student
from training.distillation.task import DistillationTask
from training.distillation.teacher import Teacher
from training.distillation.texts import TextMixture, read_texts
from training.distillation.torch_encoder import TorchEncoder
from training.loop.devices import make_accelerator, memory_errors, processes
from training.loop.log import TrainingLog, TrainingProgress
from training.loop.loop import TrainingLoop
from training.loop.run_directory import publish_run, run_directory
from training.loop.state_files import weight_errors
from training.model.trained import QUERY_ENCODER

_COMPARED_ON = 500


@dataclass(frozen=True, slots=True)
class JudgedQueryFiles:
    """The paths of queries and of qrels for the documents of an index."""

    queries: Path
    qrels: Path


@dataclass(frozen=True, slots=True)
class DistillationResult:
    """The result of a run.

    `cosine` is the mean cosine with the teacher on the held-out texts, at the best step. `overlaps`
    compare the documents that student and teacher find in the index.
    """

    best_step: int
    cosine: float
    num_held_out: int
    overlaps: list[Overlap]


def distill(
    settings: Distillation,
    out: Path,
    *,
    teacher_embeddings: Path | None = None,
    judged: JudgedQueryFiles | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: TrainingProgress,
) -> DistillationResult:
    """Train a student in the directory `out`.

    During the run, `out` has `recipe.json`, `metrics.jsonl` and `checkpoint/`. At the end it has
    the Sentence Transformers directory `query_encoder/`. `manifest.json` is written last: without
    it, `out` is not a valid artefact.

    :param teacher_embeddings: The directory of the embedding cache, which other runs can share; by
        default `teacher-embeddings` beside `out`.
    :param judged: Queries and judgements to measure nDCG@10 with; needs an index.
    :param resume: Continue from the checkpoint of an earlier process, if there is one.
    :param overwrite: Remove an earlier run first.
    :raises RetrievalError: When the settings, a model, a text, the index or `out` are invalid, or
        the run cannot continue: see `training.errors`.
    """
    if judged is not None and settings.index is None:
        raise InvalidArgumentError("judgements are for the documents of an index: name the index")
    if processes().num_processes > 1:
        raise InvalidArgumentError("a distillation runs in one process, not under torchrun")
    kept = teacher_embeddings or out.parent / "teacher-embeddings"
    advice = f"start again with a batch size below {settings.batch_size}"
    with (
        run_directory(out, settings, settings.may_change(), resume=resume, overwrite=overwrite),
        memory_errors(advice, out),
    ):
        accelerator = make_accelerator(settings.precision, settings.batch_size)
        torch.manual_seed(settings.seed)
        teacher = Teacher.load(settings.teacher_tower(), kept, accelerator)
        comparison = None if settings.index is None else _open(Path(settings.index), teacher)
        if settings.student == LOOKUP:
            if teacher.tower is None:
                raise InvalidArgumentError(
                    f"{settings.teacher} is an exported encoder: a new look-up table begins with "
                    "the model that it was exported from, or name a look-up encoder as the student"
                )
            student = Student.lookup(teacher.tower, settings.max_tokens)
        else:
            student = Student.make(settings, teacher.width)
        student.to(accelerator.device)
        mixture = read_texts(settings)
        teacher.prepare(mixture, progress)
        neighbours = None
        if comparison is not None and settings.ranking:
            neighbours = Neighbours(comparison.index, settings.documents)
        initial = [weight.detach().clone() for weight in student.parameters()]
        log = TrainingLog(out)
        loop = TrainingLoop(
            student,
            dim=teacher.width,
            optimiser=settings.optimiser(),
            directory=out,
            accelerator=accelerator,
            log=log,
            progress=progress,
            resume=resume,
        )
        task = DistillationTask(
            settings,
            teacher=teacher,
            student=student,
            mixture=mixture,
            neighbours=neighbours,
            accelerator=accelerator,
        )
        loop.train(lambda _: task.stage())
        best = loop.take_best()
        student.eval()
        cosine = best.score
        if settings.average:
            with torch.no_grad():
                for weight, before in zip(student.parameters(), initial, strict=True):
                    weight.lerp_(before, settings.average)
            cosine = float(task.evaluate(best.step).metrics["cosine"])
        overlaps = []
        if comparison is not None:
            overlaps = _compare(comparison, teacher, student, mixture, judged, progress)
        log.write("end", step=best.step, cosine=cosine)
        with weight_errors(out):
            student.save(out / QUERY_ENCODER)
        outcome = DistillationResult(best.step, cosine, len(mixture.held_out), overlaps)
        publish_run(
            out,
            [QUERY_ENCODER],
            dim=teacher.width,
            embedding_space=teacher.embedding_space,
            details={
                "distillation": settings.model_dump(mode="json"),
                "texts": {source.name: len(source.lines) for source in mixture.sources},
                "best": {"step": outcome.best_step, "cosine": outcome.cosine},
                "num_held_out": outcome.num_held_out,
                "seconds": round(loop.state.seconds, 1),
                "overlap": [each.as_details() for each in overlaps],
            },
        )
    return outcome


def _open(directory: Path, teacher: Teacher) -> IndexComparison:
    """Open the index after a check of its embedding space."""
    # The manifest is read first, since verifying the files takes longer.
    manifest = read_manifest(directory, "index")
    check_embedding_space("the teacher", teacher.embedding_space, teacher.width, manifest)
    return IndexComparison(directory)


def _compare(
    comparison: IndexComparison,
    teacher: Teacher,
    student: Student,
    mixture: TextMixture,
    judged: JudgedQueryFiles | None,
    progress: TrainingProgress,
) -> list[Overlap]:
    return comparison.measure(
        teacher.encoder,
        TorchEncoder(student.tower, student, teacher.width, teacher.embedding_space),
        mixture.texts(mixture.held_out)[:_COMPARED_ON],
        None if judged is None else (judged.queries, judged.qrels),
        progress,
    )
