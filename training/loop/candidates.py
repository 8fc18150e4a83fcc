"""The passages that a batch of queries is scored against, with and without gradient."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from accelerate.utils import broadcast_object_list
from numpy.typing import NDArray

from training.data.passages import PassageTexts
from training.data.positives import KnownPositives
from training.loop.false_negatives import FalseNegatives
from training.objective.contrastive import ScoredBatch, StandIns
from training.objective.negatives.sampler import NO_ROW, NegativeSampler, QueryBatch, Rows
from training.objective.scores import paired_scores, scores


@dataclass(frozen=True, slots=True)
class TrainingTexts:
    """Query texts by number, passages by row, and the known positives of each query."""

    queries: Sequence[str]
    passages: PassageTexts
    known: KnownPositives


@dataclass(frozen=True, slots=True)
class Candidates:
    """The documents of a step: the rows `with_texts`, and the rows `cached` as constants.

    `positives` (queries,) and `negatives` (queries, documents) are as in `ScoredBatch`. One of the
    cached rows for each query stands in for their gradient, if there are `stand_ins` (queries,).
    """

    with_texts: Rows
    cached: Rows
    cached_embeddings: torch.Tensor
    positives: torch.Tensor
    negatives: torch.Tensor
    stand_ins: Rows

    @property
    def encoded(self) -> Rows:
        """The rows (m,) that are encoded with gradient, ascending."""
        return np.union1d(self.with_texts, self.stand_ins)

    def scored(
        self, queries: torch.Tensor, documents: torch.Tensor, texts: Sequence[str]
    ) -> ScoredBatch:
        """The batch for the loss.

        :param queries: Their embeddings, (n, dim).
        :param documents: The embeddings of the rows `encoded`, (m, width).
        :param texts: The texts of the queries.
        """
        own = documents[np.searchsorted(self.encoded, self.with_texts)]
        standing_in, learning = None, queries
        if len(self.stand_ins):
            drawn = documents[np.searchsorted(self.encoded, self.stand_ins)]
            standing_in = StandIns(len(self.with_texts), paired_scores(queries, drawn))
            learning = queries.detach()
        found = scores(queries, own), scores(learning, self.cached_embeddings)
        every = torch.cat(found, dim=1)
        return ScoredBatch(
            every, self.positives, self.negatives, standing_in, texts, self.with_texts
        )


@dataclass(frozen=True, slots=True)
class CandidateSource:
    """Chooses the documents of each step.

    With `shared`, each query has the negatives of all queries. Passages that may be relevant by
    `false_negatives` are no negatives. With a `gradient` of cached negatives, one of them is drawn
    for each query from the softmax of its scores, which are multiplied by `scale`.
    """

    texts: TrainingTexts
    sampler: NegativeSampler
    shared: bool = False
    false_negatives: FalseNegatives | None = None
    re_encodes: bool = True
    scale: float = 20.0
    num_processes: int = 1

    def candidates(
        self, numbers: NDArray[np.int64], positives: Rows, queries: torch.Tensor
    ) -> Candidates:
        """The documents for queries with these `numbers` (n,), `positives` (n,) and embeddings.

        :raises TrainingDataError: When all negatives of all queries may be relevant.
        """
        drawn = self._agreed(self.sampler.draw(QueryBatch(numbers, positives, queries)))
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
            logits = scores(queries, embeddings) * self.scale
            logits[~negatives[:, len(with_texts) :]] = -torch.inf
            stand_ins = self._agreed(cached[_drawn_columns(logits)])
        return Candidates(with_texts, cached, embeddings, columns, negatives, stand_ins)

    def _agreed(self, rows: Rows) -> Rows:
        """The rows of the main process: differently rounded embeddings may give another draw."""
        if self.num_processes > 1:
            (rows,) = broadcast_object_list([rows])
        return rows

    def _negatives(self, rows: Rows, numbers: NDArray[np.int64], drawn: Rows) -> NDArray[np.bool_]:
        """Whether column j of `rows` (m,) is a negative of query i, (n, m)."""
        if self.shared:
            everyone = np.isin(rows, drawn[drawn != NO_ROW])
            return everyone[np.newaxis] & ~self.texts.known.mask(numbers, rows)
        order = np.argsort(rows)
        lines, places = np.nonzero(drawn != NO_ROW)
        mask = np.zeros((len(numbers), len(rows)), dtype=bool)
        mask[lines, order[np.searchsorted(rows, drawn[lines, places], sorter=order)]] = True
        return mask


def _drawn_columns(scores: torch.Tensor) -> NDArray[np.int64]:
    """A column of each line of `scores` (n, m), drawn from its softmax (Gumbel-max trick), (n,)."""
    gumbel = -torch.empty_like(scores).exponential_().log()
    return (scores + gumbel).argmax(1).cpu().numpy()
