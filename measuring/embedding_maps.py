"""Maps of the embeddings of queries and documents (001, Figures 1, 3 and 5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from swiftlet.errors import InvalidArgumentError, shown
from swiftlet.evaluation.plots.figures import DOCUMENT_COLOUR, QUERY_COLOUR, new_figure
from swiftlet.extras import extra
from swiftlet.types import Embeddings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Plane = NDArray[np.float64]
"""Points of a plane, (n, 2)."""

_PANEL_INCHES = 3.4
_MARGIN = 1.06
# Half the side of the smallest square shown, relative to the largest norm. Closer points count as
# equal: a larger scale would show their rounding errors as a cloud.
_SMALLEST_HALF_SIDE = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddingPanel:
    """Embeddings of queries (n, dim) and of documents (m, dim) at one moment of training."""

    title: str
    queries: Embeddings
    documents: Embeddings


def plot_pca(panels: Sequence[EmbeddingPanel], *, same_scale: bool = True) -> "Figure":
    """Each panel's two principal components, fitted on its queries and documents together.

    Queries are orange, documents blue, as in the paper. Each axis has its share of the variance.
    With `same_scale` all panels have one scale, so that a collapse is one spot. Without it each
    panel fills its axes.

    :raises InvalidArgumentError: When there is no panel; or one has fewer than two embeddings, an
        embedding that is not finite, or queries and documents of different dim.
    :raises MissingExtraError: When matplotlib or scikit-learn is not installed.
    """
    with extra("evaluation"):
        from matplotlib.ticker import MaxNLocator
    points = _points(panels)
    projected = [_principal_components(every) for every in points]
    figure = _drawn(panels, [plane for plane, _ in projected])
    limits = [
        max(
            _MARGIN * float(np.abs(plane).max()),
            _SMALLEST_HALF_SIDE * float(np.linalg.norm(every, axis=1).max()),
        )
        for every, (plane, _) in zip(points, projected, strict=True)
    ]
    for axes, limit, (_, shares) in zip(figure.axes, limits, projected, strict=True):
        half_side = (max(limits) if same_scale else limit) or 1.0
        axes.set(
            xlim=(-half_side, half_side),
            ylim=(-half_side, half_side),
            xlabel=f"PC 1 ({shares[0]:.1%} of variance)",
            ylabel=f"PC 2 ({shares[1]:.1%})",
        )
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    return figure


def plot_tsne(
    panels: Sequence[EmbeddingPanel], *, perplexity: float = 30.0, seed: int = 0
) -> "Figure":
    """Each panel's t-SNE map of its queries and documents together, colours as in `plot_pca`.

    Neighbours stay neighbours, but axes and distances have no meaning. A collapse does not show;
    use `plot_pca` for that. `perplexity` is at most a third of the number of points.

    :raises InvalidArgumentError: As `plot_pca`.
    :raises MissingExtraError: As `plot_pca`.
    """
    planes = [_neighbourhoods(every, perplexity, seed) for every in _points(panels)]
    figure = _drawn(panels, planes)
    for axes in figure.axes:
        axes.grid(visible=False)
        axes.set(xticks=[], yticks=[], xlabel="t-SNE 1", ylabel="t-SNE 2")
    return figure


def _drawn(panels: Sequence[EmbeddingPanel], planes: Sequence[Plane]) -> "Figure":
    figure = new_figure(_PANEL_INCHES, _PANEL_INCHES, len(panels))
    for axes, panel, plane in zip(figure.axes, panels, planes, strict=True):
        _scatter(axes, plane, len(panel.queries))
        axes.set_title(panel.title)
        axes.set_box_aspect(1)
    _legend(figure)
    return figure


def _scatter(axes: "Axes", plane: Plane, num_queries: int) -> None:
    """Draw queries and documents in random order, so that neither covers the other."""
    colours = np.array(
        [QUERY_COLOUR] * num_queries + [DOCUMENT_COLOUR] * (len(plane) - num_queries)
    )
    order = np.random.default_rng(0).permutation(len(plane))
    axes.scatter(
        plane[order, 0],
        plane[order, 1],
        s=9.0,
        c=colours[order].tolist(),
        alpha=0.6,
        linewidths=0,
        rasterized=True,
    )


def _legend(figure: "Figure") -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], linestyle="", marker="o", markersize=6, color=colour, label=label)
        for label, colour in (("queries", QUERY_COLOUR), ("documents", DOCUMENT_COLOUR))
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)


def _principal_components(points: Plane) -> tuple[Plane, tuple[float, float]]:
    """The first two components of points (n, dim), and the share of variance that each explains."""
    with extra("evaluation"):
        from sklearn.decomposition import PCA
    number = min(2, *points.shape)
    pca = PCA(n_components=number, svd_solver="full")
    with np.errstate(invalid="ignore"):  # 0 / 0, without any variance
        plane = np.asarray(pca.fit_transform(points), dtype=np.float64)
    shares = [*np.nan_to_num(pca.explained_variance_ratio_), 0.0][:2]
    missing = np.zeros((len(plane), 2 - number))
    return np.hstack([plane, missing]), (float(shares[0]), float(shares[1]))


def _neighbourhoods(points: Plane, perplexity: float, seed: int) -> Plane:
    """The t-SNE map of points (n, dim); equal points all map to 0."""
    if not np.ptp(points, axis=0).any():  # t-SNE divides by the standard deviation
        return np.zeros((len(points), 2))
    with extra("evaluation"):
        from sklearn.manifold import TSNE
    fitting = max(1.0, min(perplexity, (len(points) - 1) / 3))
    # The same as init="pca", which scikit-learn refuses for a single dimension.
    start, _ = _principal_components(points)
    start *= 1e-4 / np.std(start[:, 0])
    tsne = TSNE(perplexity=fitting, init=start.astype(np.float32), random_state=seed)
    return np.asarray(tsne.fit_transform(points), dtype=np.float64)


def _points(panels: Sequence[EmbeddingPanel]) -> list[Plane]:
    """Queries, then documents of each panel, (n + m, dim)."""
    if not panels:
        raise InvalidArgumentError("there is no panel to draw")
    for panel in panels:
        _check(panel)
    return [np.concatenate([panel.queries, panel.documents]).astype(np.float64) for panel in panels]


def _check(panel: EmbeddingPanel) -> None:
    queries, documents = panel.queries, panel.documents
    if queries.ndim != 2 or documents.ndim != 2 or queries.shape[1] != documents.shape[1]:
        raise InvalidArgumentError(
            f"the panel {shown(panel.title)} has queries of shape {queries.shape} and documents of "
            f"shape {documents.shape}, but (n, dim) and (m, dim) are expected"
        )
    if len(queries) + len(documents) < 2:
        raise InvalidArgumentError(
            f"the panel {shown(panel.title)} has {len(queries) + len(documents)} embeddings, but "
            "at least 2 are expected"
        )
    if not (np.isfinite(queries).all() and np.isfinite(documents).all()):
        raise InvalidArgumentError(
            f"the panel {shown(panel.title)} has an embedding that is not finite"
        )
