"""One step: a batch of pairs, its negatives, the loss and the gradient."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list
from numpy.typing import NDArray

from training.encoding import BatchEncoder, Encoded
from training.loss import collapsed_loss, contrastive_loss
from training.negatives.sampler import NO_ROW, NegativeSampler, QueryBatch, Rows
from training.passages import PassageTexts
from training.positives import KnownPositives

NegativeGradient = Literal["re-encoded", "cached"]


@dataclass(frozen=True, slots=True)
class LossSettings:
    """How a batch becomes a loss.

    `gradient` says what drawn negatives are: "re-encoded" by the document encoder as it is now, so
    that they are pushed away too, which costs an encoding with gradient each; or "cached",
    constants that only the query encoder learns from, at the cost of a product. Drawn rows that the
    batch encodes anyway always carry gradient. `shared` shows every query all draws of the batch.
    """

    score_factor: float = 20.0
    temperature: float = 1.0
    gradient: NegativeGradient = "re-encoded"
    shared: bool = False


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one step measured, before the optimiser moved anything."""

    loss: float
    collapsed_loss: float


@dataclass(frozen=True, slots=True)
class TrainingTexts:
    """What steps read: query texts by number, passages by row, and what is relevant to what."""

    queries: list[str]
    passages: PassageTexts
    known: KnownPositives


def loss_and_gradient(
    encoder: BatchEncoder,
    texts: TrainingTexts,
    sampler: NegativeSampler,
    pairs: NDArray[np.int64],
    settings: LossSettings,
    accelerator: Accelerator,
) -> StepResult:
    """Leave the gradient of the batch's mean loss (eq. 5) in the parameters that train.

    Each process computes the whole batch's loss from all embeddings, and carries the gradient into
    the towers for the texts that it encoded itself: the sum over the processes is the gradient.

    :param pairs: Query numbers and positive rows, (n, 2).
    """
    query_numbers, positives = pairs[:, 0], pairs[:, 1]
    queries = encoder.queries_with_gradient([texts.queries[number] for number in query_numbers])
    drawn = sampler.draw(QueryBatch(query_numbers, positives, queries.embeddings.detach()))
    if accelerator.num_processes > 1:  # embeddings that were rounded otherwise may draw otherwise
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
    scaler = accelerator.scaler
    (loss if scaler is None else scaler.scale(loss)).backward()
    queries.backward()
    documents.backward()
    sampler.update(encoded_rows, documents.embeddings.detach())
    return StepResult(loss.item(), collapsed_loss(negatives))


def _with_cached(
    encoded_rows: Rows, documents: Encoded, drawn: Rows, sampler: NegativeSampler
) -> tuple[Rows, torch.Tensor]:
    """All rows of a step and their embeddings: those just encoded, then constants."""
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
