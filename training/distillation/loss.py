"""The losses of distillation."""

import torch
from torch.nn import functional

from training.distillation.settings import Distance, RankingLoss


def distance(student: torch.Tensor, teacher: torch.Tensor, kind: Distance) -> torch.Tensor:
    """The mean distance between outputs (n, width), a scalar.

    "euclidean" is the squared Euclidean distance divided by the width (004, sections 2.2 and 3.3);
    "cosine" is one minus the cosine, which ignores lengths.
    """
    if kind == "cosine":
        return 1 - functional.cosine_similarity(student, teacher, dim=-1).mean()
    return functional.mse_loss(student, teacher)


def ranking_loss(
    student: torch.Tensor,
    teacher: torch.Tensor,
    documents: torch.Tensor,
    score_factor: float,
    kind: RankingLoss = "kl",
) -> torch.Tensor:
    """How the student's scores of `documents` (m, width) differ from the teacher's, a scalar.

    All rows have length 1, and `score_factor` multiplies all scores.
    """
    wanted, found = (score_factor * each @ documents.T for each in (teacher, student))
    return divergence(found, wanted, kind)


def divergence(found: torch.Tensor, wanted: torch.Tensor, kind: RankingLoss) -> torch.Tensor:
    """How the scores (n, m) of m documents for n texts differ from the wanted ones, a scalar.

    "kl" is the mean KL divergence of their softmaxes. This is the contrastive loss of DAFT (001,
    equation 5) with the wanted softmax in place of one relevant document, minus the constant
    entropy of that softmax. "margin_mse" is the mean squared difference of their margins between
    any two documents (Hofstätter et al., "Improving Efficient Neural Ranking Models with
    Cross-Architecture Knowledge Distillation", 2020, section 3): half of it, since it is then the
    variance of the differences.
    """
    if kind == "margin_mse":
        return (found - wanted).var(-1).mean()
    wanted, found = (functional.log_softmax(each, dim=-1) for each in (wanted, found))
    return functional.kl_div(found, wanted, reduction="batchmean", log_target=True)
