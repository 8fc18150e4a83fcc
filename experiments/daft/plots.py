"""The plots of docs/results/daft.md: figures 2 to 6 of 001 in miniature."""

from argparse import Namespace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.daft.evaluations import DELTA_PER_DIMENSION, stopping
from experiments.daft.figures import LONGEST_ALIGNMENT
from experiments.daft.runs import directory
from measuring.experiment import settings_beside
from measuring.plots import (
    COLOURS,
    INK,
    EmbeddingPanel,
    QualityPoint,
    new_figure,
    plot_pca,
    plot_quality,
    plot_tsne,
    save_figure,
)
from measuring.results import Figures

Floats = NDArray[np.float64]

SETTINGS = settings_beside(__file__)

THRESHOLD = f"δ = {DELTA_PER_DIMENSION:.3f} a dimension"
_PANEL_INCHES = (4.6, 3.3)


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
    figure = new_figure(*_PANEL_INCHES, len(SETTINGS["curves"]))
    for axes, (aligned, unaligned) in zip(figure.axes, SETTINGS["curves"], strict=True):
        labels = ("not aligned", unaligned), ("aligned", aligned)
        for colour, (label, run) in zip(COLOURS, labels, strict=False):
            if "fine-tuning" in runs[run]:
                steps, losses = np.array(runs[run]["fine-tuning"]["losses"], float)
                axes.plot(steps, losses, color=colour, alpha=0.25, linewidth=0.8)
                axes.plot(steps, _smoothed(losses), color=colour, label=label)
        limit = runs[unaligned]["fine-tuning"]["evaluations"][-1]["collapsed_loss"]
        axes.axhline(limit, color=INK, linestyle="--", label="ln(|D⁻| + 1)")
        axes.set(title=aligned, xlabel="step", ylabel="training loss", ylim=(0, None))
    lines, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside lower center", ncols=3, frameon=False)
    save_figure(figure, path)


def _smoothed(values: Floats) -> Floats:
    """The mean (n,) of a twentieth of the values around each value of (n,)."""
    window = np.ones(max(1, round(len(values) / 20)))
    sums = np.convolve(values, window, "same")
    return np.asarray(sums / np.convolve(np.ones(len(values)), window, "same"))


def _draw_alignment(alignment: Figures, path: Path) -> None:
    """Figure 4: the KL estimate with δ, and nDCG@10 with the plateau that ends an alignment."""
    ends = {row["criterion"]: row["step"] for row in stopping(alignment)}
    figure = new_figure(*_PANEL_INCHES, 2)
    threshold, plateau = figure.axes
    for axes, name, label, criterion in (
        (threshold, "kl_per_dimension", "KL estimate per dimension", THRESHOLD),
        (plateau, "ndcg@10", "nDCG@10", "plateau of nDCG@10, 35 steps"),
    ):
        steps, values = ([each[of] for each in alignment["evaluations"]] for of in ("step", name))
        axes.plot(steps, values, marker="o", markersize=4)
        axes.set(xlabel="step of the alignment", ylabel=label, title=criterion)
        if ends[criterion] is not None:
            axes.axvline(ends[criterion], color=INK, linestyle=":")
    threshold.axhline(DELTA_PER_DIMENSION, color=INK, linestyle="--")
    save_figure(figure, path)
