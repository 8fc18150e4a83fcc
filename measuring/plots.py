"""The pictures of result pages: maps of embeddings, and quality against latency.

These are figures 1, 3, 5 and 6 of 001. Pictures are made without pyplot, so drawing one changes no
global state.
"""

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from swiftlet.types import Embeddings

Plane = NDArray[np.float64]
"""Points of a plane, (n, 2)."""

# Okabe and Ito's colours, which can be told apart with any colour vision.
QUERY_COLOUR, DOCUMENT_COLOUR = "#E69F00", "#0072B2"
COLOURS = (DOCUMENT_COLOUR, "#D55E00", "#009E73", "#CC79A7", QUERY_COLOUR, "#56B4E9", "#000000")
INK = "#333333"

_MOST_COLUMNS, _LEGEND_INCHES = 3, 0.4
_PANEL_INCHES, _MARGIN = 3.4, 1.06
# Half the side of the smallest square shown, relative to the largest norm. Closer points count as
# equal: a larger scale would show their rounding errors as a cloud.
_SMALLEST_HALF_SIDE = 0.02


def new_figure(width_inches: float, height_inches: float, count: int = 1) -> Figure:
    """An empty figure with `count` axes of this size, at most three side by side."""
    columns = min(count, _MOST_COLUMNS)
    rows = -(-count // columns)
    size = width_inches * columns + _LEGEND_INCHES, height_inches * rows + _LEGEND_INCHES
    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    for number in range(count):
        _style(figure.add_subplot(rows, columns, number + 1))
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG; the same figure gives the same bytes."""
    figure.savefig(path, dpi=150, metadata={"Software": None})


def _style(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["bottom", "left"]].set_color("#888888")
    axes.tick_params(colors=INK, labelsize=9)
    axes.grid(color="#E6E6E6", linewidth=0.8)
    axes.set_axisbelow(True)


class EmbeddingPanel(NamedTuple):
    """Embeddings of queries (n, dim) and of documents (m, dim) at one moment of training."""

    title: str
    queries: Embeddings
    documents: Embeddings

    @property
    def points(self) -> NDArray[np.float64]:
        """Queries, then documents, (n + m, dim)."""
        return np.concatenate([self.queries, self.documents]).astype(np.float64)


def plot_pca(panels: Sequence[EmbeddingPanel]) -> Figure:
    """Each panel's two principal components, fitted on its queries and documents together.

    Queries are orange, documents blue, as in the paper. Each axis has its share of the variance.
    All panels have one scale, so that a collapse is one spot.
    """
    fitted = [_components(panel.points) for panel in panels]
    figure = _drawn(panels, [plane for plane, _ in fitted])
    half = max(
        max(_MARGIN * np.abs(plane).max(),
            _SMALLEST_HALF_SIDE * np.linalg.norm(panel.points, axis=1).max())
        for panel, (plane, _) in zip(panels, fitted, strict=True)
    ) or 1.0  # fmt: skip
    for axes, (_, shares) in zip(figure.axes, fitted, strict=True):
        labels = (f"PC 1 ({shares[0]:.1%} of variance)", f"PC 2 ({shares[1]:.1%})")
        axes.set(xlim=(-half, half), ylim=(-half, half), xlabel=labels[0], ylabel=labels[1])
        axes.locator_params(nbins=5, steps=[1, 2, 5, 10])
    return figure


def plot_tsne(panels: Sequence[EmbeddingPanel]) -> Figure:
    """Each panel's t-SNE map of its queries and documents together, colours as in `plot_pca`.

    Neighbours stay neighbours, but axes and distances have no meaning. A collapse does not show;
    use `plot_pca` for that.
    """
    figure = _drawn(panels, [_neighbourhoods(panel.points) for panel in panels])
    for axes in figure.axes:
        axes.grid(visible=False)
        axes.set(xticks=[], yticks=[], xlabel="t-SNE 1", ylabel="t-SNE 2")
    return figure


def _drawn(panels: Sequence[EmbeddingPanel], planes: Sequence[Plane]) -> Figure:
    figure = new_figure(_PANEL_INCHES, _PANEL_INCHES, len(panels))
    kinds = {"queries": QUERY_COLOUR, "documents": DOCUMENT_COLOUR}
    for axes, panel, plane in zip(figure.axes, panels, planes, strict=True):
        # In random order, so that neither kind covers the other.
        order = np.random.default_rng(0).permutation(len(plane))
        colours = np.repeat([*kinds.values()], [len(panel.queries), len(panel.documents)])[order]
        style = {"s": 9.0, "alpha": 0.6, "linewidths": 0, "rasterized": True}
        axes.scatter(*plane[order].T, c=colours.tolist(), **style)
        axes.set_title(panel.title)
        axes.set_box_aspect(1)
    handles = [
        Line2D([], [], linestyle="", marker="o", markersize=6, color=colour, label=kind)
        for kind, colour in kinds.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    return figure


def _components(points: NDArray[np.float64]) -> tuple[Plane, Sequence[float]]:
    """The first two components of points (n, dim), and the share of variance that each explains."""
    pca = PCA(n_components=2, svd_solver="full")
    with np.errstate(invalid="ignore"):  # 0 / 0, without any variance
        plane = np.asarray(pca.fit_transform(points), dtype=np.float64)
    return plane, np.nan_to_num(pca.explained_variance_ratio_).tolist()


def _neighbourhoods(points: NDArray[np.float64]) -> Plane:
    """The t-SNE map of points (n, dim); equal points all map to 0."""
    if not np.ptp(points, axis=0).any():  # t-SNE divides by the standard deviation
        return np.zeros((len(points), 2))
    perplexity = max(1.0, min(30.0, (len(points) - 1) / 3))
    tsne = TSNE(perplexity=perplexity, init="pca", random_state=0)
    return np.asarray(tsne.fit_transform(points), dtype=np.float64)


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
