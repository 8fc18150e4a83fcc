"""One step of contrastive training: its documents, loss and gradient."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from training.contrastive.batch_encoder import BatchEncoder
from training.contrastive.false_negatives import FalseNegatives
from training.objective.contrastive import Loss, ScoredBatch, StandIns, paired_scores, scores
from training.objective.negatives.sampler import (
    NO_ROW,
    NegativeSampler,
    QueryBatch,
    Rows,
    SamplerInputs,
)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The documents of a step: the rows `with_texts`, and cached ones as constants.

    `positives` (queries,) and `negatives` (queries, documents) are as in `ScoredBatch`. One of the
    cached rows for each query stands in for the gradient of their embeddings, if there are
    `stand_ins` (queries,).
    `encoded` (m,) are the rows that are encoded with gradient, ascending.
    """

    with_texts: Rows
    cached_embeddings: torch.Tensor
    positives: torch.Tensor
    negatives: torch.Tensor
    stand_ins: Rows

    encoded: Rows

    def scored(
        self, queries: torch.Tensor, documents: torch.Tensor, texts: Sequence[str]
    ) -> ScoredBatch:
        """The batch for the loss.

        :param queries: Their embeddings, (n, dim).
        :param documents: The embeddings of the rows `encoded`, (m, width).
        :param texts: The texts of the queries.
        """
        own = documents[np.searchsorted(self.encoded, self.with_texts)]
        standing_in = None
        if len(self.stand_ins):
            drawn = documents[np.searchsorted(self.encoded, self.stand_ins)]
            # Cached embeddings give a query its gradient exactly.
            standing_in = StandIns(len(self.with_texts), paired_scores(queries.detach(), drawn))
        found = scores(queries, own), scores(queries, self.cached_embeddings)
        every = torch.cat(found, dim=1)
        return ScoredBatch(
            every, self.positives, self.negatives, standing_in, texts, self.with_texts
        )


@dataclass(frozen=True, slots=True)
class CandidateSource:
    """Chooses the documents of each step.

    With `shared`, each query has the negatives of all queries. Passages that may be relevant by
    `false_negatives` are no negatives. With a `gradient` of cached negatives, one of them is drawn
    for each query from the softmax of its scores.
    """

    inputs: SamplerInputs
    sampler: NegativeSampler
    shared: bool = False
    false_negatives: FalseNegatives | None = None
    re_encodes: bool = True

    def candidates(
        self, numbers: NDArray[np.int64], positives: Rows, queries: torch.Tensor
    ) -> Candidates:
        """The documents for queries with these `numbers` (n,), `positives` (n,) and embeddings.

        :raises TrainingDataError: When all negatives of all queries may be relevant.
        """
        drawn = self.sampler.draw(QueryBatch(numbers, positives, queries))
        others = np.setdiff1d(drawn[drawn != NO_ROW], positives)
        cached, embeddings = others[:0], queries[:0]
        if (found := self.sampler.cached(others)) is not None:
            kept = ~found[:, 0].isnan().cpu().numpy()
            cached, embeddings = others[kept], found[kept].to(queries)
        with_texts = np.union1d(positives, np.setdiff1d(others, cached))
        columns = torch.from_numpy(np.searchsorted(with_texts, positives)).to(queries.device)
        rows = np.concatenate((with_texts, cached))
        negatives = torch.from_numpy(self._negatives(rows, numbers, drawn)).to(queries.device)
        negatives.scatter_(1, columns.unsqueeze(1), value=False)
        if self.false_negatives is not None:
            negatives = self.false_negatives.removed(negatives, numbers, positives, rows)
        stand_ins = cached[:0]
        if self.re_encodes and len(cached):
            logits = scores(queries, embeddings) * self.inputs.scale
            logits[~negatives[:, len(with_texts) :]] = -torch.inf
            stand_ins = cached[_drawn_columns(logits)]
        encoded = np.union1d(with_texts, stand_ins)
        return Candidates(with_texts, embeddings, columns, negatives, stand_ins, encoded)

    def _negatives(self, rows: Rows, numbers: NDArray[np.int64], drawn: Rows) -> NDArray[np.bool_]:
        """Whether column j of `rows` (m,) is a negative of query i, (n, m)."""
        if self.shared:
            everyone = np.isin(rows, drawn[drawn != NO_ROW])
            return everyone[np.newaxis] & ~self.inputs.known.mask(numbers, rows)
        order = np.argsort(rows)
        lines, places = np.nonzero(drawn != NO_ROW)
        mask = np.zeros((len(numbers), len(rows)), dtype=bool)
        mask[lines, order[np.searchsorted(rows, drawn[lines, places], sorter=order)]] = True
        return mask


@dataclass(frozen=True, slots=True)
class StepResult:
    """The losses of one step, before the update of the optimiser."""

    loss: float
    collapsed_loss: float


@dataclass(frozen=True, slots=True)
class ContrastiveStep:
    """Adds the gradient of a batch's mean loss to the trained parameters."""

    encoder: BatchEncoder
    source: CandidateSource
    loss: Loss

    def __call__(self, pairs: NDArray[np.int64]) -> StepResult:
        """Take the step.

        :param pairs: Query numbers and positive rows, (n, 2).
        :raises TrainingDataError: When all negatives of all queries may be relevant.
        """
        numbers, positives = pairs.T
        inputs = self.source.inputs
        asked = [inputs.queries[number] for number in numbers]
        queries = self.encoder.queries_with_gradient(asked)
        found = self.source.candidates(numbers, positives, queries.embeddings.detach())
        documents = self.encoder.passages_with_gradient(inputs.passages, found.encoded)
        batch = found.scored(queries.embeddings, documents.embeddings, asked)
        loss = self.loss(batch)
        self.encoder.accelerator.backward(loss)
        queries.backward()
        documents.backward()
        self.source.sampler.update(found.encoded, documents.embeddings.detach())
        return StepResult(loss.item(), self.loss.collapsed(batch))


def _drawn_columns(scores: torch.Tensor) -> NDArray[np.int64]:
    """A column of each line of `scores` (n, m), drawn from its softmax (Gumbel-max trick), (n,)."""
    gumbel = -torch.empty_like(scores).exponential_().log()
    return (scores + gumbel).argmax(1).cpu().numpy()
