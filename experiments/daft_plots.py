"""The plots of docs/results/daft.md, from its raw figures."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments.daft_runs import Variant, Workplace
from loadtests.results import Figures
from swiftlet.evaluation.comparison import comparison_from, mean_of
from swiftlet.evaluation.plots.embeddings import EmbeddingPanel, plot_pca, plot_tsne
from swiftlet.evaluation.plots.figures import save_figure
from swiftlet.evaluation.plots.lines import Curve, plot_lines
from swiftlet.evaluation.plots.quality import QualityPoint, plot_quality
from training.plots import divergence_panel, loss_panel

EMBEDDINGS = "embeddings.npz"
# Run, state and title of each panel.
PANELS = [
    ("default", "start", "before training"),
    ("cached-fast-unaligned", "ended", "trained without alignment"),
    ("default", "aligned", "aligned"),
    ("default", "ended", "aligned and fine-tuned"),
]


def keep_embeddings(workplace: Workplace, variants: Sequence[Variant], folder: Path) -> None:
    """Keep the embeddings of the panels beside the page, in half precision."""
    runs = {variant.name: variant for variant in variants}
    if all(workplace.is_done(runs[name]) for name, _, _ in PANELS):
        folder.mkdir(parents=True, exist_ok=True)
        arrays = {}
        for name, state, title in PANELS:
            with np.load(workplace.directory(runs[name]) / EMBEDDINGS) as found:
                for kind in ("queries", "documents"):
                    arrays[f"{title} {kind}"] = found[f"{state} {kind}"].astype(np.float16)
        np.savez_compressed(folder / EMBEDDINGS, **arrays)


def draw(figures: Figures, folder: Path) -> None:
    """Draw the plots that have raw figures; other plots are left as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    if "layers" in figures["comparisons"]:
        _draw_layers(figures["comparisons"]["layers"], folder / "latency.png")
    if "curves" in figures:
        _draw_losses(figures["curves"]["losses"], folder / "loss.png")
        _draw_divergence(figures, folder / "divergence.png")
    if (folder / EMBEDDINGS).is_file():
        with np.load(folder / EMBEDDINGS) as found:
            panels = [
                EmbeddingPanel(title, found[f"{title} queries"], found[f"{title} documents"])
                for _, _, title in PANELS
            ]
        save_figure(plot_pca(panels), folder / "embeddings.png")
        save_figure(plot_tsne(panels), folder / "neighbourhoods.png")


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
    """Figure 4."""
    divergence = figures["curves"]["divergence"]
    panel = divergence_panel(
        [_curve("KL estimate", divergence["points"])],
        threshold=figures["delta_per_dimension"],
        stopped_at=divergence["stopped_at"],
        per_dimension=True,
        x_label="step of the alignment",
    )
    save_figure(plot_lines([panel]), path)
