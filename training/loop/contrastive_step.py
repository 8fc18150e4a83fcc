"""One step of contrastive training: negatives, loss and gradient of a batch."""

from dataclasses import dataclass

import numpy as np
import torch
from accelerate.utils import broadcast_object_list
from numpy.typing import NDArray

from training.data.passages import PassageTexts
from training.data.positives import KnownPositives
from training.loop.batch_encoder import BatchEncoder, GradCacheEmbeddings
from training.objective.contrastive import LossSettings, collapsed_loss, contrastive_loss
from training.objective.negatives.sampler import NO_ROW, NegativeSampler, QueryBatch, Rows


@dataclass(frozen=True, slots=True)
class StepResult:
    """The losses of one step, before the update of the optimiser."""

    loss: float
    collapsed_loss: float


@dataclass(frozen=True, slots=True)
class TrainingTexts:
    """Query texts by number, passages by row, and the known positives of each query."""

    queries: list[str]
    passages: PassageTexts
    known: KnownPositives


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
    """
    query_numbers, positives = pairs[:, 0], pairs[:, 1]
    queries = encoder.queries_with_gradient([texts.queries[number] for number in query_numbers])
    drawn = sampler.draw(QueryBatch(query_numbers, positives, queries.embeddings.detach()))
    if (
        encoder.accelerator.num_processes > 1
    ):  # differently rounded embeddings may give another draw
        (drawn,) = broadcast_object_list([drawn])
    encoded_rows = np.unique(positives)
    if settings.gradient == "re-encoded":
        encoded_rows = np.union1d(encoded_rows, drawn[drawn != NO_ROW])
    documents = encoder.passages_with_gradient(texts.passages, encoded_rows)
    rows, embeddings = _with_cached(encoded_rows, documents, drawn, sampler)
    device = embeddings.device
    negatives = torch.from_numpy(
        _negatives(rows, query_numbers, drawn, texts.known, shared=settings.shared)
    ).to(device)
    columns = torch.from_numpy(np.searchsorted(encoded_rows, positives)).to(device)
    negatives[torch.arange(len(pairs), device=device), columns] = False
    loss = contrastive_loss(
        queries.embeddings @ embeddings.T,
        columns,
        negatives,
        score_factor=settings.score_factor,
        temperature=settings.temperature,
    )
    scaler = encoder.accelerator.scaler
    (loss if scaler is None else scaler.scale(loss)).backward()
    queries.backward()
    documents.backward()
    sampler.update(encoded_rows, documents.embeddings.detach())
    return StepResult(loss.item(), collapsed_loss(negatives))


def _with_cached(
    encoded_rows: Rows, documents: GradCacheEmbeddings, drawn: Rows, sampler: NegativeSampler
) -> tuple[Rows, torch.Tensor]:
    """All rows of a step and their embeddings: first the encoded rows, then cached constants."""
    constants = np.setdiff1d(drawn[drawn != NO_ROW], encoded_rows)
    if not len(constants):
        return encoded_rows, documents.embeddings
    cached = sampler.cached(constants)
    if cached is None:
        raise ValueError("this sampler keeps no embeddings: its negatives must be re-encoded")
    cached = cached.to(documents.embeddings)
    rows = np.concatenate((encoded_rows, constants))
    return rows, torch.cat((documents.embeddings, cached))


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
