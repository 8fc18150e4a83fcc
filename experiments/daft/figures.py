"""The raw figures of docs/results/daft.md, from the records of finished runs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from scipy.stats import spearmanr

from experiments.daft.runs import EXPERIMENTS
from experiments.daft.tests import TITLES
from measuring.experiment import settings_beside
from measuring.results import Figures, by_query, over_seeds
from swiftlet.evaluation.comparison import lettered
from training.contrastive.collapse import (
    TOWERS,
    Collapse,
    CollapseMetrics,
    CollapseMonitor,
    EmbeddingStatistics,
)
from training.objective.divergence import Alignment, AlignmentStopping, PlateauFigure

DELTA_PER_DIMENSION = 250 / 512
GROWING = ("ridge", "one-rate", "ablation")
"""Experiments whose rows come to the page one by one, each with as many seeds as it has."""

SEEDS = 3

LONGEST_ALIGNMENT = "document-frozen"
SETTINGS = settings_beside(__file__)
BEFORE = ["kl_per_dimension", "query_cosine", "document_cosine", "ndcg@10"]
AFTER = [
    "ndcg@10", "query_cosine", "document_cosine", "query_effective_rank",
    "document_effective_rank", "loss", "collapsed_loss",
]  # fmt: skip

Records = Mapping[str, Mapping[str, Figures]]
"""Run -> seed -> its record."""


def collect(runs: Records, baselines: Figures, latencies: Figures) -> Figures:
    """The figures of all experiments that have all their runs, with one seed or more."""
    done = {n: each for n, each in EXPERIMENTS.items() if each and all(run in runs for run in each)}
    owed = {}
    for name in GROWING:
        left = sum(SEEDS - len(runs.get(run, ())) for run in EXPERIMENTS[name])
        owed[name] = f"{left} of {SEEDS * len(EXPERIMENTS[name])}" if left else ""
        if found := [run for run in EXPERIMENTS[name] if run in runs]:
            done[name] = found
    each_run = {name: list(each.values()) for name, each in runs.items()}
    figures: Figures = {
        "delta_per_dimension": DELTA_PER_DIMENSION,
        "experiments": done,
        "owed": owed,
        "collections": TITLES,
        "courses": {name: across([*map(_course, each)]) for name, each in each_run.items()},
        "collapses": {name: [*map(judged, each)] for name, each in each_run.items()},
        "closed_forms": _closed_forms(runs),
        "tested": _baselines(baselines) | _tested(runs),
        "lettered": _lettered(done, runs, baselines),
        "latencies": latencies,
        "baselines": baselines,
        "runs": runs,
    }
    if LONGEST_ALIGNMENT in runs:
        figures["stopping"] = stopping(runs[LONGEST_ALIGNMENT]["0"]["stages"]["alignment"])
    if "map" in done:
        figures["correlations"] = _correlations([each_run[name] for name in done["map"]])
    return figures


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


def across(rows: Sequence[Any]) -> Any:
    """Mappings of one shape as one, with the mean of each number and half of its range."""
    if isinstance(rows[0], dict):
        return {key: across([row[key] for row in rows]) for key in rows[0]}
    return {name: over_seeds(rows)[name] for name in ("mean", "half")}


def _last(record: Figures) -> list[Figures]:
    """The evaluations of the last stage. Both towers train in it, unless the run ended earlier."""
    *_, stage = record["stages"].values()
    evaluations: list[Figures] = stage["evaluations"]
    return evaluations


def _course(record: Figures) -> Figures:
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


def _closed_forms(runs: Records) -> Figures:
    """How the maps in closed form were fitted, by run."""
    found = {
        name: [each for record in records.values() for each in record.get("closed_form", ())]
        for name, records in runs.items()
    }
    keys = ("rate", "cosine", "cosine_before", "num_texts", "ndcg@10")
    return {
        name: across([{key: each[key] for key in keys} for each in fits])
        for name, fits in found.items()
        if fits
    }


def _tested(runs: Records) -> Figures:
    """Title of a run and its state -> the figures on the tests, and their mean nDCG@10."""
    tested: Figures = {}
    for name, records in runs.items():
        for state in records["0"]["tests"] if "0" in records else ():
            rows = [
                {**r["tests"][state], "mean": _mean(r["tests"][state])} for r in records.values()
            ]
            if state == "ended":
                for row, record in zip(rows, records.values(), strict=True):
                    row["validation"] = max(
                        e["ndcg@10"] for s in record["stages"].values() for e in s["evaluations"]
                    )
            tested[_title(name, state)] = {"seeds": len(rows), **across(rows)}
    return tested


def _lettered(done: Mapping[str, Sequence[str]], runs: Records, baselines: Figures) -> Figures:
    """Experiment -> title -> its letter, and the letters of titles on which it improves.

    By collection, of titles with the nDCG@10 of each query, as means over the seeds.
    """
    queries = {name: [each["by_query"]] for name, each in baselines.items() if "by_query" in each}
    by_run = {
        name: [r["by_query"] for r in of.values() if "by_query" in r] for name, of in runs.items()
    }
    for name, found in by_run.items():
        for state in found[0] if found else ():
            queries[_title(name, state)] = [each[state] for each in found]
    rows = {
        title: {name: by_query([*map(_values, (each[name] for each in found))]) for name in TITLES}
        for title, found in queries.items()
    }
    return {
        experiment: {
            each.name: asdict(each)
            for each in lettered(
                {
                    title: row
                    for title, row in rows.items()
                    if title in baselines or title.split(",")[0] in names
                }
            )
        }
        for experiment, names in done.items()
        if any(by_run[name] for name in names)
    }


def _values(thousandths: str) -> dict[str, float]:
    return {f"{place}": int(each) / 1000 for place, each in enumerate(thousandths.split())}


def _title(name: str, state: str) -> str:
    return name if state == "ended" else f"{name}, {state}"


def _mean(tests: Mapping[str, Mapping[str, float]]) -> float:
    return fmean(tests[title]["nDCG@10"] for title in TITLES)


def _baselines(measured: Figures) -> Figures:
    """The same of systems that are not trained here."""
    return {
        name: {
            "seeds": 1,
            **across([{title: tests[title] for title in TITLES} | {"mean": _mean(tests)}]),
            "validation": across(tests["validation"]),
        }
        for name, tests in measured.items()
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


def _correlations(runs: Sequence[Sequence[Figures]]) -> list[Figures]:
    """Rank correlation of each figure before both towers train with nDCG@10 at the end.

    A run is the mean of its seeds: they are no independent runs.
    """
    stages = [[_last(record) for record in records] for records in runs]
    kept = [fmean(each[-1]["ndcg@10"] for each in of_run) for of_run in stages]
    rows = []
    for key, name in SETTINGS["predictors"].items():
        before = [fmean(each[0][key] for each in of_run) for of_run in stages]
        test = spearmanr(before, kept)
        rows.append({"name": name, "correlation": float(test.statistic), "p": float(test.pvalue)})
    return rows
