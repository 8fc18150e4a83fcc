"""Curves are drawn where their figures are."""

import numpy as np

from swiftlet.evaluation.plots.figures import COLOURS
from swiftlet.evaluation.plots.lines import (
    Curve,
    Level,
    LinePanel,
    Moment,
    moving_average,
    plot_lines,
)

X = np.arange(5.0)


def lines(axes) -> dict[str, object]:
    return {line.get_label(): line for line in axes.get_lines()}


def test_a_curve_has_one_colour_in_all_panels_and_one_legend_names_it():
    panels = [
        LinePanel("cosine", [Curve("one", X, X), Curve("other", X, 2 * X)]),
        LinePanel("rank", [Curve("other", X, 3 * X), Curve("third", X, X, "black", dashed=True)]),
    ]
    figure = plot_lines(panels)
    cosine, rank = figure.axes
    assert lines(cosine)["one"].get_color() == COLOURS[0]
    assert lines(cosine)["other"].get_color() == lines(rank)["other"].get_color() == COLOURS[1]
    assert lines(rank)["third"].get_color() == "black"
    assert lines(rank)["third"].get_linestyle() == "--"
    np.testing.assert_array_equal(lines(rank)["other"].get_ydata(), 3 * X)
    assert [axes.get_ylabel() for axes in (cosine, rank)] == ["cosine", "rank"]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["one", "other", "third"]


def test_a_curve_alone_needs_no_legend():
    assert plot_lines([LinePanel("loss", [Curve("one", X, X)])]).legends == []


def test_levels_and_moments_stand_where_they_belong():
    panel = LinePanel(
        "loss",
        [Curve("one", X, X)],
        levels=[Level(2.5, "chance")],
        moments=[Moment(3.0, "stopped")],
        y_limits=(0.0, None),
    )
    (axes,) = plot_lines([panel]).axes
    assert set(lines(axes)["_level"].get_ydata()) == {2.5}
    assert set(lines(axes)["_moment"].get_xdata()) == {3.0}
    assert [text.get_text() for text in axes.texts] == ["chance", "stopped"]
    assert axes.get_ylim()[0] == 0.0
    assert axes.get_ylim()[1] > 4.0


def test_a_smoothed_curve_is_drawn_over_the_raw_one():
    x = np.arange(200.0)
    y = np.where(x % 2, 1.0, 3.0)
    (axes,) = plot_lines([LinePanel("loss", [Curve("run", x, y)], smoothed=True)]).axes
    raw, smooth = lines(axes)["_raw"], lines(axes)["run"]
    np.testing.assert_array_equal(raw.get_ydata(), y)
    assert raw.get_alpha() < 0.5
    np.testing.assert_allclose(smooth.get_ydata()[10:-10], 2.0)


def test_a_moving_average_equals_one_computed_by_hand():
    values = np.array([1.0, 2.0, np.nan, 4.0, 9.0])
    np.testing.assert_allclose(moving_average(values, 3), [1.5, 1.5, 3.0, 6.5, 6.5])
    np.testing.assert_allclose(moving_average(values, 1), values)
    np.testing.assert_allclose(moving_average(values, 100), [4.0] * 5)
    assert moving_average(np.array([]), 3).shape == (0,)


def test_large_steps_have_separators():
    (axes,) = plot_lines([LinePanel("loss", [Curve("run", 20_000 * X, X)])]).axes
    assert axes.xaxis.get_major_formatter()(40_000, 0) == "40,000"
