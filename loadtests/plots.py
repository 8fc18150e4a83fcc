"""The pictures of a report; a panel for each service."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from loadtests.answers import OK, REJECTIONS, TOTAL
from loadtests.connection import NO_ANSWER
from loadtests.figures import Figures, fewest_requests
from loadtests.measure import FULL, Measurement

# Okabe and Ito's colours, which people with any colour vision tell apart.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999", "#DDDDDD")
_INK = "#333333"
_PANEL_INCHES = (4.8, 3.6)
_LEGEND_INCHES = 0.5
_DOTS_PER_INCH = 150
_CURVES = {50.0: "p50", 90.0: "p90", 99.0: "p99", 99.9: "p99.9"}
_CURVE_TICKS = (50.0, 90.0, 99.0, 99.9, 99.99)
_CURVE_POINTS = 400
# What lies behind fewer requests than this is chance.
_FEWEST_BEHIND_A_POINT = 3
REST, OUTSIDE = "rest of the service", "not in its report"


def draw_all(measurements: Sequence[Measurement], folder: Path) -> dict[str, str]:
    """Write the pictures into `folder`; their file names, each with what it shows."""
    pictures: dict[str, tuple[str, Callable[[Axes, Measurement], None]]] = {
        "latency.png": ("Latency against the rate, open loop", _draw_latency),
        "percentiles.png": ("Share of requests that are as fast, open loop", _draw_percentiles),
        "stages.png": ("Where the time goes, mean of answered requests", _draw_stages),
        "rejections.png": ("What becomes of requests, by rate", _draw_outcomes),
    }
    for name, (_, draw) in pictures.items():
        # What a stage takes differs so much that one scale for all would hide it.
        _draw(measurements, draw, share_y=draw is not _draw_stages).savefig(
            folder / name, dpi=_DOTS_PER_INCH, metadata={"Software": None}
        )
    return {name: title for name, (title, _) in pictures.items()}


def _draw(
    measurements: Sequence[Measurement],
    draw: Callable[[Axes, Measurement], None],
    *,
    share_y: bool,
) -> Figure:
    width, height = _PANEL_INCHES
    count = len(measurements)
    figure = Figure(
        figsize=(width * max(count, 1.3), height + _LEGEND_INCHES), layout="constrained"
    )
    for axes, measurement in zip(
        figure.subplots(1, count, squeeze=False, sharey=share_y).flat, measurements, strict=True
    ):
        _style(axes)
        draw(axes, measurement)
        axes.set_title(measurement.subject.name)
    handles = {
        label: handle
        for axes in figure.axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=min(len(handles), 3 * count),
        frameon=False,
        fontsize=9,
    )
    return figure


def _draw_latency(axes: Axes, measurement: Measurement) -> None:
    rates = [figures.offered for figures in measurement.rates.values()]
    for (percentile, name), colour in zip(_CURVES.items(), _COLOURS, strict=False):
        enough = fewest_requests(percentile)
        latencies = [
            figures.latency(percentile) if len(figures.latencies) >= enough else math.nan
            for figures in measurement.rates.values()
        ]
        axes.plot(rates, latencies, color=colour, marker="o", markersize=4, label=name)
    least, most = measurement.saturations[0], measurement.saturations[-1]
    axes.axvspan(least, most, color=_INK, alpha=0.12, linewidth=0)
    axes.axvline(least, color=_INK, linestyle=":", linewidth=1.2)
    axes.annotate(
        "saturation",
        (least, 1.0),
        xycoords=axes.get_xaxis_transform(),
        xytext=(-5, -4),
        textcoords="offset points",
        ha="right",
        va="top",
        rotation=90,
        fontsize=8,
        color=_INK,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
    )
    axes.set(xlabel="requests a second", ylabel="latency, ms", xlim=(0, None))
    _style_milliseconds(axes)


def _draw_percentiles(axes: Axes, measurement: Measurement) -> None:
    for (percent, figures), colour in zip(measurement.rates.items(), _COLOURS, strict=False):
        count = len(figures.latencies)
        if not count:
            continue
        most = max(2.0, count / _FEWEST_BEHIND_A_POINT)
        one_in = np.geomspace(1.0, most, _CURVE_POINTS)
        axes.plot(
            one_in,
            np.percentile(figures.latencies, 100 * (1 - 1 / one_in)),
            color=colour,
            label=f"{percent:g}% of saturation",
        )
    ticks = [100 / (100 - percentile) for percentile in _CURVE_TICKS]
    axes.set(xlabel="per cent of requests that are as fast", ylabel="latency, ms")
    axes.set(xscale="log")
    axes.set_xticks(ticks, [f"{percentile:g}" for percentile in _CURVE_TICKS])
    axes.set_xticks([], minor=True)
    axes.set_xlim(1.0, 1.1 * max((line.get_xdata()[-1] for line in axes.get_lines()), default=2.0))
    _style_milliseconds(axes)


def _draw_stages(axes: Axes, measurement: Measurement) -> None:
    # In overload the queue is all there is to see.
    rates = {
        percent: figures
        for percent, figures in measurement.rates.items()
        if percent < FULL and not figures.rejected_share
    } or measurement.rates
    stacks = {percent: stacked_stages(figures) for percent, figures in rates.items()}
    names = list(dict.fromkeys(name for stack in stacks.values() for name in stack))
    positions = np.arange(len(stacks))
    below = np.zeros(len(stacks))
    colours = dict(zip([n for n in names if n not in {REST, OUTSIDE}], _COLOURS, strict=False))
    colours |= {REST: _COLOURS[-2], OUTSIDE: _COLOURS[-1]}
    for name in names:
        heights = np.array([stack.get(name, 0.0) for stack in stacks.values()])
        axes.bar(positions, heights, 0.6, bottom=below, color=colours[name], label=name)
        below += heights
    axes.set_xticks(positions, [f"{percent:g}%" for percent in stacks])
    axes.set(xlabel="of saturation", ylabel="mean, ms")
    axes.grid(visible=False, axis="x")


def stacked_stages(figures: Figures) -> dict[str, float]:
    """Mean milliseconds of each stage, of the rest of the service, and of what lies outside it."""
    stages = {name: mean for name, mean in figures.stages.items() if name != TOTAL}
    inside = figures.stages.get(TOTAL, 0.0)
    if inside:
        stages[REST] = max(0.0, inside - sum(stages.values()))
    stages[OUTSIDE] = max(0.0, figures.mean_latency - inside)
    return stages


def _draw_outcomes(axes: Axes, measurement: Measurement) -> None:
    names = {OK: "answered", **{status: f"rejected, {status}" for status in REJECTIONS}}
    names[NO_ANSWER] = "no answer"
    percents = list(measurement.rates)
    positions = np.arange(len(percents))
    below = np.zeros(len(percents))
    shown = {OK, *(status for each in measurement.rates.values() for status in each.statuses)}
    order = [*names, *sorted(shown - names.keys())]
    for status in sorted(shown, key=order.index):
        colour = _COLOURS[order.index(status) % len(_COLOURS)]
        shares = np.array(
            [
                100 * figures.statuses[status] / max(1, len(figures.measured))
                for figures in measurement.rates.values()
            ]
        )
        axes.bar(
            positions, shares, 0.6, bottom=below, color=colour, label=names.get(status, str(status))
        )
        below += shares
    axes.set_xticks(positions, [f"{percent:g}%" for percent in percents])
    axes.set(xlabel="rate, of saturation", ylabel="per cent of requests", ylim=(0, 100))
    axes.grid(visible=False, axis="x")


def _style_milliseconds(axes: Axes) -> None:
    if not np.isfinite(axes.dataLim.ymax):  # nothing was answered
        return
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda value, _position: f"{value:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def _style(axes: Axes) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("bottom", "left"):
        axes.spines[side].set_color("#888888")
    axes.tick_params(colors=_INK, labelsize=9)
    axes.grid(color="#E6E6E6", linewidth=0.8)
    axes.set_axisbelow(True)
