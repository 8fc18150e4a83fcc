"""The contrastive loss of 001, eq. 5."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch.nn import functional

NegativeGradient = Literal["re-encoded", "cached"]
LossKind = Literal["softmax", "lambda"]


@dataclass(frozen=True, slots=True)
class LossSettings:
    """The settings of the contrastive loss.

    Negatives that a cache keeps count with their cached embeddings. With the `gradient`
    "re-encoded", one of them for each query is encoded again, and its gradient stands for theirs
    (`StandIns`). With "cached" they are constants: this costs no encoding, but only the query
    encoder learns from them. All other negatives, and passages that are positives in the batch, are
    encoded and have a gradient. With `shared`, each query has the negatives of all queries in the
    batch.

    The `kind` "softmax" is eq. 5, and "lambda" a pairwise loss by ranks (`lambda_loss`). A share of
    the loss is by the scores of a teacher (`teacher_loss`).
    """

    kind: LossKind = "softmax"
    score_factor: float = 20.0
    temperature: float = 1.0
    gradient: NegativeGradient = "re-encoded"
    shared: bool = False
    teacher_weight: float = 0.0
    teacher_temperature: float = 0.25

    @property
    def scale(self) -> float:
        """The factor of Φ(q, d) in eq. 5."""
        return self.score_factor / self.temperature


@dataclass(frozen=True, slots=True)
class StandIns:
    """The gradient of cached negatives (Lindgren et al. 2021, "Efficient Training of Retrieval
    Models using Negative Cache").

    The scores of the columns from `first` on have no gradient. `scores` (queries,) has the score of
    one re-encoded document for each query, drawn from the softmax over these columns. Its gradient,
    times the softmax probability of all columns, is their gradient in expectation, if the cached
    embeddings are from the current encoder.
    """

    first: int
    scores: torch.Tensor


def contrastive_loss(
    scores: torch.Tensor,
    positives: torch.Tensor,
    negatives: torch.Tensor,
    *,
    scale: float = 20.0,
    stand_ins: StandIns | None = None,
) -> torch.Tensor:
    """The mean −log of the softmax probability of each query's positive (eq. 5).

    The softmax of a query is over its positive and its negatives.

    :param scores: Φ(q, d), (queries, documents).
    :param positives: The column of each query's d⁺, (queries,).
    :param negatives: Whether document j is in D⁻ of query i, (queries, documents).
    :param stand_ins: The gradient of columns that have none; the loss itself is the same.
    :param scale: The factor of the scores; 20 in section 5.3.2.
    :returns: The mean over the queries, in float32.
    """
    counted = negatives.scatter(1, positives.unsqueeze(1), value=True)
    logits = (scores.float() * scale).masked_fill(~counted, -torch.inf)
    loss = functional.cross_entropy(logits, positives)
    if stand_ins is None:
        return loss
    shares = logits.detach().softmax(1)[:, stand_ins.first :].sum(1)
    drawn = stand_ins.scores.float()
    return loss + (shares * scale * (drawn - drawn.detach())).mean()


def lambda_loss(
    scores: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor, *, scale: float = 20.0
) -> torch.Tensor:
    """The pairwise loss of ADORE: Σ Δ · log(1 + exp(s⁻ − s⁺)) over the negatives of a query.

    Δ is how much nDCG would change if the positive and the negative changed places in the ranking
    of both and all other negatives (Zhan et al. 2021, section 4.2; LambdaRank). Negatives that rank
    high, and positives that rank low, weigh most. Arguments as for `contrastive_loss`.
    """
    counted = negatives.scatter(1, positives.unsqueeze(1), value=True)
    logits = (scores.float() * scale).masked_fill(~counted, -torch.inf)
    ranks = logits.detach().argsort(dim=1, descending=True, stable=True).argsort(dim=1) + 1
    gains = 1 / torch.log2(ranks + 1.0)
    changes = (gains.gather(1, positives.unsqueeze(1)) - gains).abs()
    margins = logits.masked_fill(~negatives, 0.0) - logits.gather(1, positives.unsqueeze(1))
    losses = changes * functional.softplus(margins) * negatives
    return losses.sum(1).mean()


def teacher_loss(
    scores: torch.Tensor,
    positives: torch.Tensor,
    negatives: torch.Tensor,
    teacher: torch.Tensor,
    *,
    scale: float = 20.0,
    temperature: float = 0.25,
) -> torch.Tensor:
    """KL(teacher ‖ student) of the softmaxes over each query's positive and negatives, the mean.

    These are the in-batch scores of TCT-ColBERT (Lin et al., "In-Batch Negatives for Knowledge
    Distillation with Tightly-Coupled Teachers for Dense Retrieval", 2021, section 3).

    :param teacher: The teacher's scores (queries, documents), which are divided by `temperature`.
        Other arguments as for `contrastive_loss`.
    """
    left_out = ~negatives.scatter(1, positives.unsqueeze(1), value=True)
    found = (scores.float() * scale).masked_fill(left_out, -torch.inf).log_softmax(1)
    wanted = (teacher.float() / temperature).masked_fill(left_out, -torch.inf).log_softmax(1)
    differences = (wanted - found).masked_fill(left_out, 0.0)
    return (wanted.exp() * differences).sum(1).mean()


def collapsed_loss(negatives: torch.Tensor) -> float:
    """The loss if all documents have the same embedding: the mean of ln(|D⁻| + 1) (eq. 7).

    :param negatives: As for `contrastive_loss`, without d⁺, (queries, documents).
    """
    return float(negatives.sum(1).add(1).float().log().mean())
