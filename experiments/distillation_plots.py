"""The plots of docs/results/distillation.md, from its raw figures."""

from pathlib import Path

from loadtests.results import Figures
from swiftlet.evaluation.plots.figures import COLOURS, new_figure, save_figure
from swiftlet.evaluation.plots.quality import QualityPoint, plot_quality


def draw(figures: Figures, results: Path) -> None:
    """Draw both plots beside the page."""
    _draw_students(figures, results / "distillation-latency.png")
    _draw_layers(figures, results / "distillation.png")


def _draw_students(figures: Figures, path: Path) -> None:
    """Kept share against latency."""
    points = [QualityPoint("the teacher in int8", figures["teacher"]["ms"], 1.0)]
    points += [
        QualityPoint(student["final"], student["ms"], student["mean"], "distilled")
        for student in figures["students"]
        if student["ms"] is not None
    ]
    figure = plot_quality(
        points,
        quality_label="kept share of nDCG@10",
        latency_label="ms a query of 10 tokens, int8, one thread",
    )
    save_figure(figure, path)


def _draw_layers(figures: Figures, path: Path) -> None:
    """The kept share of every trained choice of layers: a panel for each number, best on top."""
    by_number: dict[int, list[tuple[float, str]]] = {}
    for row in figures["layers"]:
        if row["trained"] is not None:
            name = ", ".join(map(str, row["layers"]))
            by_number.setdefault(len(row["layers"]), []).append((row["trained"]["kept"], name))
    figure = new_figure(9.5, 3.4, len(by_number))
    for axes, colour, (number, found) in zip(
        figure.axes, COLOURS, sorted(by_number.items()), strict=False
    ):
        shares, names = zip(*sorted(found), strict=True)
        bars = axes.barh(names, shares, color=colour, height=0.7)
        axes.bar_label(bars, [f"{share:.1%}" for share in shares], padding=3, fontsize=8)
        axes.set(title=f"{number} of 6 layers", xlabel="kept share of nDCG@10")
        axes.set_xlim(min(shares) - 0.08, max(shares) + 0.06)
        axes.locator_params(axis="x", nbins=5)
        axes.xaxis.set_major_formatter(lambda value, _position: f"{100 * value:g}%")
        axes.grid(visible=False, axis="y")
    save_figure(figure, path)
