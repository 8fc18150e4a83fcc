"""The divergence between the distributions of the two encoders (001, section 4.2.2).

It ends the first stage of DAFT.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field, StrictFloat

from training.tables import Positive, Table

SMALLEST_DISTANCE = 1e-6
"""The smallest distance: float32 cannot distinguish unit vectors that are nearer."""

_ROWS_AT_ONCE = 1024

PlateauFigure = Literal["ndcg@10", "kl"]
Texts = Literal["queries", "sentences", "both"]


def kl_estimate(sample: torch.Tensor, other: torch.Tensor) -> float:
    """The estimate of KL(P‖Q) by nearest neighbours (eq. 9, k = 1; Perez-Cruz 2008).

    The estimate is −a/n Σ log(r/s) + log(m/(n−1)) for a dimensions. The sum is over the n points of
    `sample`: r is the distance to the nearest other point of `sample`, and s the distance to the
    nearest of the m points of `other`.

    The estimate is always finite: a distance of 0, between duplicates or collapsed embeddings, is
    replaced by `SMALLEST_DISTANCE`. If both encoders collapse into one point, the estimate is
    log(m/(n−1)), as for aligned encoders; the collapse metrics show the difference.

    Both samples must be independent. If they were the same texts, each point would be near its own
    counterpart, and two equal encoders would have an estimate far below 0.

    :param sample: Points drawn from P, (n, a), n ≥ 2: queries by the document encoder.
    :param other: Points drawn from Q, (m, a), on the same device: other queries by the query
        encoder.
    """
    size, dim = sample.shape
    total = 0.0
    for start in range(0, size, _ROWS_AT_ONCE):
        points = sample[start : start + _ROWS_AT_ONCE].float()
        # Inner products would lose small distances, which determine the estimate.
        within = torch.cdist(points, sample.float(), compute_mode="donot_use_mm_for_euclid_dist")
        own = torch.arange(len(points), device=sample.device)
        within[own, own + start] = torch.inf
        across = torch.cdist(points, other.float(), compute_mode="donot_use_mm_for_euclid_dist")
        r, s = (table.min(1).values.clamp_min(SMALLEST_DISTANCE) for table in (within, across))
        total += float((r.double().log() - s.double().log()).sum())
    return -dim / size * total + math.log(len(other) / (size - 1))


class Alignment(Table):
    """[alignment]: the first stage of DAFT; the document language model is frozen (section 4).

    It ends when the KL estimate is below δ, or at a plateau: when the figure `plateau_of` has not
    improved by `least_gain` for `patience` epochs (sections 4.2 and 5.3.1). This figure is nDCG@10
    on the validation queries, or the KL estimate per dimension, which should fall. δ is given
    absolutely (`threshold`) or per dimension (`threshold_per_dimension`; 250/512 in the paper),
    which can be used for embeddings of any size.

    With the `start` "ridge", the query encoder begins with a linear map to the document encoder's
    outputs, in closed form, fitted to `texts`: the queries, sentences of passages, or both. With
    no steps (`max_steps` 0), this map is the alignment.
    """

    start: Literal["ridge"] | None = None
    texts: Texts = "queries"
    max_epochs: Positive = 20
    max_steps: Annotated[int, Field(ge=0)] | None = None
    train_projection: bool = True
    threshold: StrictFloat | None = None
    threshold_per_dimension: float | None = None
    patience: Positive | None = 1
    plateau_of: PlateauFigure = "ndcg@10"
    least_gain: Annotated[float, Field(ge=0)] = 0.005
    learning_rate: Positive | None = None


@dataclass(slots=True)
class AlignmentStopping:
    """The rule for the end of the alignment of embeddings (…, dim).

    Its state is `best`, the best figure so far, and the epoch `best_epoch` it is of.
    """

    settings: Alignment
    dim: int
    best: float = float("-inf")
    best_epoch: float = 0.0

    @property
    def delta(self) -> float:
        """δ for this dimension; −∞ when no threshold is set."""
        settings = self.settings
        if settings.threshold is not None:
            return settings.threshold
        if settings.threshold_per_dimension is not None:
            return settings.threshold_per_dimension * self.dim
        return float("-inf")

    def reason_to_stop(self, epoch: float, kl: float, ndcg: float) -> str | None:
        """Record an evaluation after `epoch` epochs; the reason to stop, or None to continue."""
        if kl < self.delta:
            return f"the KL estimate {kl:.1f} is below δ = {self.delta:.1f}"
        settings = self.settings
        figure = ndcg if settings.plateau_of == "ndcg@10" else -kl / self.dim
        if figure >= self.best + settings.least_gain:
            self.best, self.best_epoch = figure, epoch
        waited = epoch - self.best_epoch
        if settings.patience is None or waited < settings.patience:
            return None
        name = "nDCG@10" if settings.plateau_of == "ndcg@10" else "the KL estimate per dimension"
        return (
            f"{name} has improved by less than {settings.least_gain:g} on {abs(self.best):.3f} for "
            f"{waited:g} epoch{'' if waited == 1 else 's'}"
        )
