"""Maps are true to the embeddings; each model is where its quality and its latency are."""

import re

import numpy as np
import pytest
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
