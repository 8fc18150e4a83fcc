"""Alignment in closed form: a linear map from an encoder's outputs to another's (ridge)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from training.errors import TrainingStoppedError

RATES = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0, 3.0)
"""The choices of λ, in mean squares of an input."""

Pairs = tuple[torch.Tensor, torch.Tensor]
"""Outputs (n, own width) of texts, and those wanted for them, (n, width)."""


@dataclass(frozen=True, slots=True)
class RidgeFit:
    """How a map was fitted to `num_texts`: λ, and its mean cosine on the held-out texts.

    `cosine_before` is the cosine with the map as it was. `is_small` says that there are fewer texts
    than inputs, so that λ alone holds the map.
    """

    rate: float
    cosine: float
    cosine_before: float
    num_texts: int
    is_small: bool


@torch.no_grad()
def fit_map(
    linear: nn.Linear,
    pairs: Pairs,
    held_out: Pairs,
    *,
    weights: torch.Tensor | None = None,
    keeps: bool = False,
    embed: Callable[[torch.Tensor], torch.Tensor] = lambda outputs: outputs,
) -> RidgeFit:
    """Let `linear` map outputs close to those wanted: W = (XᵀX + λI)⁻¹XᵀY, with a constant.

    λ has the best mean cosine on the `held_out` pairs.

    :param weights: Those of the n texts, (n,); by default all 1.
    :param keeps: A great λ keeps the present map, instead of 0.
    :param embed: Makes embeddings of mapped outputs, for the cosine.
    :raises TrainingStoppedError: When an output is not finite.
    """
    outputs, wanted = (_finite(each) for each in pairs)
    others, expected = (_finite(each) for each in held_out)
    before = torch.cat([linear.weight.T, linear.bias[None]]).double().cpu()
    start = before if keeps else torch.zeros_like(before)
    inputs, others = _with_one(outputs), _with_one(others)
    weighted = inputs if weights is None else weights[:, None].double() * inputs
    gram, product = inputs.T @ weighted, weighted.T @ (wanted - inputs @ start)
    scale = gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)
    device, target = linear.weight.device, embed(expected.float().to(linear.weight.device))

    def cosine(solution: torch.Tensor) -> float:
        found = embed((others @ solution).float().to(device))
        return float(functional.cosine_similarity(found, target).mean())

    solutions = [start + torch.linalg.solve(gram + rate * scale, product) for rate in RATES]
    cosines = [cosine(each) for each in solutions]
    best = max(range(len(RATES)), key=cosines.__getitem__)
    fit = RidgeFit(
        RATES[best], cosines[best], cosine(before), len(inputs), len(inputs) < inputs.shape[1]
    )
    linear.weight.copy_(solutions[best][:-1].T)
    linear.bias.copy_(solutions[best][-1])
    return fit


def _finite(outputs: torch.Tensor) -> torch.Tensor:
    if bad := int((~outputs.isfinite()).any(dim=1).sum()):
        raise TrainingStoppedError(
            f"{bad} of {len(outputs)} texts have an output that is not finite, so no map can be "
            "fitted to them: train with precision fp32, or take an encoder whose weights are finite"
        )
    return outputs.double().cpu()


def _with_one(outputs: torch.Tensor) -> torch.Tensor:
    """Inputs (n, width + 1) of a regression with a constant."""
    return torch.cat([outputs, torch.ones(len(outputs), 1, dtype=outputs.dtype)], dim=1)
