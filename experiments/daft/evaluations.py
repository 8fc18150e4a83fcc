"""What the evaluations of a run say: its course, a collapse, and where alignment would stop."""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from scipy.stats import spearmanr

from measuring.experiment import settings_beside
from measuring.results import Figures, over_seeds
from training.contrastive.collapse import (
    TOWERS,
    Collapse,
    CollapseMetrics,
    CollapseMonitor,
    EmbeddingStatistics,
)
from training.objective.divergence import Alignment, AlignmentStopping, PlateauFigure

DELTA_PER_DIMENSION = 250 / 512
PREDICTORS: dict[str, str] = settings_beside(__file__)["predictors"]
BEFORE = ["kl_per_dimension", "query_cosine", "document_cosine", "ndcg@10"]
AFTER = [
    "ndcg@10", "query_cosine", "document_cosine", "query_effective_rank",
    "document_effective_rank", "loss", "collapsed_loss",
]  # fmt: skip


def across(rows: Sequence[Any]) -> Any:
    """Mappings of one shape as one, with the mean of each number and half of its range."""
    if isinstance(rows[0], dict):
        return {key: across([row[key] for row in rows]) for key in rows[0]}
    return {name: over_seeds(rows)[name] for name in ("mean", "half")}


def judged(record: Figures) -> str | None:
    """The collapse at the end of a run, by the rule of now, from its evaluations; None if none."""
    verdict = "none"
    for stage in record["stages"].values():
        monitor = CollapseMonitor(Collapse())
        for number, each in enumerate(stage["evaluations"]):
            queries, documents = (
                EmbeddingStatistics(each[f"{t}_cosine"], math.nan, each[f"{t}_effective_rank"])
                for t in TOWERS
            )
            loss, limit = (each[name] or math.nan for name in ("loss", "collapsed_loss"))
            figures = CollapseMetrics(queries, documents, loss, limit, each["ndcg@10"])
            if number == 0:
                monitor.begin(figures)
            verdict = monitor.verdict(figures)
            monitor.has_collapsed(figures)
    return None if verdict == "none" else verdict


def _last(record: Figures) -> list[Figures]:
    """The evaluations of the last stage. Both towers train in it, unless the run ended earlier."""
    *_, stage = record["stages"].values()
    evaluations: list[Figures] = stage["evaluations"]
    return evaluations


def course(record: Figures) -> Figures:
    """The validation figures of a run before and after its last stage."""
    evaluations, stages = _last(record), [*record["stages"].values()]
    steps = [stage["evaluations"][-1]["step"] for stage in stages]
    paces = [stage["seconds_a_step"] or 0.0 for stage in stages]
    return {
        "before": {key: evaluations[0][key] for key in BEFORE},
        "best": max(each["ndcg@10"] for each in evaluations),
        "after": {key: evaluations[-1][key] or 0.0 for key in AFTER},
        "steps": sum(steps),
        "minutes": sum(pace * count for pace, count in zip(paces, steps, strict=True)) / 60,
        "seconds_a_step": paces[-1],
    }


def stopping(alignment: Figures) -> list[Figures]:
    """For each criterion, the end of the longest alignment, and the quality reached."""
    evaluations = alignment["evaluations"]
    criteria = {
        f"δ = {delta:.3f} a dimension": AlignmentStopping(
            Alignment(threshold=delta, patience=None), 1
        )
        for delta in (0.6, DELTA_PER_DIMENSION, 0.4, 0.3)
    }
    plateaus: list[tuple[PlateauFigure, str]] = [("kl", "the KL estimate"), ("ndcg@10", "nDCG@10")]
    for figure, name in plateaus:
        for patience in (35, 70, 105):
            settings = Alignment(patience=patience, plateau_of=figure, least_gain=0.01)
            criteria[f"plateau of {name}, {patience} steps"] = AlignmentStopping(settings, 1)
    rows = []
    for name, criterion in criteria.items():
        keys = ("step", "kl_per_dimension", "ndcg@10")
        ends = (e for e in evaluations if criterion.reason_to_stop(*(e[key] for key in keys)))
        found = next(ends, None)
        reached = {key: (found or evaluations[-1])[key] for key in keys[1:]}
        rows.append({"criterion": name, "step": found["step"] if found else None, **reached})
    return rows


def correlations(runs: Sequence[Sequence[Figures]]) -> list[Figures]:
    """Rank correlation of each figure before both towers train with nDCG@10 at the end.

    A run is the mean of its seeds: they are no independent runs.
    """
    stages = [[_last(record) for record in records] for records in runs]
    kept = [fmean(each[-1]["ndcg@10"] for each in of_run) for of_run in stages]
    rows = []
    for key, name in PREDICTORS.items():
        before = [fmean(each[0][key] for each in of_run) for of_run in stages]
        test = spearmanr(before, kept)
        rows.append({"name": name, "correlation": float(test.statistic), "p": float(test.pvalue)})
    return rows
