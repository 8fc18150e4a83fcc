"""Maps are true to the embeddings; each model is where its quality and its latency are."""

import re

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb

from measuring.plots import (
    DOCUMENT_COLOUR,
    QUERY_COLOUR,
    EmbeddingPanel,
    QualityPoint,
    plot_pca,
    plot_quality,
    plot_tsne,
    save_figure,
)

GENERATOR = np.random.default_rng(0)


def cloud(number: int, dim: int, centre: float = 0.0, spread: float = 1.0) -> np.ndarray:
    return (centre + spread * GENERATOR.normal(size=(number, dim))).astype(np.float32)


def points(axes, colour: str) -> np.ndarray:
    """The points of one colour, (n, 2)."""
    (collection,) = axes.collections
    chosen = np.all(np.isclose(collection.get_facecolors()[:, :3], to_rgb(colour)), axis=1)
    return collection.get_offsets()[chosen]


def shares(axes) -> list[float]:
    labels = axes.get_xlabel(), axes.get_ylabel()
    return [float(re.search(r"\(([\d.]+)%", label)[1]) for label in labels]


def test_queries_are_orange_documents_blue_and_distances_true():
    # All in one plane of a space with three dimensions: nothing is lost.
    queries = np.array([[3, 0, 1], [3, 1, 1]], dtype=np.float32)
    documents = np.array([[-3, 0, 1], [-3, -1, 1], [0, 0, 1]], dtype=np.float32)
    figure = plot_pca([EmbeddingPanel("before", queries, documents)])
    (axes,) = figure.axes
    orange, blue = points(axes, QUERY_COLOUR), points(axes, DOCUMENT_COLOUR)
    assert (len(orange), len(blue)) == (2, 3)
    everything = np.concatenate([queries, documents])
    plane = np.concatenate([orange, blue])

    def distances(rows: np.ndarray) -> np.ndarray:
        return np.sort(np.linalg.norm(rows[:, None] - rows[None], axis=-1).ravel())

    np.testing.assert_allclose(distances(plane), distances(everything), atol=1e-6)
    assert sum(shares(axes)) == pytest.approx(100, abs=0.11)
    assert axes.get_title() == "before"
    assert axes.get_xlim() == axes.get_ylim()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["queries", "documents"]


def test_components_are_fitted_on_both_towers_together():
    # The towers differ along one axis alone, within neither tower is there variance along it.
    queries, documents = cloud(50, 8, spread=0.1), cloud(70, 8, spread=0.1)
    queries[:, 0], documents[:, 0] = 4.0, -4.0
    (axes,) = plot_pca([EmbeddingPanel("", queries, documents)]).axes
    gap = points(axes, QUERY_COLOUR)[:, 0].mean() - points(axes, DOCUMENT_COLOUR)[:, 0].mean()
    assert abs(gap) == pytest.approx(8.0, abs=0.01)
    assert shares(axes)[0] > 99


def test_panels_share_one_scale_so_that_a_collapse_is_one_spot():
    panels = [
        EmbeddingPanel("before", cloud(40, 6), cloud(60, 6)),
        EmbeddingPanel("collapsed", cloud(40, 6, 0.4, 1e-4), cloud(60, 6, 0.4, 1e-4)),
    ]
    before, collapsed = plot_pca(panels).axes
    assert before.get_xlim() == collapsed.get_xlim()
    assert np.abs(points(collapsed, QUERY_COLOUR)).max() < 0.001 * collapsed.get_xlim()[1]
    # Rounding is never enlarged to a cloud, also of a collapse alone.
    (alone,) = plot_pca(panels[1:]).axes
    assert np.abs(points(alone, QUERY_COLOUR)).max() < 0.05 * alone.get_xlim()[1]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("plot", [plot_pca, plot_tsne])
@pytest.mark.parametrize(
    ("queries", "documents"),
    [
        (np.ones((5, 4)), np.ones((5, 4))),
        (np.zeros((3, 2)), np.zeros((4, 2))),
        (np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])),
    ],
)
def test_degenerate_embeddings_have_a_picture(plot, queries, documents, tmp_path):
    figure = plot([EmbeddingPanel("x", queries, documents)])
    (axes,) = figure.axes
    assert len(points(axes, QUERY_COLOUR)) == len(queries)
    assert np.isfinite(axes.collections[0].get_offsets()).all()
    first, second = tmp_path / "first.png", tmp_path / "second.png"
    save_figure(figure, first)
    save_figure(plot([EmbeddingPanel("x", queries, documents)]), second)
    assert first.read_bytes() == second.read_bytes()


def test_a_tsne_map_keeps_clusters_apart_and_can_be_drawn_again():
    panel = EmbeddingPanel("", cloud(30, 10, 5.0), cloud(40, 10, -5.0))
    maps = [plot_tsne([panel]).axes[0] for _ in range(2)]
    orange, blue = points(maps[0], QUERY_COLOUR), points(maps[0], DOCUMENT_COLOUR)
    np.testing.assert_array_equal(orange, points(maps[1], QUERY_COLOUR))
    gap = np.linalg.norm(orange.mean(0) - blue.mean(0))
    assert gap > max(np.linalg.norm(side - side.mean(0), axis=1).max() for side in (orange, blue))
    assert list(maps[0].get_xticks()) == []


# Table 2 of 001, on TREC-DL-Doc.
PAPER = [
    QualityPoint("L=12", 79.1, 0.595, "DAFT"),
    QualityPoint("L=2", 15.6, 0.544, "DAFT"),
    QualityPoint("L=4", 29.4, 0.563, "DAFT"),
    QualityPoint("L=6", 42.8, 0.548, "DAFT", half=0.1),
    QualityPoint("ANCE", 78.8, 0.628),
]


def test_points_of_a_series_are_joined_in_order_of_latency_and_have_bars() -> None:
    figure = plot_quality(PAPER, quality_label="nDCG@10", latency_label="ms")
    (axes,) = figure.axes
    daft, alone = axes.get_lines()
    assert daft.get_xdata().tolist() == [15.6, 29.4, 42.8, 79.1]
    assert daft.get_ydata().tolist() == [0.544, 0.563, 0.548, 0.595]
    assert (daft.get_linestyle(), alone.get_linestyle()) == ("-", "None")
    assert axes.collections[0].get_segments()[2][:, 1].tolist() == pytest.approx([0.448, 0.648])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["DAFT"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("ms", "nDCG@10")


def test_names_are_whole_and_beside_their_points() -> None:
    figure = plot_quality(PAPER, quality_label="nDCG@10", latency_label="ms")
    (axes,) = figure.axes
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    assert [text.get_text() for text in axes.texts] == [point.name for point in PAPER]
    for text, point in zip(axes.texts, PAPER, strict=True):
        box = text.get_window_extent(renderer)
        x, y = axes.transData.transform((point.latency_ms, point.quality))
        assert axes.bbox.x0 <= box.x0
        assert box.x1 <= axes.bbox.x1
        assert min(abs(box.x0 - x), abs(box.x1 - x)) < 20
        assert 0 < box.y0 - y < 20
