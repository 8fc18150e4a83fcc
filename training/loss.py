"""The contrastive loss of 001, eq. 5."""

import torch
from torch.nn import functional


def contrastive_loss(
    scores: torch.Tensor,
    positives: torch.Tensor,
    negatives: torch.Tensor,
    *,
    score_factor: float = 20.0,
    temperature: float = 1.0,
) -> torch.Tensor:
    """−log of the softmax weight of each query's positive among it and its negatives (eq. 5).

    Each row is a sum over its own documents alone: negatives that other queries drew do not count
    unless `negatives` says so.

    :param scores: Φ(q, d), (queries, documents).
    :param positives: The column of each query's d⁺, (queries,).
    :param negatives: Whether document j is in D⁻ of query i, (queries, documents).
    :param score_factor: What scores are multiplied by; 20 in section 5.3.2.
    :param temperature: What they are divided by; 1 in section 5.3.2.
    :returns: The mean over the queries, in float32.
    """
    counted = negatives.scatter(1, positives.unsqueeze(1), value=True)
    logits = scores.float() * (score_factor / temperature)
    return functional.cross_entropy(logits.masked_fill(~counted, -torch.inf), positives)


def collapsed_loss(negatives: torch.Tensor) -> float:
    """The loss when all documents look alike: the mean of ln(|D⁻| + 1) over the queries (eq. 7).

    :param negatives: As for `contrastive_loss`, d⁺ not among them, (queries, documents).
    """
    return float(negatives.sum(1).add(1).float().log().mean())
