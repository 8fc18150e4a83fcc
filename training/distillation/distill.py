"""A teacher and texts to a small query encoder in the teacher's embedding space."""

import shutil
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch

from retrieval.errors import InvalidArgumentError
from retrieval.manifest import Manifest, describe_files, read_manifest, write_manifest
from retrieval.searcher import check_embedding_space
from training.context import BEST, CHECKPOINT, TrainingProgress
from training.devices import make_accelerator, processes
from training.directory import RECIPE_FILE, run_directory
from training.distillation.agreement import Agreement, IndexAgreement, TorchEncoder
from training.distillation.neighbours import Neighbours
from training.distillation.run import DistillationContext, DistillationRun, Progressed
from training.distillation.settings import Distillation
from training.distillation.student import Student
from training.distillation.teacher import Teacher
from training.distillation.texts import TextMixture, read_texts
from training.log import FILE_NAME as LOG_FILE
from training.log import TrainingLog
from training.memory import memory_errors
from training.state_files import weight_errors
from training.trained import KIND, QUERY_ENCODER

_COMPARED_ON = 500


@dataclass(frozen=True, slots=True)
class Judged:
    """Queries, qrels of an index's documents, and where they are."""

    queries: Path
    qrels: Path


@dataclass(frozen=True, slots=True)
class Distilled:
    """What a run ended with: its best step, the mean cosine with the teacher on texts held out, and
    what the student finds in the index of what the teacher finds.
    """

    best_step: int
    cosine: float
    num_held_out: int
    agreements: list[Agreement]


def distill(
    settings: Distillation,
    out: Path,
    *,
    teacher_embeddings: Path | None = None,
    judged: Judged | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: TrainingProgress,
) -> Distilled:
    """Train a student and keep everything in `out`.

    From its first step on a run has `recipe.json`, `metrics.jsonl` and `checkpoint/` there; when it
    is done, `query_encoder/`, a Sentence Transformers directory, and last of all `manifest.json`,
    without which it is no artefact.

    :param teacher_embeddings: Where what the teacher said is kept for other runs; by default
        `teacher-embeddings` beside `out`.
    :param judged: Queries and judgements to measure nDCG@10 by; needs an index.
    :param resume: Go on from the checkpoint of an earlier process; start where there is none.
    :param overwrite: Remove an earlier run first.
    :raises RetrievalError: When the settings, a model, a text, the index or `out` are not what they
        must be, or the run cannot go on: see `training.errors`.
    """
    if judged is not None and settings.index is None:
        raise InvalidArgumentError("judgements are of an index's documents: name the index")
    if processes().num_processes > 1:
        raise InvalidArgumentError("a distillation runs in one process, not under torchrun")
    kept = teacher_embeddings or out.parent / "teacher-embeddings"
    advice = f"begin anew with a batch size below {settings.batch_size}"
    with (
        run_directory(out, settings, settings.may_change(), resume=resume, overwrite=overwrite),
        memory_errors(advice, out),
    ):
        accelerator = make_accelerator(settings.precision, settings.batch_size)
        torch.manual_seed(settings.seed)
        teacher = Teacher.load(settings.teacher_tower(), kept, accelerator)
        agreement = None if settings.index is None else _open(Path(settings.index), teacher)
        student = Student.make(settings, teacher.width).to(accelerator.device)
        mixture = read_texts(settings)
        teacher.prepare(mixture, progress)
        neighbours = None
        if agreement is not None and settings.ranking:
            neighbours = Neighbours(agreement.index, settings.documents)
        log = TrainingLog(out)
        run = DistillationRun(
            DistillationContext(
                settings=settings,
                directory=out,
                teacher=teacher,
                student=student,
                mixture=mixture,
                neighbours=neighbours,
                accelerator=accelerator,
                progress=progress,
                log=log,
            ),
            resume=resume,
        )
        reached = run.run()
        student.eval()
        agreements = []
        if agreement is not None:
            agreements = _compare(agreement, teacher, student, mixture, judged, progress)
        log.write("end", step=reached.best_step, cosine=reached.best_cosine)
        with weight_errors(out):
            student.save(out / QUERY_ENCODER)
        outcome = Distilled(
            reached.best_step, reached.best_cosine, len(mixture.held_out), agreements
        )
        _publish(out, settings, teacher, mixture, outcome, reached)
    return outcome


def _open(directory: Path, teacher: Teacher) -> IndexAgreement:
    """Open the index, if it is of the teacher's embedding space."""
    # First what is quick to refuse.
    manifest = read_manifest(directory, "index")
    check_embedding_space("the teacher", teacher.embedding_space, teacher.width, manifest)
    return IndexAgreement(directory)


def _compare(
    agreement: IndexAgreement,
    teacher: Teacher,
    student: Student,
    mixture: TextMixture,
    judged: Judged | None,
    progress: TrainingProgress,
) -> list[Agreement]:
    space, dim = teacher.embedding_space, teacher.width
    return agreement.measure(
        TorchEncoder(teacher.tower, teacher.tower, dim, space),
        TorchEncoder(student.tower, student, dim, space),
        mixture.texts(mixture.held_out)[:_COMPARED_ON],
        None if judged is None else (judged.queries, judged.qrels),
        progress,
    )


def _publish(
    out: Path,
    settings: Distillation,
    teacher: Teacher,
    mixture: TextMixture,
    outcome: Distilled,
    reached: Progressed,
) -> None:
    encoder = out / QUERY_ENCODER
    files = [path.relative_to(out).as_posix() for path in encoder.rglob("*") if path.is_file()]
    manifest = Manifest(
        kind=KIND,
        dim=teacher.width,
        embedding_space=teacher.embedding_space,
        files=describe_files(out, [LOG_FILE, RECIPE_FILE, *files]),
        created_by=f"swiftlet {version('swiftlet-retrieval')}",
        details={
            "distillation": settings.model_dump(mode="json"),
            "texts": {source.name: len(source.lines) for source in mixture.sources},
            "best": {"step": outcome.best_step, "cosine": outcome.cosine},
            "num_held_out": outcome.num_held_out,
            "seconds": round(reached.seconds, 1),
            "agreement": [each.as_details() for each in outcome.agreements],
            "made_with": {
                package: version(package)
                for package in ("torch", "transformers", "sentence-transformers", "accelerate")
            },
        },
    )
    write_manifest(out, manifest)
    # Only now that the result is whole.
    for name in (CHECKPOINT, BEST):
        shutil.rmtree(out / name, ignore_errors=True)
