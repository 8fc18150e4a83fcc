"""Detects the collapse of embeddings (001, section 3.2)."""

import math
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from typing import Annotated, Literal

import torch
from pydantic import Field

from training.tables import Count, Fraction, Table

Verdict = Literal["none", "dimensional", "complete", "retrieval"]
TowerName = Literal["query", "document"]

TOWERS: tuple[TowerName, ...] = ("query", "document")

LEAST_NDCG = 0.1
"""An encoder with a lower nDCG@10 has nothing to lose: its changes are chance."""

LEAST_GAIN = 0.01


@dataclass(frozen=True, slots=True)
class EmbeddingStatistics:
    """Statistics of an encoder's embeddings of different texts.

    `cosine` is the mean pairwise cosine: 1 if all embeddings are the same. `deviation` is the
    standard deviation of a coordinate, averaged over the dimensions: 0 if all embeddings are the
    same, and at most 1/√dim. `effective_rank` is exp of the entropy of the normalised singular
    values (Roy and Vetterli 2007): from 1, for a single direction, to dim.
    """

    cosine: float
    deviation: float
    effective_rank: float

    @classmethod
    def of(cls, embeddings: torch.Tensor) -> "EmbeddingStatistics":
        """Measure normalised embeddings, (n, dim) with n ≥ 2; NaN if one of them is not finite."""
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
class CollapseMetrics:
    """The input of the collapse monitor at one evaluation.

    `loss` is the mean training loss since the previous evaluation (NaN without a step).
    `collapsed_loss` is the loss if all documents had the same embedding, ln(|D⁻| + 1). `ndcg` is
    nDCG@10 on the validation queries.
    """

    queries: EmbeddingStatistics
    documents: EmbeddingStatistics
    loss: float
    collapsed_loss: float
    ndcg: float

    def of(self, tower: TowerName) -> EmbeddingStatistics:
        """The embedding statistics of one tower."""
        return self.queries if tower == "query" else self.documents

    def as_metrics(self) -> dict[str, float]:
        """The values by their names in metrics.jsonl."""
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
            f"{self.documents.effective_rank:.1f}, nDCG@10 {self.ndcg:.3f}"
        )


class Collapse(Table):
    """[collapse]: when a run counts as collapsed, and whether it then stops.

    A collapse is complete if the loss is at least `loss_share` of ln(|D⁻| + 1), and the mean cosine
    of all trained towers is at least `cosine`, or of one whose effective rank has halved. It is
    dimensional if the effective rank of one of them has halved and is at most `effective_rank`, or
    is below `rank_share` of its initial value. A collapse of retrieval is an nDCG@10 below
    `ndcg_share` of its initial value; if this was below `LEAST_NDCG`, it is one that still is, with
    a loss near its limit and a rank that has halved. Before training, the embeddings of good
    encoders are often nearly the same, and a pair that learns may pass through such a state.
    Therefore an evaluation before the first step does not count, nor one whose nDCG@10 has risen by
    `LEAST_GAIN` since the evaluation before, and only `patience` collapsed evaluations in a row end
    a run.
    """

    stop: bool = True
    cosine: Fraction = 0.95
    effective_rank: Annotated[float, Field(ge=1)] = 3.0
    rank_share: Fraction = 0.1
    loss_share: Fraction = 0.9
    ndcg_share: Fraction = 0.5
    patience: Count = 2


@dataclass(slots=True)
class CollapseMonitor:
    """Detects a collapse from the loss and from the embeddings of the trained towers.

    Its state is `first_ranks` and `first_ndcg`, the initial values; `last_ndcg`, that of the
    evaluation before; and `seen`, the number of collapsed evaluations in a row.
    """

    settings: Collapse
    trained: Collection[TowerName] = TOWERS
    first_ranks: dict[str, float] = field(default_factory=dict)
    first_ndcg: float = 0.0
    last_ndcg: float = math.inf
    seen: int = 0

    def begin(self, figures: CollapseMetrics) -> None:
        """Record the effective ranks and nDCG@10 before the first step."""
        self.first_ranks = {tower: figures.of(tower).effective_rank for tower in TOWERS}
        self.first_ndcg = self.last_ndcg = figures.ndcg

    def verdict(self, figures: CollapseMetrics) -> Verdict:
        """The kind of collapse in one evaluation."""
        if figures.ndcg >= self.last_ndcg + LEAST_GAIN:
            return "none"
        settings = self.settings
        alike = {t for t in self.trained if figures.of(t).cosine >= settings.cosine}
        shares = {
            t: figures.of(t).effective_rank / self.first_ranks.get(t, math.inf)
            for t in self.trained
        }
        halved = {t for t, share in shares.items() if share < 1 / 2}
        is_at_limit = figures.loss >= settings.loss_share * figures.collapsed_loss
        if is_at_limit and (alike & halved or len(alike) == len(self.trained)):
            return "complete"
        least = settings.effective_rank
        if any(figures.of(t).effective_rank <= least for t in halved) or any(
            0 < share < settings.rank_share for share in shares.values()
        ):
            return "dimensional"
        if self.first_ndcg < LEAST_NDCG:
            return "retrieval" if halved and is_at_limit and figures.ndcg < LEAST_NDCG else "none"
        return "retrieval" if figures.ndcg < settings.ndcg_share * self.first_ndcg else "none"

    def has_collapsed(self, figures: CollapseMetrics) -> bool:
        """Record an evaluation after training steps; whether the run has collapsed."""
        self.seen = self.seen + 1 if self.verdict(figures) != "none" else 0
        self.last_ndcg = figures.ndcg
        return self.seen >= self.settings.patience
