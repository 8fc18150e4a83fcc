"""The contrastive loss of 001, eq. 5."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch.nn import functional

NegativeGradient = Literal["re-encoded", "cached"]


@dataclass(frozen=True, slots=True)
class LossSettings:
    """The settings of the contrastive loss.

    With the `gradient` "re-encoded", drawn negatives are encoded by the current document encoder
    and get a gradient. With "cached" they are constants from the cache: this costs no encoding, but
    only the query encoder learns from them. Drawn passages that are positives in the batch always
    get a gradient. With `shared`, each query has the negatives of all queries in the batch.
    """

    score_factor: float = 20.0
    temperature: float = 1.0
    gradient: NegativeGradient = "re-encoded"
    shared: bool = False


def contrastive_loss(
    scores: torch.Tensor,
    positives: torch.Tensor,
    negatives: torch.Tensor,
    *,
    score_factor: float = 20.0,
    temperature: float = 1.0,
) -> torch.Tensor:
    """The mean −log of the softmax probability of each query's positive (eq. 5).

    The softmax of a query is over its positive and its negatives.

    :param scores: Φ(q, d), (queries, documents).
    :param positives: The column of each query's d⁺, (queries,).
    :param negatives: Whether document j is in D⁻ of query i, (queries, documents).
    :param score_factor: The factor of the scores; 20 in section 5.3.2.
    :param temperature: The divisor of the scores; 1 in section 5.3.2.
    :returns: The mean over the queries, in float32.
    """
    counted = negatives.scatter(1, positives.unsqueeze(1), value=True)
    logits = scores.float() * (score_factor / temperature)
    return functional.cross_entropy(logits.masked_fill(~counted, -torch.inf), positives)


def collapsed_loss(negatives: torch.Tensor) -> float:
    """The loss if all documents have the same embedding: the mean of ln(|D⁻| + 1) (eq. 7).

    :param negatives: As for `contrastive_loss`, without d⁺, (queries, documents).
    """
    return float(negatives.sum(1).add(1).float().log().mean())
