"""The plots of docs/results/daft.md: figures 2 to 6 of 001 in miniature."""

from argparse import Namespace
from pathlib import Path

import numpy as np

from experiments.daft.figures import DELTA_PER_DIMENSION, LONGEST_ALIGNMENT, SETTINGS, stopping
from experiments.daft.runs import directory
from measuring.plots import EmbeddingPanel, QualityPoint, plot_pca, plot_quality, plot_tsne
from measuring.results import Figures
from swiftlet.evaluation.plots.figures import save_figure
from swiftlet.evaluation.plots.lines import Curve, LinePanel, Moment, plot_lines
from training.plots import divergence_panel, loss_panel


def draw(work: Path, figures: Figures, results: Path) -> None:
    """Draw the plots that have raw figures, of the first seed."""
    folder = results / "daft"
    folder.mkdir(parents=True, exist_ok=True)
    runs = {name: each["0"]["stages"] for name, each in figures["runs"].items() if "0" in each}
    if figures["latencies"]:
        _draw_layers(figures, folder / "latency.png")
    if all(name in runs for pair in SETTINGS["curves"] for name in pair):
        _draw_losses(runs, folder / "loss.png")
    if "stopping" in figures:
        _draw_alignment(runs[LONGEST_ALIGNMENT]["alignment"], folder / "divergence.png")
    draw_embeddings(work, folder)


def draw_embeddings(work: Path, folder: Path) -> None:
    """Figures 3 and 5, if all their runs with the first seed are on this machine."""
    options, panels = Namespace(work=work), []
    for name, state, title in SETTINGS["panels"]:
        if not (file := directory(options, (name, 0)) / "embeddings.npz").is_file():
            return
        with np.load(file) as found:
            kinds = (found[f"{state} {kind}"] for kind in ("queries", "documents"))
            panels.append(EmbeddingPanel(title, *kinds))
    save_figure(plot_pca(panels), folder / "embeddings.png")
    save_figure(plot_tsne(panels), folder / "neighbourhoods.png")


def _draw_layers(figures: Figures, path: Path) -> None:
    """Figure 6: mean nDCG@10 over the tests against latency."""
    means = {name: figures["tested"][name]["mean"] for name in figures["latencies"]}
    points = [
        QualityPoint(SETTINGS["layers"][name], ms, means[name]["mean"], "DAFT", means[name]["half"])
        for name, ms in figures["latencies"].items()
    ]
    label = "nDCG@10, mean over the tests"
    save_figure(plot_quality(points, quality_label=label, latency_label="ms a query"), path)


def _draw_losses(runs: Figures, path: Path) -> None:
    """Figure 2, for each choice of negatives, each with its own limit."""
    panels = []
    for aligned, unaligned in SETTINGS["curves"]:
        curves = [
            Curve(label, *np.array(runs[run]["fine-tuning"]["losses"], float))
            for label, run in (("not aligned", unaligned), ("aligned", aligned))
            if "fine-tuning" in runs[run]
        ]
        limit = runs[unaligned]["fine-tuning"]["evaluations"][-1]["collapsed_loss"]
        panels.append(loss_panel(curves, collapsed_loss=limit, title=aligned))
    save_figure(plot_lines(panels), path)


def _draw_alignment(alignment: Figures, path: Path) -> None:
    """Figure 4: the KL estimate with δ, and nDCG@10 with the plateau that ends an alignment."""
    steps, kl, ndcg = (
        np.array([each[name] for each in alignment["evaluations"]])
        for name in ("step", "kl_per_dimension", "ndcg@10")
    )
    ends = {row["criterion"]: row["step"] for row in stopping(alignment)}
    of_plateau = ends["plateau of nDCG@10, 35 steps"]
    label = "step of the alignment"
    threshold = divergence_panel(
        [Curve("KL estimate", steps, kl)], threshold=DELTA_PER_DIMENSION,
        stopped_at=ends[f"δ = {DELTA_PER_DIMENSION:.3f} a dimension"], per_dimension=True,
        x_label=label, title="threshold",
    )  # fmt: skip
    plateau = LinePanel(
        "nDCG@10", [Curve("nDCG@10", steps, ndcg)], label, "plateau of 35 steps", markers=True,
        moments=[] if of_plateau is None else [Moment(of_plateau, "stopped")],
    )  # fmt: skip
    save_figure(plot_lines([threshold, plateau]), path)
