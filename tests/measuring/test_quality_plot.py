"""Quality against latency: each model where its figures are, its name beside it."""

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from measuring.quality_plot import QualityPoint, plot_quality

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
