"""The raw figures and the plots of docs/results/daft.md, from the records of finished runs."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from experiments.daft_runs import TESTS, Variant, Workplace
from export.encoder_directory import export_encoder
from measuring.embedding_maps import EmbeddingPanel, plot_pca, plot_tsne
from measuring.machine import describe_machine
from measuring.quality_plot import QualityPoint, plot_quality
from measuring.results import Figures
from measuring.runs import query_latencies
from swiftlet.evaluation.plots.figures import save_figure
from swiftlet.evaluation.plots.lines import Curve, LinePanel, Moment, plot_lines
from training.objective.divergence import AlignmentStopping, PlateauFigure
from training.plots import divergence_panel, loss_panel

PACKAGES = ["torch", "transformers", "sentence-transformers", "onnxruntime", "bm25s"]
DELTA_PER_DIMENSION = 250 / 512
LONGEST_ALIGNMENT = "document-frozen"
SETTINGS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
COLLECTIONS = [f"{name} {split}" for name, split in TESTS]
BEFORE = ["kl_per_dimension", "query_cosine", "document_cosine", "ndcg@10"]
AFTER = [
    "ndcg@10", "query_cosine", "document_cosine", "query_effective_rank",
    "document_effective_rank", "loss", "collapsed_loss",
]  # fmt: skip

Records = Mapping[str, Mapping[str, Figures]]
"""Run -> seed -> its record."""


def collect(
    workplace: Workplace, experiments: Mapping[str, Sequence[str]], runs: Records, known: Figures
) -> Figures:
    """The figures of all experiments that have all their runs, with one seed or more."""
    done = {name: each for name, each in experiments.items() if all(run in runs for run in each)}
    each_run = {name: list(each.values()) for name, each in runs.items()}
    figures: Figures = {
        "template": "experiments/daft.md.j2",
        "machine": known.get("machine")
        or describe_machine(PACKAGES, threads=str(workplace.processes)),
        "delta_per_dimension": DELTA_PER_DIMENSION,
        "experiments": done,
        "collections": COLLECTIONS,
        "courses": {name: across([*map(_course, each)]) for name, each in each_run.items()},
        "collapses": {name: [r["collapse"] for r in each] for name, each in each_run.items()},
        "tested": _baselines(known["baselines"]) | _tested(runs),
        "latencies": known.get("latencies", {}),
        "baselines": known["baselines"],
        "runs": runs,
    }
    if "layers" in done:
        figures["latencies"] = figures["latencies"] or _latencies(workplace, done["layers"])
    if LONGEST_ALIGNMENT in runs:
        figures["stopping"] = _stopping(runs[LONGEST_ALIGNMENT]["0"]["stages"]["alignment"])
    if "map" in done:
        figures["correlations"] = _correlations([each_run[name] for name in done["map"]])
    return figures


def across(rows: Sequence[Any]) -> Any:
    """Mappings of one shape as one, with the mean of each number and half of its range."""
    if isinstance(rows[0], dict):
        return {key: across([row[key] for row in rows]) for key in rows[0]}
    return {"mean": fmean(rows), "half": (max(rows) - min(rows)) / 2}


def _last(record: Figures) -> list[Figures]:
    """The evaluations of the last stage. Both towers train in it, unless the run ended earlier."""
    *_, stage = record["stages"].values()
    evaluations: list[Figures] = stage["evaluations"]
    return evaluations


def _course(record: Figures) -> Figures:
    """The validation figures of a run before and after its last stage."""
    evaluations = _last(record)
    steps = sum(stage["evaluations"][-1]["step"] for stage in record["stages"].values())
    *_, stage = record["stages"].values()
    seconds = sum(
        (each["seconds_a_step"] or 0.0) * each["evaluations"][-1]["step"]
        for each in record["stages"].values()
    )
    return {
        "before": {key: evaluations[0][key] for key in BEFORE},
        "best": max(each["ndcg@10"] for each in evaluations),
        "after": {key: evaluations[-1][key] or 0.0 for key in AFTER},
        "steps": steps,
        "minutes": seconds / 60,
        "seconds_a_step": stage["seconds_a_step"] or 0.0,
    }


def _tested(runs: Records) -> Figures:
    """Title of a run and its state -> the figures on the tests, and their mean nDCG@10."""
    tested: Figures = {}
    for name, records in runs.items():
        for state in records["0"]["tests"] if "0" in records else ():
            found = [record["tests"][state] for record in records.values()]
            title = name if state == "ended" else f"{name}, {state}"
            rows = [{**each, "mean": _mean(each)} for each in found]
            if state == "ended":
                for row, record in zip(rows, records.values(), strict=True):
                    row["validation"] = max(
                        e["ndcg@10"] for s in record["stages"].values() for e in s["evaluations"]
                    )
            tested[title] = {"seeds": len(rows), **across(rows)}
    return tested


def _mean(tests: Mapping[str, Mapping[str, float]]) -> float:
    return fmean(tests[title]["nDCG@10"] for title in COLLECTIONS)


def _baselines(measured: Figures) -> Figures:
    """The same of systems that are not trained here."""
    return {
        name: {
            "seeds": 1,
            **across([{title: tests[title] for title in COLLECTIONS} | {"mean": _mean(tests)}]),
            "validation": across(tests["validation"]),
        }
        for name, tests in measured.items()
    }


def _latencies(workplace: Workplace, names: Sequence[str]) -> Figures:
    directories = {name: workplace.directory(Variant(name)) / "query-encoder" for name in names}
    for out in directories.values():
        if not out.is_dir():
            export_encoder(out.with_name("run") / "query_encoder", out, precisions=["int8"])
    return query_latencies(directories, workplace.runs / "latency.json")


def _stopping(alignment: Figures) -> list[Figures]:
    """For each criterion, the end of the longest alignment, and the quality reached."""
    evaluations = alignment["evaluations"]
    criteria = {
        f"δ = {delta:.3f} a dimension": AlignmentStopping(1, delta, None, None)
        for delta in (0.6, DELTA_PER_DIMENSION, 0.4, 0.3)
    }
    plateaus: list[tuple[PlateauFigure, str]] = [("kl", "the KL estimate"), ("ndcg@10", "nDCG@10")]
    for figure, name in plateaus:
        for patience in (35, 70, 105):
            stopping = AlignmentStopping(1, None, None, patience, figure, 0.01)
            criteria[f"plateau of {name}, {patience} steps"] = stopping
    rows = []
    for name, stopping in criteria.items():
        ends = (
            each
            for each in evaluations
            if stopping.reason_to_stop(each["step"], each["kl_per_dimension"], each["ndcg@10"])
        )
        found = next(ends, None)
        reached = {key: (found or evaluations[-1])[key] for key in ("kl_per_dimension", "ndcg@10")}
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


def draw_embeddings(workplace: Workplace, folder: Path) -> None:
    """Figures 3 and 5, if all their runs with the first seed are on this machine."""
    files = [
        workplace.directory(Variant(name)) / "embeddings.npz" for name, *_ in SETTINGS["panels"]
    ]
    if all(file.is_file() for file in files):
        folder.mkdir(parents=True, exist_ok=True)
        panels = []
        for file, (_, state, title) in zip(files, SETTINGS["panels"], strict=True):
            with np.load(file) as found:
                queries, documents = found[f"{state} queries"], found[f"{state} documents"]
            panels.append(EmbeddingPanel(title, queries, documents))
        save_figure(plot_pca(panels), folder / "embeddings.png")
        save_figure(plot_tsne(panels), folder / "neighbourhoods.png")


def draw(figures: Figures, folder: Path) -> None:
    """Draw the plots that have raw figures, of the first seed."""
    folder.mkdir(parents=True, exist_ok=True)
    runs = {name: each["0"]["stages"] for name, each in figures["runs"].items() if "0" in each}
    if figures["latencies"]:
        _draw_layers(figures, folder / "latency.png")
    if all(name in runs for pair in SETTINGS["curves"] for name in pair):
        _draw_losses(runs, folder / "loss.png")
    if "stopping" in figures:
        _draw_alignment(runs[LONGEST_ALIGNMENT]["alignment"], folder / "divergence.png")


def _draw_layers(figures: Figures, path: Path) -> None:
    """Figure 6: mean nDCG@10 over the tests against latency."""
    tested = figures["tested"]
    points = [
        QualityPoint(
            SETTINGS["layers"][name],
            ms,
            tested[name]["mean"]["mean"],
            series="DAFT",
            half=tested[name]["mean"]["half"],
        )
        for name, ms in figures["latencies"].items()
    ]
    label = "nDCG@10, mean over the tests"
    save_figure(plot_quality(points, quality_label=label, latency_label="ms a query"), path)


def _draw_losses(runs: Figures, path: Path) -> None:
    """Figure 2, for each choice of negatives, each with its own limit."""
    panels = []
    for aligned, unaligned in SETTINGS["curves"]:
        curves = []
        for label, run in (("not aligned", unaligned), ("aligned", aligned)):
            if "fine-tuning" in runs[run]:
                x, y = map(np.array, runs[run]["fine-tuning"]["losses"])
                curves.append(Curve(label, x, y))
        limit = runs[unaligned]["fine-tuning"]["evaluations"][-1]["collapsed_loss"]
        panels.append(loss_panel(curves, collapsed_loss=limit, title=aligned))
    save_figure(plot_lines(panels), path)


def _draw_alignment(alignment: Figures, path: Path) -> None:
    """Figure 4: the KL estimate with δ, and nDCG@10 with the plateau that ends an alignment."""
    evaluations = alignment["evaluations"]
    steps = np.array([each["step"] for each in evaluations])
    kl = np.array([each["kl_per_dimension"] for each in evaluations])
    ndcg = np.array([each["ndcg@10"] for each in evaluations])
    ends = {row["criterion"]: row["step"] for row in _stopping(alignment)}
    of_threshold = ends[f"δ = {DELTA_PER_DIMENSION:.3f} a dimension"]
    of_plateau = ends["plateau of nDCG@10, 35 steps"]
    label = "step of the alignment"
    threshold = divergence_panel(
        [Curve("KL estimate", steps, kl)], threshold=DELTA_PER_DIMENSION,
        stopped_at=of_threshold, per_dimension=True, x_label=label, title="threshold",
    )  # fmt: skip
    plateau = LinePanel(
        "nDCG@10", [Curve("nDCG@10", steps, ndcg)], x_label=label, markers=True,
        title="plateau of 35 steps",
        moments=[] if of_plateau is None else [Moment(of_plateau, "stopped")],
    )  # fmt: skip
    save_figure(plot_lines([threshold, plateau]), path)
