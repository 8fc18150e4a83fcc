"""Quality against latency: each model where its figures are, its name beside it."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from measuring.quality_plot import QualityPoint, plot_quality
from swiftlet.errors import InvalidArgumentError

# Table 2 of 001, on TREC-DL-Doc.
PAPER = [
    QualityPoint("L=12", 79.1, 0.595, "DAFT"),
    QualityPoint("L=2", 15.6, 0.544, "DAFT"),
    QualityPoint("L=4", 29.4, 0.563, "DAFT"),
    QualityPoint("L=6", 42.8, 0.548, "DAFT"),
    QualityPoint("L=8", 55.1, 0.582, "DAFT"),
    QualityPoint("L=10", 67.4, 0.583, "DAFT"),
    QualityPoint("In-batch", 78.8, 0.544),
    QualityPoint("BM25 negatives", 78.8, 0.539),
    QualityPoint("ANCE", 78.8, 0.628),
]


def test_points_of_a_series_are_joined_in_order_of_latency():
    figure = plot_quality(PAPER)
    (axes,) = figure.axes
    daft, alone = axes.get_lines()
    assert daft.get_xdata().tolist() == [15.6, 29.4, 42.8, 55.1, 67.4, 79.1]
    assert daft.get_ydata().tolist() == [0.544, 0.563, 0.548, 0.582, 0.583, 0.595]
    assert daft.get_linestyle() == "-"
    assert alone.get_linestyle() == "None"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["DAFT"]
    assert axes.get_xlabel() == "latency per query (ms)"
    assert axes.get_ylabel() == "nDCG@10"


def test_a_point_has_a_bar_of_half_above_and_below():
    (axes,) = plot_quality([QualityPoint("a", 1.0, 0.5, half=0.1)]).axes
    (bars,) = axes.collections
    assert bars.get_segments()[0][:, 1].tolist() == pytest.approx([0.4, 0.6])


@pytest.mark.parametrize("log_latency", [False, True])
def test_names_cover_no_point_and_no_other_name(log_latency):
    figure = plot_quality(PAPER, log_latency=log_latency)
    (axes,) = figure.axes
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    assert sorted(text.get_text() for text in axes.texts) == sorted(point.name for point in PAPER)
    boxes = {text.get_text(): text.get_window_extent(renderer) for text in axes.texts}
    for one, other in combinations(boxes, 2):
        assert not boxes[one].overlaps(boxes[other]), (one, other)
    for name, box in boxes.items():
        for point in PAPER:
            x, y = axes.transData.transform((point.latency_ms, point.quality))
            assert not box.contains(x, y), (name, point.name)
        assert axes.bbox.x0 <= box.x0
        assert box.x1 <= axes.bbox.x1
        own = next(point for point in PAPER if point.name == name)
        place = axes.transData.transform((own.latency_ms, own.quality))
        nearest = np.clip(place, (box.x0, box.y0), (box.x1, box.y1))
        assert np.linalg.norm(nearest - place) < 15


def test_latency_may_be_logarithmic():
    (axes,) = plot_quality(PAPER, log_latency=True).axes
    assert axes.get_xscale() == "log"
    assert axes.xaxis.get_major_formatter()(0.5, 0) == "0.5"
    (axes,) = plot_quality(PAPER[6:], quality_label="P@1", latency_label="s").axes
    assert axes.get_xscale() == "linear"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("s", "P@1")
    assert axes.get_figure().legends == []


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([], "there is no point"),
        ([QualityPoint("x", 0.0, 0.5)], "'x' has a latency of 0 ms, but more than 0"),
        ([QualityPoint("x", float("nan"), 0.5)], "'x' has a latency of nan ms"),
    ],
)
def test_points_that_cannot_be_placed_are_refused(points, message):
    with pytest.raises(InvalidArgumentError, match=message):
        plot_quality(points)
