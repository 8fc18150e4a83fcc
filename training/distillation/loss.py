"""The losses of distillation."""

import torch
from torch.nn import functional

from training.distillation.settings import Distance


def distance(student: torch.Tensor, teacher: torch.Tensor, kind: Distance) -> torch.Tensor:
    """The mean distance between outputs (n, width), a scalar.

    "euclidean" is the squared Euclidean distance divided by the width (004, sections 2.2 and 3.3);
    "cosine" is one minus the cosine, which ignores lengths.
    """
    if kind == "cosine":
        return 1 - functional.cosine_similarity(student, teacher, dim=-1).mean()
    return functional.mse_loss(student, teacher)


def ranking_loss(
    student: torch.Tensor, teacher: torch.Tensor, documents: torch.Tensor, score_factor: float
) -> torch.Tensor:
    """The mean KL divergence of the student's ranking from the teacher's, a scalar.

    Both rank the same `documents` (m, width) by a softmax over scores. This is the contrastive loss
    of DAFT (001, equation 5) with the teacher's softmax in place of one relevant document, minus
    the constant entropy of that softmax. All rows have length 1.
    """
    wanted = functional.log_softmax(score_factor * teacher @ documents.T, dim=-1)
    found = functional.log_softmax(score_factor * student @ documents.T, dim=-1)
    return functional.kl_div(found, wanted, reduction="batchmean", log_target=True)
