"""How far the query encoder's distribution is from the document encoder's (001, section 4.2.2)."""

import math
from dataclasses import dataclass

import torch

from retrieval.errors import InvalidArgumentError

SMALLEST_DISTANCE = 1e-6
"""Distances below this count as this: float32 cannot tell unit vectors apart that are nearer."""

_ROWS_AT_ONCE = 1024


def kl_estimate(sample: torch.Tensor, other: torch.Tensor) -> float:
    """The estimate of KL(P‖Q) by nearest neighbours (eq. 9, k = 1; Perez-Cruz 2008).

    With r the distance of each of the n points of `sample` to the nearest other one, s that to the
    nearest of the m points of `other`, and a dimensions: −a/n Σ log(r/s) + log(m/(n−1)).

    It is always finite: a distance of 0, as duplicates and collapsed encoders give, counts as
    `SMALLEST_DISTANCE`. Two encoders that both collapse into one point are thus 0 + log(m/(n−1))
    apart, although useless: the collapse figures tell that.

    :param sample: Points drawn from P, (n, a), n ≥ 2: queries by the document encoder.
    :param other: Points drawn from Q, (m, a), on the same device: queries by the query encoder.
    :raises InvalidArgumentError: When there are too few points, or the dimensions differ.
    """
    if sample.ndim != 2 or other.ndim != 2 or sample.shape[1] != other.shape[1]:
        raise InvalidArgumentError(
            f"the KL estimate needs two samples of one dimension, not of the shapes "
            f"{tuple(sample.shape)} and {tuple(other.shape)}"
        )
    if len(sample) < 2 or len(other) < 1:
        raise InvalidArgumentError(
            f"the KL estimate needs at least 2 and 1 points, but got {len(sample)} and {len(other)}"
        )
    size, dim = sample.shape
    total = 0.0
    for start in range(0, size, _ROWS_AT_ONCE):
        points = sample[start : start + _ROWS_AT_ONCE].float()
        # Not by inner products, which lose the small distances that decide here.
        within = torch.cdist(points, sample.float(), compute_mode="donot_use_mm_for_euclid_dist")
        own = torch.arange(len(points), device=sample.device)
        within[own, own + start] = torch.inf
        across = torch.cdist(points, other.float(), compute_mode="donot_use_mm_for_euclid_dist")
        r, s = (table.min(1).values.clamp_min(SMALLEST_DISTANCE) for table in (within, across))
        total += float((r.double().log() - s.double().log()).sum())
    return -dim / size * total + math.log(len(other) / (size - 1))


@dataclass(slots=True)
class AlignmentStopping:
    """Says when the first stage of DAFT ends (001, section 5.3.1).

    Either the estimate is below δ, given absolutely (`threshold`), or else per dimension
    (`threshold_per_dimension`; the paper's is 250/512), which carries over to other sizes; or it
    has not fallen for `patience` evaluations in a row.
    """

    dim: int
    threshold: float | None = None
    threshold_per_dimension: float | None = None
    patience: int | None = 3
    best: float = float("inf")
    waited: int = 0

    @property
    def delta(self) -> float:
        """δ for this dimension; −∞ when no threshold is set."""
        if self.threshold is not None:
            return self.threshold
        if self.threshold_per_dimension is not None:
            return self.threshold_per_dimension * self.dim
        return float("-inf")

    def reason_to_stop(self, kl: float) -> str | None:
        """Take note of the next estimate; why to stop, or None to go on."""
        if kl < self.delta:
            return f"the KL estimate {kl:.1f} is below δ = {self.delta:.1f}"
        if kl < self.best:
            self.best, self.waited = kl, 0
        else:
            self.waited += 1
        if self.patience is not None and self.waited >= self.patience:
            return f"the KL estimate stayed above {self.best:.1f} for {self.waited} evaluations"
        return None
