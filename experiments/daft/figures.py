"""The raw figures of docs/results/daft.md, from the records of finished runs."""

from experiments.daft.evaluations import (
    DELTA_PER_DIMENSION,
    across,
    correlations,
    course,
    judged,
    stopping,
)
from experiments.daft.runs import EXPERIMENTS
from experiments.daft.tested import Records, lettered_of, tested_baselines, tested_of
from experiments.daft.tests import TITLES
from measuring.results import Figures

GROWING = ("ridge", "one-rate", "ablation")
"""Experiments whose rows come to the page one by one, each with as many seeds as it has."""

SEEDS = 3

LONGEST_ALIGNMENT = "document-frozen"


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
        "courses": {name: across([*map(course, each)]) for name, each in each_run.items()},
        "collapses": {name: [*map(judged, each)] for name, each in each_run.items()},
        "closed_forms": _closed_forms(runs),
        "tested": tested_baselines(baselines) | tested_of(runs),
        "lettered": lettered_of(done, runs, baselines),
        "latencies": latencies,
        "baselines": baselines,
        "runs": runs,
    }
    if LONGEST_ALIGNMENT in runs:
        figures["stopping"] = stopping(runs[LONGEST_ALIGNMENT]["0"]["stages"]["alignment"])
    if "map" in done:
        figures["correlations"] = correlations([each_run[name] for name in done["map"]])
    return figures


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
