"""One step of contrastive training: negatives, loss and gradient of a batch."""

from dataclasses import dataclass

import numpy as np
import torch
from accelerate.utils import broadcast_object_list
from numpy.typing import NDArray

from training.data.passages import PassageTexts
from training.data.positives import KnownPositives
from training.errors import TrainingDataError
from training.loop.batch_encoder import BatchEncoder
from training.loop.false_negatives import FalseNegatives
from training.loop.late_interaction import LateInteraction
from training.objective.contrastive import (
    LossSettings,
    StandIns,
    collapsed_loss,
    contrastive_loss,
    lambda_loss,
    teacher_loss,
)
from training.objective.negatives.sampler import NO_ROW, NegativeSampler, QueryBatch, Rows
from training.objective.scores import paired_scores, scores


@dataclass(frozen=True, slots=True)
class StepResult:
    """The losses of one step, before the update of the optimiser."""

    loss: float
    collapsed_loss: float


@dataclass(frozen=True, slots=True)
class TrainingTexts:
    """Query texts by number, passages by row, and the known positives of each query.

    With `false_negatives`, a passage that may be relevant is not drawn as a negative. The `teacher`
    scores passages for the loss.
    """

    queries: list[str]
    passages: PassageTexts
    known: KnownPositives
    false_negatives: FalseNegatives | None = None
    teacher: LateInteraction | None = None


def loss_and_gradient(
    encoder: BatchEncoder,
    texts: TrainingTexts,
    sampler: NegativeSampler,
    pairs: NDArray[np.int64],
    settings: LossSettings,
) -> StepResult:
    """Add the gradient of the batch's mean loss (eq. 5) to the trained parameters.

    Each process computes the loss of the whole batch from all embeddings, and backpropagates into
    the towers for the texts that it has encoded. The gradient is the sum over the processes.

    :param pairs: Query numbers and positive rows, (n, 2).
    :raises TrainingDataError: When all negatives of all queries may be relevant.
    """
    query_numbers, positives = pairs[:, 0], pairs[:, 1]
    queries = encoder.queries_with_gradient([texts.queries[number] for number in query_numbers])
    fixed_queries = queries.embeddings.detach()
    drawn = _agreed(encoder, sampler.draw(QueryBatch(query_numbers, positives, fixed_queries)))
    encoded, cached, embeddings = _split(np.unique(positives), drawn, sampler)
    cached_embeddings = fixed_queries[:0] if embeddings is None else embeddings.to(fixed_queries)
    columns = torch.from_numpy(np.searchsorted(encoded, positives)).to(fixed_queries.device)
    rows = np.concatenate((encoded, cached))
    mask = _negatives(rows, query_numbers, drawn, texts.known, shared=settings.shared)
    negatives = torch.from_numpy(mask).to(fixed_queries.device)
    if texts.false_negatives is not None:
        negatives &= ~texts.false_negatives.mask(query_numbers, positives, rows)
    negatives.scatter_(1, columns.unsqueeze(1), value=False)
    if texts.false_negatives is not None and not negatives.any():
        raise TrainingDataError(
            "negatives.teacher_share leaves no negative of any query in a batch: raise it or leave "
            "it out"
        )
    stands_in = settings.gradient == "re-encoded" and len(cached) > 0
    stand_ins = cached[:0]
    if stands_in:
        of_cached = scores(fixed_queries, cached_embeddings) * settings.scale
        of_cached[~negatives[:, len(encoded) :]] = -torch.inf
        stand_ins = _agreed(encoder, cached[_drawn_columns(of_cached)])
    rows = np.union1d(encoded, stand_ins)
    documents = encoder.passages_with_gradient(texts.passages, rows)

    def embeddings_of(some: Rows) -> torch.Tensor:
        return documents.embeddings[np.searchsorted(rows, some)]

    of_cached = scores(fixed_queries if stands_in else queries.embeddings, cached_embeddings)
    every_score = torch.cat((scores(queries.embeddings, embeddings_of(encoded)), of_cached), dim=1)
    if settings.kind == "lambda":
        loss = lambda_loss(every_score, columns, negatives, scale=settings.scale)
        equal = torch.zeros_like(every_score)
        collapsed = lambda_loss(equal, columns, negatives, scale=settings.scale).item()
    else:
        standing_in = None
        if stands_in:
            drawn_scores = paired_scores(queries.embeddings, embeddings_of(stand_ins))
            standing_in = StandIns(len(encoded), drawn_scores)
        loss = contrastive_loss(
            every_score, columns, negatives, scale=settings.scale, stand_ins=standing_in
        )
        collapsed = collapsed_loss(negatives)
    if texts.teacher is not None:
        wanted = texts.teacher.scores(
            [texts.queries[number] for number in query_numbers], texts.passages.texts(encoded)
        )
        imitation = teacher_loss(
            every_score[:, : len(encoded)],
            columns,
            negatives[:, : len(encoded)],
            wanted,
            scale=settings.scale,
            temperature=settings.teacher_temperature,
        )
        loss = (1 - settings.teacher_weight) * loss + settings.teacher_weight * imitation
    scaler = encoder.accelerator.scaler
    (loss if scaler is None else scaler.scale(loss)).backward()
    queries.backward()
    documents.backward()
    sampler.update(rows, documents.embeddings.detach())
    return StepResult(loss.item(), collapsed)


def _agreed(encoder: BatchEncoder, rows: Rows) -> Rows:
    """The rows of the main process: differently rounded embeddings may give another draw."""
    if encoder.accelerator.num_processes > 1:
        (rows,) = broadcast_object_list([rows])
    return rows


def _split(
    positives: Rows, drawn: Rows, sampler: NegativeSampler
) -> tuple[Rows, Rows, torch.Tensor | None]:
    """The rows of a step to encode, the other rows, and the cached embeddings of these, if any."""
    others = np.setdiff1d(drawn[drawn != NO_ROW], positives)
    cached = sampler.cached(others)
    if cached is None:
        return np.union1d(positives, others), others[:0], None
    kept = ~cached[:, 0].isnan().cpu().numpy()
    return np.union1d(positives, others[~kept]), others[kept], cached[kept]


def _drawn_columns(scores: torch.Tensor) -> NDArray[np.int64]:
    """A column of each line of `scores` (n, m), drawn from its softmax (Gumbel-max trick), (n,)."""
    gumbel = -torch.empty_like(scores).exponential_().log()
    return (scores + gumbel).argmax(1).cpu().numpy()


def _negatives(
    rows: Rows,
    query_numbers: NDArray[np.int64],
    drawn: Rows,
    known: KnownPositives,
    *,
    shared: bool,
) -> NDArray[np.bool_]:
    """Whether column j of `rows` (m,) is a negative of query i, (n, m)."""
    if shared:
        everyone = np.isin(rows, drawn[drawn != NO_ROW])
        return everyone[np.newaxis] & ~known.mask(query_numbers, rows)
    order = np.argsort(rows)
    lines, places = np.nonzero(drawn != NO_ROW)
    mask = np.zeros((len(query_numbers), len(rows)), dtype=bool)
    mask[lines, order[np.searchsorted(rows, drawn[lines, places], sorter=order)]] = True
    return mask
