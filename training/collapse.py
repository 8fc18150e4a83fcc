"""Whether the embeddings still tell texts apart (001, section 3.2)."""

import math
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from typing import Literal

import torch

Verdict = Literal["none", "dimensional", "complete"]
TowerName = Literal["query", "document"]

TOWERS: tuple[TowerName, ...] = ("query", "document")


@dataclass(frozen=True, slots=True)
class Spread:
    """How one encoder's embeddings of different texts differ.

    `cosine` is their mean pairwise cosine, 1 when all are the same; `deviation` the standard
    deviation of a coordinate, averaged over the dimensions, 0 when all are the same and 1/√dim at
    most; `effective_rank` is exp of the entropy of the normalised singular values (Roy and Vetterli
    2007), from 1 for a single direction to dim.
    """

    cosine: float
    deviation: float
    effective_rank: float

    @classmethod
    def of(cls, embeddings: torch.Tensor) -> "Spread":
        """Measure normalised embeddings, (n, dim) with n ≥ 2; NaN if one of them is no vector."""
        if not embeddings.isfinite().all():
            return cls(math.nan, math.nan, math.nan)
        embeddings = embeddings.double()
        count = len(embeddings)
        total = embeddings.sum(0)
        squares = embeddings.square().sum()
        cosine = float((total @ total - squares) / (count * (count - 1)))
        singular_values = torch.linalg.svdvals(embeddings)
        weights = singular_values / singular_values.sum().clamp_min(1e-30)
        entropy = torch.special.entr(weights).sum()
        deviation = embeddings.std(0, unbiased=False).mean()
        return cls(cosine, float(deviation), float(entropy.exp()))


@dataclass(frozen=True, slots=True)
class CollapseFigures:
    """What the monitor sees at one evaluation.

    `loss` is the mean training loss since the one before (NaN if there was no step),
    `collapsed_loss` what it would be if all documents looked alike, ln(|D⁻| + 1).
    """

    queries: Spread
    documents: Spread
    loss: float
    collapsed_loss: float

    def of(self, tower: TowerName) -> Spread:
        """How the embeddings of one tower differ."""
        return self.queries if tower == "query" else self.documents

    def as_metrics(self) -> dict[str, float]:
        """The figures by the names that they have in metrics.jsonl."""
        return {
            f"{tower}_{name}": value
            for tower in TOWERS
            for name, value in asdict(self.of(tower)).items()
        } | {"loss": self.loss, "collapsed_loss": self.collapsed_loss}

    def __str__(self) -> str:
        return (
            f"loss {self.loss:.3f} where ln(|D⁻| + 1) is {self.collapsed_loss:.3f}, mean cosine "
            f"{self.queries.cosine:.3f} of queries and {self.documents.cosine:.3f} of documents, "
            f"effective rank {self.queries.effective_rank:.1f} and "
            f"{self.documents.effective_rank:.1f}"
        )


@dataclass(slots=True)
class CollapseMonitor:
    """Tells a collapsed run from one that is merely bad, by the towers that train.

    Complete: the loss is within `loss_share` of ln(|D⁻| + 1), and all towers in `trained` give
    nearly one vector (mean cosine from `cosine` on). Dimensional: the effective rank of one of them
    has fallen to `effective_rank` or below, and below half of what it was at first. Encoders often
    look like this before any training; so only an evaluation after the first steps counts, and only
    `patience` in a row end a run.

    `first_ranks` are what `begin` took down, and `seen` the collapsed evaluations in a row so far:
    both are needed to go on.
    """

    cosine: float = 0.95
    effective_rank: float = 3.0
    loss_share: float = 0.9
    patience: int = 2
    trained: Collection[TowerName] = TOWERS
    first_ranks: dict[str, float] = field(default_factory=dict)
    seen: int = 0

    def begin(self, figures: CollapseFigures) -> None:
        """Take down what the towers are like before the first step."""
        self.first_ranks = {tower: figures.of(tower).effective_rank for tower in TOWERS}

    def verdict(self, figures: CollapseFigures) -> Verdict:
        """What one evaluation shows."""
        alike = min(figures.of(tower).cosine for tower in self.trained) >= self.cosine
        if alike and figures.loss >= self.loss_share * figures.collapsed_loss:
            return "complete"
        is_flat = any(
            figures.of(tower).effective_rank <= self.effective_rank
            and figures.of(tower).effective_rank < self.first_ranks.get(tower, math.inf) / 2
            for tower in self.trained
        )
        return "dimensional" if is_flat else "none"

    def has_collapsed(self, figures: CollapseFigures) -> bool:
        """Take note of an evaluation after training steps; whether the run is lost."""
        self.seen = self.seen + 1 if self.verdict(figures) != "none" else 0
        return self.seen >= self.patience
