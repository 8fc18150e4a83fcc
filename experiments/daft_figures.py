"""The raw figures and the plots of docs/results/daft.md, from finished runs."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from experiments.daft_runs import Variant, Workplace, verdict
from experiments.runs import query_latencies
from export.encoder_directory import export_encoder
from loadtests.results import Figures
from swiftlet.evaluation.comparison import PlainColumn, compare, comparison_from, mean_of
from swiftlet.evaluation.machine import describe_machine
from swiftlet.evaluation.plots.embeddings import EmbeddingPanel, plot_pca, plot_tsne
from swiftlet.evaluation.plots.figures import save_figure
from swiftlet.evaluation.plots.lines import Curve, plot_lines
from swiftlet.evaluation.plots.quality import QualityPoint, plot_quality
from training.logged_run import LoggedRun
from training.objective.divergence import AlignmentStopping
from training.plots import divergence_panel, loss_panel

PACKAGES = ["torch", "transformers", "sentence-transformers", "onnxruntime", "ranx"]
DELTA_PER_DIMENSION = 250 / 512
LONGEST_ALIGNMENT = "document-frozen"
SETTINGS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
# The runs of Figure 2, each with and without alignment.
CURVES = ("cached-fast", "cached", "default")
EMBEDDINGS = "embeddings.npz"


def collect(workplace: Workplace, experiments: Mapping[str, Sequence[Variant]]) -> Figures:
    """The figures of all experiments that have finished all their runs."""
    done = {name: runs for name, runs in experiments.items() if all(map(workplace.is_done, runs))}
    runs = {variant.name: variant for variants in done.values() for variant in variants}
    figures: Figures = {
        "template": "experiments/daft.md.j2",
        "machine": describe_machine(PACKAGES, threads=str(workplace.processes)),
        "delta_per_dimension": DELTA_PER_DIMENSION,
        "experiments": {name: [v.name for v in variants] for name, variants in done.items()},
        "courses": {name: _course(workplace, variant) for name, variant in runs.items()},
        "comparisons": {},
    }
    for name, states in (("collapse", ()), ("ablation", ("ended",)), ("projection", ())):
        if name in done:
            figures["comparisons"][name] = _comparison(_tests(workplace, done[name], *states))
    if "layers" in done:
        figures["comparisons"]["layers"] = _layers(workplace, done["layers"])
    if "collapse" in done:
        figures["stopping"] = _stopping(workplace.log(runs[LONGEST_ALIGNMENT]))
        figures["curves"] = _curves(workplace, runs)
    if "negatives" in done:
        logs = {variant.name: workplace.log(variant) for variant in done["negatives"]}
        figures["seconds_per_step"] = {name: _seconds_per_step(log) for name, log in logs.items()}
    if "map" in done:
        figures["correlations"] = _correlations(workplace, done["map"])
    return figures


def _last_stage(log: LoggedRun) -> list[Mapping[str, Any]]:
    """The evaluations of the last stage. Both towers train in it, unless the run ended earlier."""
    evaluations = log.of_kind("evaluation")
    return [record.values for record in evaluations if record.stage == evaluations[-1].stage]


def _course(workplace: Workplace, variant: Variant) -> Figures:
    """The validation figures of a run before and after its last stage."""
    log = workplace.log(variant)
    evaluations = _last_stage(log)
    first, last = evaluations[0], evaluations[-1]
    before = ["kl_per_dimension", "query_cosine", "document_cosine", "ndcg@10"]
    ranks = ["query_effective_rank", "document_effective_rank"]
    return {
        "before": {key: first[key] for key in before},
        "best_ndcg": max(values["ndcg@10"] for values in evaluations),
        "after": {key: last[key] for key in [*before[1:], "loss", "collapsed_loss", *ranks]},
        "collapse": verdict(log) if workplace.collapsed(variant) else None,
        "last_step": log.of_kind("evaluation")[-1].step,
    }


def _tests(workplace: Workplace, variants: Sequence[Variant], *states: str) -> dict[str, Any]:
    return {
        title: values
        for variant in variants
        for title, values in workplace.tests(variant, *states).items()
    }


def _comparison(runs: Mapping[str, Any], plain: Sequence[PlainColumn] = ()) -> Figures:
    return asdict(compare(runs, correction="holm", plain_columns=plain))


def _layers(workplace: Workplace, variants: Sequence[Variant]) -> Figures:
    titles = {}
    for variant in variants:
        kept = variant.settings.get("query_encoder.layers", [0, 5])
        titles[variant.name] = f"{len(kept)} layer{'s' if len(kept) > 1 else ''}: {kept}"
    directories = {titles[name]: workplace.runs / name / "query-encoder" for name in titles}
    for out in directories.values():
        if not out.is_dir():
            export_encoder(out.with_name("run") / "query_encoder", out, precisions=["int8"])
    latencies = query_latencies(directories, workplace.runs / "latency.json")
    runs = {titles[name]: values for name, values in _tests(workplace, variants, "ended").items()}
    return _comparison(runs, [PlainColumn("ms a query", latencies, decimals=2)])


def _stopping(log: LoggedRun) -> list[Figures]:
    """For each stopping criterion, the end of the longest alignment, and the quality reached."""
    evaluations = [record for record in log.of_kind("evaluation") if record.stage == "alignment"]
    dim = round(evaluations[0].values["kl"] / evaluations[0].values["kl_per_dimension"])
    criteria = {
        f"δ = {delta:.3f} a dimension": AlignmentStopping(dim, None, delta, None)
        for delta in (0.6, DELTA_PER_DIMENSION, 0.4, 0.3)
    } | {f"patience {n}": AlignmentStopping(dim, None, None, n) for n in (1, 2, 3)}
    rows = []
    for name, stopping in criteria.items():
        found = next((e for e in evaluations[1:] if stopping.reason_to_stop(e.values["kl"])), None)
        values = (found or evaluations[-1]).values
        reached = {key: values[key] for key in ("kl_per_dimension", "ndcg@10")}
        rows.append({"criterion": name, "step": found.step if found else None, **reached})
    return rows


def _correlations(workplace: Workplace, variants: Sequence[Variant]) -> list[Figures]:
    """Rank correlation of each figure before both towers train with nDCG@10 at the end."""
    stages = [_last_stage(workplace.log(variant)) for variant in variants]
    kept = [evaluations[-1]["ndcg@10"] for evaluations in stages]
    rows = []
    for key, name in SETTINGS["predictors"].items():
        test = spearmanr([evaluations[0][key] for evaluations in stages], kept)
        rows.append({"name": name, "correlation": float(test.statistic), "p": float(test.pvalue)})
    return rows


def _seconds_per_step(log: LoggedRun) -> float:
    records = [record for record in log.of_kind("step") if record.stage == "fine-tuning"]
    seconds = records[-1].values["seconds"] - records[0].values["seconds"]
    return float(seconds / (records[-1].step - records[0].step))


def _curves(workplace: Workplace, runs: Mapping[str, Variant]) -> Figures:
    """Losses of fine-tuning (Figure 2), and the KL estimate of the alignment (Figure 4)."""
    losses: Figures = {}
    for name in CURVES:
        log = workplace.log(runs[name])
        losses[name] = {"limit": log.last("evaluation", "collapsed_loss")}
        for run, label in ((f"{name}-unaligned", "not aligned"), (name, "aligned")):
            log = workplace.log(runs[run])
            (loss,) = (s for s in log.series("step", "loss") if s.stage == "fine-tuning")
            steps = loss.x - log.stage_starts()["fine-tuning"]
            losses[name][label] = [steps.tolist(), loss.y.tolist()]
    log = workplace.log(runs["default"])
    (kl,) = (s for s in log.series("evaluation", "kl_per_dimension") if s.stage == "alignment")
    stopped_at = next((record.step for record in log.of_kind("stop")), None)
    divergence = {"points": [kl.x.tolist(), kl.y.tolist()], "stopped_at": stopped_at}
    return {"losses": losses, "divergence": divergence}


def draw_embeddings(workplace: Workplace, variants: Sequence[Variant], folder: Path) -> None:
    runs = {variant.name: variant for variant in variants}
    if all(workplace.is_done(runs[name]) for name, _, _ in SETTINGS["panels"]):
        folder.mkdir(parents=True, exist_ok=True)
        panels = []
        for name, state, title in SETTINGS["panels"]:
            with np.load(workplace.directory(runs[name]) / EMBEDDINGS) as found:
                queries, documents = found[f"{state} queries"], found[f"{state} documents"]
            panels.append(EmbeddingPanel(title, queries, documents))
        save_figure(plot_pca(panels), folder / "embeddings.png")
        save_figure(plot_tsne(panels), folder / "neighbourhoods.png")


def draw(figures: Figures, folder: Path) -> None:
    """Draw the plots that have raw figures; other plots are left as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    if "layers" in figures["comparisons"]:
        _draw_layers(figures["comparisons"]["layers"], folder / "latency.png")
    if "curves" in figures:
        _draw_losses(figures["curves"]["losses"], folder / "loss.png")
        _draw_divergence(figures, folder / "divergence.png")


