"""Scores of documents, the contrastive loss of them (001, eq. 5), and the protocol of losses."""

# The default method ignores its argument.
# ruff: noqa: ARG003

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch.nn import functional
from typing_extensions import override

from training.objective.negatives.sampler import Rows
from training.tables import Positive, Table


def scores(queries: torch.Tensor, documents: torch.Tensor) -> torch.Tensor:
    """Φ(q, d) of each query (n, dim) and each document (m, vectors · dim), (n, m).

    It is the largest inner product of the query with a vector of the document (002, section 3).
    """
    dim = queries.shape[1]
    products = queries @ documents.reshape(-1, dim).T
    if documents.shape[1] == dim:
        return products
    return products.reshape(len(queries), len(documents), documents.shape[1] // dim).amax(2)


def paired_scores(queries: torch.Tensor, documents: torch.Tensor) -> torch.Tensor:
    """Φ(q, d) of each query (n, dim) and its own document (n, vectors · dim), (n,)."""
    vectors = documents.reshape(len(queries), -1, queries.shape[1])
    return (queries.unsqueeze(1) * vectors).sum(2).amax(1)


class Scale(Table):
    """The factor of Φ(q, d) in eq. 5 is `score_factor` / `temperature`."""

    score_factor: Positive = 20.0
    temperature: Positive = 1.0

    @property
    def scale(self) -> float:
        """The factor."""
        return self.score_factor / self.temperature


@dataclass(frozen=True, slots=True)
class StandIns:
    """The gradient of cached negatives (Lindgren et al. 2021, "Efficient Training of Retrieval
    Models using Negative Cache").

    The columns from `first` on have no gradient of documents. `scores` (queries,) has the score of
    one re-encoded document for each query, drawn from the softmax over these columns, without a
    gradient of the query. Its gradient, times the softmax probability of all columns, is their
    gradient in expectation, if the cached embeddings are from the current encoder.
    """

    first: int
    scores: torch.Tensor


@dataclass(frozen=True, slots=True)
class ScoredBatch:
    """Queries, and the scores of the documents that each of them has.

    `scores` (queries, documents) are Φ(q, d), and `positives` (queries,) the column of each query's
    d⁺. `negatives` (queries, documents) says whether a document is in D⁻ of a query. With
    `stand_ins`, the last columns have no gradient of documents. `queries` are the texts of the
    queries, and `rows` the passage rows of the first columns; the other columns are cached.
    """

    scores: torch.Tensor
    positives: torch.Tensor
    negatives: torch.Tensor
    stand_ins: StandIns | None = None
    queries: Sequence[str] = ()
    rows: Rows = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def counted(self) -> torch.Tensor:
        """Whether a document is the positive or a negative of a query, (queries, documents)."""
        return self.negatives.scatter(1, self.positives.unsqueeze(1), value=True)

    def logits(self, scale: float) -> torch.Tensor:
        """The scores times `scale` in float32, −∞ for documents that do not count for a query."""
        return (self.scores.float() * scale).masked_fill(~self.counted, -torch.inf)


class Loss(Protocol):
    """A loss over scored batches."""

    def __call__(self, batch: ScoredBatch) -> torch.Tensor:
        """The mean loss of the queries, a scalar."""
        ...

    def collapsed(self, batch: ScoredBatch) -> float:
        """The loss if all documents had the same embedding."""
        ...


class NamedLoss(Loss, Protocol):
    """A loss that a recipe can name. It is made of [loss], in which it has settings of its own."""

    def __init__(self, settings: Any) -> None: ...

    @classmethod
    def check(cls, recipe: Any) -> None:
        """Check that the loss goes together with the other settings of a recipe.

        :raises ValueError: When it does not.
        """
        return


class SoftmaxLoss(NamedLoss):
    """The mean −log of the softmax probability of each query's positive (eq. 5), in float32.

    The softmax of a query is over its positive and its negatives. Stand-ins give a gradient to the
    documents of columns that have none; the loss itself is the same.
    """

    def __init__(self, settings: Scale) -> None:
        self._scale = settings.scale

    @override
    def __call__(self, batch: ScoredBatch) -> torch.Tensor:
        logits = batch.logits(self._scale)
        loss = functional.cross_entropy(logits, batch.positives)
        if batch.stand_ins is None:
            return loss
        shares = logits.detach().softmax(1)[:, batch.stand_ins.first :].sum(1)
        drawn = batch.stand_ins.scores.float()
        return loss + (shares * self._scale * (drawn - drawn.detach())).mean()

    @override
    def collapsed(self, batch: ScoredBatch) -> float:
        """The mean of ln(|D⁻| + 1) (eq. 7)."""
        return float(batch.negatives.sum(1).add(1).float().log().mean())
