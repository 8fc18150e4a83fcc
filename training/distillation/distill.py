"""Distils a small query encoder from a teacher, in the embedding space of the teacher."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Unpack

import numpy as np
import torch
from accelerate import Accelerator
from torch.nn import functional

from swiftlet.encoders.encoder import Encoder
from swiftlet.encoders.reranker import OnnxReranker
from swiftlet.errors import InvalidArgumentError, ManifestError
from swiftlet.manifest import check_embedding_space, read_manifest
from training.distillation.overlap import IndexComparison, Overlap
from training.distillation.pairs import IndexPairs, read_pairs
from training.distillation.ranking import RerankedTargets
from training.distillation.relevance import RelevanceTerm, Relevant, relevant_passages
from training.distillation.settings import LOOKUP, Distillation, Judged
from training.distillation.student import Student
from training.distillation.task import DistillationTask, OnIndex
from training.distillation.teacher import Targets, Teacher, TorchEncoder
from training.distillation.texts import TextMixture, read_texts
from training.distillation.verdict import Verdict, figure_of, judge, own_encoder
from training.loop.log import TrainingProgress
from training.loop.loop import TrainingLoop
from training.loop.run import Start, training_run
from training.model.trained import QUERY_ENCODER

_COMPARED_ON = 500


@dataclass(frozen=True, slots=True)
class DistillationResult:
    """The result of a run.

    `cosine` is the mean cosine with the teacher on the held-out texts, at the best step. `overlaps`
    compare the documents that student and teacher find in the index. A student that has learnt from
    the index has a `verdict`.
    """

    best_step: int
    cosine: float
    num_held_out: int
    overlaps: list[Overlap]
    verdict: Verdict | None = None


def distill(
    settings: Distillation,
    out: Path,
    *,
    teacher_embeddings: Path | None = None,
    test: Judged | None = None,
    compare: bool = True,
    progress: TrainingProgress,
    **start: Unpack[Start],
) -> DistillationResult:
    """Train a student in the directory `out`.

    At the end `out` has the Sentence Transformers directory `query_encoder/`.

    :param teacher_embeddings: The directory of the embedding cache, which other runs can share; by
        default `teacher-embeddings` beside `out`.
    :param test: Queries and judgements to measure nDCG@10 with at the end; needs an index.
    :param compare: Compare the documents that teacher and student find in the index at the end.
    :raises RetrievalError: When the settings, a model, a text, the index or `out` are invalid, or
        the run cannot continue: see `training.errors`.
    """
    if test is not None and settings.index is None:
        raise InvalidArgumentError("judgements are for the documents of an index: name the index")
    kept = teacher_embeddings or out.parent / "teacher-embeddings"
    with training_run(
        settings,
        out,
        settings.optimiser(),
        seed=settings.seed,
        may_change=settings.may_change(),
        advice=f"start again with a batch size below {settings.batch_size}",
        progress=progress,
        **start,
    ) as run:
        accelerator = run.accelerator
        teacher, pairs = _targets(settings, kept, accelerator), None
        student = _student(settings, teacher).to(accelerator.device)
        served = TorchEncoder(student.tower, student, teacher.width, teacher.embedding_space)
        comparison = None
        if settings.index is not None:
            comparison = _open(Path(settings.index), teacher, teacher.encoder or served)
            if settings.pairs:
                progress.begin("The index's texts and vectors", None)
                pairs = read_pairs(Path(settings.index), comparison.manifest, settings.seed)
        on_index = _ranked(settings, comparison)
        relevant = {} if comparison is None else relevant_passages(settings.judged, comparison)
        mixture = _mixture(settings, relevant, pairs)
        teacher.prepare(mixture, progress)
        if comparison is not None and relevant:
            on_index["relevance"] = _relevance(settings, comparison, relevant, teacher, mixture)
        if pairs is not None and settings.learns_scores and pairs.passages.outputs is not None:
            wanted = torch.from_numpy(pairs.passages.outputs[~pairs.is_held_out])
            on_index["passages"] = functional.normalize(wanted, dim=-1)
        loop = TrainingLoop(run, student, teacher.width, average=settings.average)
        task = DistillationTask(
            settings,
            teacher=teacher,
            student=student,
            mixture=mixture,
            accelerator=accelerator,
            describe=progress.describe,
            **on_index,
        )
        if comparison is not None and pairs is not None and compare:
            task.figure = partial(figure_of, comparison, served, pairs)
        if pairs is not None and not (loop.state.step or start.get("finish")):
            progress.note(task.expected())
        loop.train(lambda _: task.stage())
        best = loop.take_best()
        student.eval()
        final = {"step": best.step, "cosine": task.evaluate(best.step).metrics["cosine"]}
        overlaps, verdict = [], None
        reference = teacher.encoder or (
            None if pairs is None else own_encoder(Path(str(settings.index)), teacher)
        )
        if comparison is not None and compare and reference is not None:
            texts = mixture.texts(mixture.held_out)[:_COMPARED_ON]
            if pairs is not None and mixture.num_asked == 0:
                texts = [each.text for each in pairs.known_items] or texts
            overlaps = comparison.measure(reference, served, texts, test, progress)
        if comparison is not None and pairs is not None and compare:
            progress.begin("The verdict", None)
            unknown = student.tower.unknown_share(pairs.held_out_lines)
            asked, figures = mixture.num_asked, {"before": task.start, "trained": task.trained}
            verdict = judge(
                comparison, served, pairs, asked, reference, overlaps, unknown, **figures
            )
        details = {
            "distillation": settings.model_dump(mode="json"),
            "texts": {source.name: len(source.lines) for source in mixture.sources},
            "best": final,
            "num_held_out": len(mixture.held_out),
            "seconds": round(loop.state.seconds, 1),
            "overlap": [each.as_details() for each in overlaps],
            **({} if verdict is None else {"verdict": verdict.as_details()}),
        }
        loop.publish(
            lambda folder: student.save(folder / QUERY_ENCODER),
            final,
            embedding_space=teacher.embedding_space,
            details=details,
        )
    result = best.step, final["cosine"], len(mixture.held_out), overlaps
    return DistillationResult(*result, verdict)


def _ranked(settings: Distillation, comparison: IndexComparison | None) -> OnIndex:
    """What the student learns to rank, if it does."""
    if comparison is not None and settings.ranking_teacher is not None:
        return {"reranked": _reranked(settings, settings.ranking_teacher, comparison)}
    if comparison is not None and settings.ranking:
        return {"neighbours": comparison.neighbours(settings.documents)}
    return {}


def _targets(settings: Distillation, kept: Path, accelerator: Accelerator) -> Targets:
    if settings.teacher is not None:
        index = None if settings.index is None else Path(settings.index)
        return Teacher.load(settings.teacher_tower(), kept, accelerator, index)
    manifest = read_manifest(Path(str(settings.index)), "index")
    return Targets(manifest.dim, manifest.embedding_space)


def _mixture(
    settings: Distillation, relevant: Mapping[str, Relevant], pairs: IndexPairs | None
) -> TextMixture:
    """All texts with known outputs; a log without a teacher has none."""
    if pairs is None:
        return read_texts(settings, relevant)
    others = settings.queries or settings.corpora or relevant
    has_others = settings.teacher is not None and others
    return pairs.mixture(read_texts(settings, relevant) if has_others else None, settings)


def _open(directory: Path, teacher: Targets, encoder: Encoder) -> IndexComparison:
    """Open the index after a check of its embedding space."""
    # The manifest is read first, since verifying the files takes longer.
    manifest = read_manifest(directory, "index")
    check_embedding_space("the teacher", teacher.embedding_space, teacher.width, manifest)
    return IndexComparison(directory, encoder)


def _student(settings: Distillation, teacher: Targets) -> Student:
    if settings.student != LOOKUP:
        return Student.make(settings, teacher.width)
    if teacher.tower is None:
        raise InvalidArgumentError(
            f"{settings.teacher} is no checkpoint with weights: a new look-up table begins with "
            "the model that it was made from, or name a look-up encoder as the student"
        )
    return Student.lookup(teacher.tower, settings.max_tokens)


def _reranked(
    settings: Distillation, reranker: str, comparison: IndexComparison
) -> RerankedTargets:
    queries = relevant_passages([j for j in settings.judged if not j.sentences], comparison)
    if not queries:
        raise InvalidArgumentError(
            "ranking_teacher scores passages for judged queries, but there are none: pass them "
            "with their qrels, or leave it out"
        )
    try:
        loaded = OnnxReranker.load(Path(reranker))
    except ManifestError as error:
        raise InvalidArgumentError(
            f"ranking_teacher: {error}; name a re-ranker that swiftlet export wrote"
        ) from error
    return RerankedTargets(
        loaded,
        comparison.neighbours(settings.documents),
        comparison.store,
        queries,
        settings,
    )


def _relevance(
    settings: Distillation,
    comparison: IndexComparison,
    relevant: Mapping[str, Relevant],
    teacher: Targets,
    mixture: TextMixture,
) -> RelevanceTerm:
    """The contrastive term of the judged queries, the last source of the mixture."""
    judged = np.arange(len(mixture.lines) - len(relevant), len(mixture.lines))
    expected = teacher.outputs(mixture, judged)
    return RelevanceTerm.of_index(relevant, comparison.index, expected, settings)