def _draw_layers(raw: Figures, path: Path) -> None:
    """Figure 6: mean nDCG@10 over the tests against latency."""
    comparison = comparison_from(raw)
    (latencies,) = comparison.plain_columns
    points = []
    for row in comparison.rows:
        quality = mean_of(comparison, row.name, "nDCG@10")
        name = row.name.partition(":")[0]
        points.append(QualityPoint(name, latencies.figures[row.name], quality, series="DAFT"))
    label = "nDCG@10, mean over the tests"
    save_figure(plot_quality(points, quality_label=label, latency_label="ms a query"), path)


def _draw_losses(losses: Figures, path: Path) -> None:
    """Figure 2, for each choice of negatives, each with its own limit."""
    panels = []
    for name, points in losses.items():
        curves = [_curve(label, points[label]) for label in ("not aligned", "aligned")]
        panels.append(loss_panel(curves, collapsed_loss=points["limit"], title=name))
    save_figure(plot_lines(panels), path)


def _curve(name: str, points: Sequence[Sequence[float]]) -> Curve:
    x, y = np.array(points)
    return Curve(name, x, y)


def _draw_divergence(figures: Figures, path: Path) -> None:
    divergence = figures["curves"]["divergence"]
    panel = divergence_panel(
        [_curve("KL estimate", divergence["points"])], threshold=figures["delta_per_dimension"],
        stopped_at=divergence["stopped_at"], per_dimension=True, x_label="step of the alignment",
    )  # fmt: skip
    save_figure(plot_lines([panel]), path)
