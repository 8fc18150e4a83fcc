"""Retrieval quality against latency (001, figure 6)."""

from collections.abc import Sequence
from itertools import cycle
from typing import NamedTuple

from matplotlib.figure import Figure

from swiftlet.evaluation.plots.figures import COLOURS, INK, new_figure


class QualityPoint(NamedTuple):
    """The latency and quality of a model, which is drawn with a bar of `half` above and below.

    Points of one `series` are joined by a line, in order of latency; points without one are not.
    """

    name: str
    latency_ms: float
    quality: float
    series: str = ""
    half: float = 0.0


def plot_quality(
    points: Sequence[QualityPoint], *, quality_label: str, latency_label: str
) -> Figure:
    """Quality against latency, each point with its name beside it."""
    figure = new_figure(5.2, 3.5)
    (axes,) = figure.axes
    colours = cycle(COLOURS)
    names = list(dict.fromkeys(point.series for point in points))
    for name in names:
        members = sorted((p for p in points if p.series == name), key=lambda p: p.latency_ms)
        columns = zip(*((p.latency_ms, p.quality, p.half) for p in members), strict=True)
        style = {"linewidth": 1.4, "markersize": 6.0, "label": name or "_alone"}
        axes.errorbar(
            *columns, fmt="o-" if name else "o", color=next(colours) if name else INK, **style
        )
    axes.margins(x=0.2, y=0.15)
    axes.set(xlabel=latency_label, ylabel=quality_label)
    if any(names):
        figure.legend(loc="outside lower center", ncols=4, frameon=False)
    middle = sum(axes.get_xlim()) / 2
    for point in points:  # towards the middle, so that no name is cut off
        left = point.latency_ms > middle
        axes.annotate(
            point.name, (point.latency_ms, point.quality), xytext=(-6 if left else 6, 6),
            textcoords="offset points", ha="right" if left else "left", color=INK, fontsize=9,
        )  # fmt: skip
    return figure
