"""Curves over steps or epochs, with marked levels and moments."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from swiftlet.evaluation.plots.figures import COLOURS, INK, new_figure, use_logarithms
from swiftlet.extras import extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

_PANEL_INCHES = (4.6, 3.3)
_SMOOTHED_POINTS_SHARE = 1 / 20


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A named line through the points (x, y), each (n,); values of y that are NaN leave a gap.

    `colour` is the next of the palette if none is given.
    """

    name: str
    x: Floats
    y: Floats
    colour: str | None = None
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Level:
    """A marked value of y: a dashed horizontal line, labelled at the right."""

    y: float
    label: str


@dataclass(frozen=True, slots=True)
class Moment:
    """A marked value of x: a dotted vertical line, labelled on top."""

    x: float
    label: str


@dataclass(frozen=True, slots=True)
class LinePanel:
    """One pair of axes.

    With `smoothed`, each curve is a moving average over a twentieth of its points, with the raw one
    faintly behind. `markers` show each point. `y_limits` are the ends of the y-axis; None leaves an
    end to the data. `logarithmic_x` and `logarithmic_y` scale the axes.
    """

    y_label: str
    curves: Sequence[Curve]
    x_label: str = "step"
    title: str = ""
    levels: Sequence[Level] = ()
    moments: Sequence[Moment] = ()
    smoothed: bool = False
    markers: bool = False
    y_limits: tuple[float | None, float | None] = (None, None)
    logarithmic_x: bool = False
    logarithmic_y: bool = False


def plot_lines(panels: Sequence[LinePanel]) -> "Figure":
    """Draw panels side by side; curves of one name have one colour in all of them.

    :raises MissingExtraError: When matplotlib is not installed.
    """
    figure = new_figure(*_PANEL_INCHES, len(panels))
    names = list(dict.fromkeys(curve.name for panel in panels for curve in panel.curves))
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}
    for axes, panel in zip(figure.axes, panels, strict=True):
        for curve in panel.curves:
            _draw(axes, curve, curve.colour or colours[curve.name], panel)
        _annotate(axes, panel)
    if len(names) > 1:
        # One legend for all, below, where no curve can cross it.
        handles = {
            str(line.get_label()): line
            for axes in figure.axes
            for line in axes.get_lines()
            if line.get_label() in names
        }
        figure.legend(
            handles=list(handles.values()),
            loc="outside lower center",
            ncols=min(len(handles), 2 * len(panels)),
            frameon=False,
        )
    return figure


def moving_average(values: Floats, window: int) -> Floats:
    """The mean of `window` values around each value of (n,); fewer at the ends, and without NaN."""
    with extra("evaluation"):
        import pandas as pd
    rolling = pd.Series(values, dtype=float).rolling(window, center=True, min_periods=1)
    averages: Floats = rolling.mean().to_numpy()
    return averages


def _draw(axes: "Axes", curve: Curve, colour: str, panel: LinePanel) -> None:
    style = "--" if curve.dashed else "-"
    y = curve.y
    if panel.smoothed:
        window = max(1, round(len(y) * _SMOOTHED_POINTS_SHARE))
        axes.plot(curve.x, y, color=colour, alpha=0.25, linewidth=0.8, label="_raw")
        y = moving_average(y, window)
    axes.plot(
        curve.x,
        y,
        style,
        color=colour,
        linewidth=1.8,
        marker="o" if panel.markers else None,
        markersize=4,
        label=curve.name,
    )


def _annotate(axes: "Axes", panel: LinePanel) -> None:
    text = {"textcoords": "offset points", "color": INK, "fontsize": 9}
    for level in panel.levels:
        axes.axhline(level.y, color=INK, linestyle="--", linewidth=1.1, label="_level")
        at_right = {"xycoords": axes.get_yaxis_transform(), "xytext": (4, 0), "va": "center"}
        axes.annotate(level.label, (1.0, level.y), **at_right, **text)
    for moment in panel.moments:
        axes.axvline(moment.x, color=INK, linestyle=":", linewidth=1.2, label="_moment")
        on_top = {"xycoords": axes.get_xaxis_transform(), "xytext": (0, 3), "ha": "center"}
        axes.annotate(moment.label, (moment.x, 1.0), **on_top, **text)
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label)
    axes.set_title(panel.title, pad=18 if panel.moments else 6)
    axes.margins(x=0.02, y=0.06)
    if panel.logarithmic_x:
        use_logarithms(axes, "x")
    if panel.logarithmic_y:
        use_logarithms(axes, "y")
    axes.set_ylim(*panel.y_limits)
    if axes.get_xlim()[1] >= 10_000 and not panel.logarithmic_x:
        axes.xaxis.set_major_formatter(lambda value, _position: f"{value:,.0f}")
