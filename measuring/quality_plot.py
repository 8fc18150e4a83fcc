"""Retrieval quality against latency (001, Figure 6)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise
from typing import TYPE_CHECKING

import numpy as np

from swiftlet.errors import InvalidArgumentError, shown
from swiftlet.evaluation.plots.figures import COLOURS, INK, new_figure, use_logarithms
from swiftlet.extras import extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox

# Places of a label around its point, best first: offset in points, and the nearest side or corner.
_PLACES = (
    ((4, 4), "left", "bottom"),
    ((-4, 4), "right", "bottom"),
    ((4, -4), "left", "top"),
    ((-4, -4), "right", "top"),
    ((0, 6), "center", "bottom"),
    ((0, -6), "center", "top"),
    ((7, 0), "left", "center"),
    ((-7, 0), "right", "center"),
)
_MARKER_POINTS = 6.0


@dataclass(frozen=True, slots=True)
class QualityPoint:
    """The latency and quality of a model, which is drawn with a bar of `half` above and below.

    Points of one `series` are joined by a line, in order of latency; points without one are not.
    """

    name: str
    latency_ms: float
    quality: float
    series: str = ""
    half: float = 0.0


def plot_quality(
    points: Sequence[QualityPoint],
    *,
    quality_label: str = "nDCG@10",
    latency_label: str = "latency per query (ms)",
    log_latency: bool = False,
) -> "Figure":
    """Quality against latency, each point with its name beside it.

    :raises InvalidArgumentError: When there is no point, or a latency is not above 0.
    :raises MissingExtraError: When matplotlib is not installed.
    """
    if not points:
        raise InvalidArgumentError("there is no point to draw")
    for point in points:
        if not point.latency_ms > 0:
            raise InvalidArgumentError(
                f"{shown(point.name)} has a latency of {point.latency_ms:g} ms, but more than 0 "
                "is expected"
            )
    figure = new_figure(5.2, 3.5)
    (axes,) = figure.axes
    colours = cycle(COLOURS)
    names = list(dict.fromkeys(point.series for point in points))
    for name in names:
        members = sorted((p for p in points if p.series == name), key=lambda p: p.latency_ms)
        axes.errorbar(
            [point.latency_ms for point in members],
            [point.quality for point in members],
            [point.half for point in members],
            fmt="o-" if name else "o",
            color=next(colours) if name else INK,
            linewidth=1.4,
            markersize=_MARKER_POINTS,
            label=name or "_alone",
        )
    if log_latency:
        use_logarithms(axes, "x")
    axes.margins(x=0.12, y=0.15)
    axes.set(xlabel=latency_label, ylabel=quality_label)
    if any(names):
        figure.legend(loc="outside lower center", ncols=4, frameon=False)
    _place_labels(figure, axes, points)
    return figure


def _place_labels(figure: "Figure", axes: "Axes", points: Sequence[QualityPoint]) -> None:
    """Put each name at the place where it covers the least of points, lines and other names."""
    with extra("evaluation"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.transforms import Bbox
    # Sizes in pixels are known after the layout.
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    taken = [
        Bbox.from_extents(x - half, y - half, x + half, y + half)
        for line in axes.get_lines()
        for x, y, half in _covered(line, figure.dpi / 72)
    ]
    for point in points:
        labels = [_label(axes, point, place) for place in range(len(_PLACES))]
        boxes = [label.get_window_extent(renderer) for label in labels]
        best = min(range(len(labels)), key=lambda n: (_overlap(boxes[n], taken, axes.bbox), n))
        for place, label in enumerate(labels):
            if place != best:
                label.remove()
        taken.append(boxes[best])


def _covered(line: "Line2D", pixels_per_point: float) -> list[tuple[float, float, float]]:
    """Squares (x, y, half a side) in pixels that cover the markers and the line between them."""
    corners = line.get_transform().transform(line.get_xydata())
    squares = [(x, y, _MARKER_POINTS / 2 * pixels_per_point) for x, y in corners]
    if line.get_linestyle() == "None":
        return squares
    half = 1.5 * pixels_per_point
    for first, last in pairwise(corners):
        number = int(np.abs(last - first).max() / half)
        squares += [(x, y, half) for x, y in np.linspace(first, last, number + 2)]
    return squares


def _label(axes: "Axes", point: QualityPoint, place: int) -> "Annotation":
    offset, horizontal, vertical = _PLACES[place]
    return axes.annotate(
        point.name,
        (point.latency_ms, point.quality),
        xytext=offset,
        textcoords="offset points",
        ha=horizontal,
        va=vertical,
        color=INK,
        fontsize=9,
    )


def _overlap(box: "Bbox", taken: Sequence["Bbox"], within: "Bbox") -> float:
    """The area of `box` in square pixels that is taken already, or outside the axes."""
    from matplotlib.transforms import Bbox

    covered = [Bbox.intersection(box, other) for other in taken]
    inside = Bbox.intersection(box, within)
    outside = box.width * box.height - (inside.width * inside.height if inside else 0.0)
    return float(outside + sum(part.width * part.height for part in covered if part))
