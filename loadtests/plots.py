"""The pictures of a report; a panel for each service."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter

from loadtests.measure import FULL, Measurement
from measuring.http_client import NO_ANSWER, OK, REJECTIONS
from measuring.load_figures import TOTAL, Figures, fewest_requests
from swiftlet.evaluation.plots.figures import COLOURS, GREYS, INK, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

_COLOURS = (*COLOURS, *GREYS)
_CURVES = (50.0, 90.0, 99.0, 99.9)
REST, OUTSIDE = "rest of the service", "not in its report"


def draw_all(measurements: Sequence[Measurement], folder: Path) -> dict[str, str]:
    """Write the pictures into `folder`; the title of each by its file name."""
    pictures: dict[str, tuple[str, Callable[[Axes, Measurement], None]]] = {
        "latency.png": ("Latency against the rate, open loop", _draw_latency),
        "stages.png": ("Time by stage, mean of answered requests", _draw_stages),
        "rejections.png": ("Outcomes of requests, by rate", _draw_outcomes),
    }
    count = len(measurements)
    for name, (_, draw) in pictures.items():
        figure = new_figure(6.2 if count == 1 else 4.8, 4.1, count)
        handles: dict[str, Artist] = {}
        for axes, measurement in zip(figure.axes, measurements, strict=True):
            # Stages differ so much between services that a common scale would hide small ones.
            if axes is not figure.axes[0] and draw is not _draw_stages:
                axes.sharey(figure.axes[0])
            draw(axes, measurement)
            # Two lines: the name of an encoder may be as long as the panel is wide.
            axes.set_title(measurement.system.name.replace("passages, ", "passages,\n"))
            lines, labels = axes.get_legend_handles_labels()
            handles |= dict(zip(labels, lines, strict=True))
        figure.legend(
            handles.values(), handles, loc="outside lower center", frameon=False, fontsize=9,
            ncols=min(len(handles), 3 * min(count, 3)),
        )  # fmt: skip
        save_figure(figure, folder / name)
    return {name: title for name, (title, _) in pictures.items()}


def _draw_latency(axes: "Axes", measurement: Measurement) -> None:
    rates = [figures.offered for figures in measurement.rates.values()]
    for percentile, colour in zip(_CURVES, _COLOURS, strict=False):
        latencies = [
            figures.latency(percentile)
            if len(figures.latencies) >= fewest_requests(percentile)
            else math.nan
            for figures in measurement.rates.values()
        ]
        label = f"p{percentile:g}"
        axes.plot(rates, latencies, color=colour, marker="o", markersize=4, label=label)
    least, most = measurement.saturations[0], measurement.saturations[-1]
    axes.axvspan(least, most, color=INK, alpha=0.12, linewidth=0, label="saturation")
    axes.axvline(least, color=INK, linestyle=":", linewidth=1.2)
    axes.set(xlabel="requests a second", ylabel="latency, ms", xlim=(0, None))
    if np.isfinite(axes.dataLim.ymax):  # otherwise no request was answered
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda value, _position: f"{value:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())


def _draw_stages(axes: "Axes", measurement: Measurement) -> None:
    # Under overload the queue would dwarf all other stages.
    below = {p: f for p, f in measurement.rates.items() if p < FULL and not f.rejected_share}
    stacks = {p: stacked_stages(f) for p, f in (below or measurement.rates).items()}
    names = dict.fromkeys(name for stack in stacks.values() for name in stack)
    stages = [name for name in names if name not in {REST, OUTSIDE}]
    colours = dict(zip(stages, cycle(COLOURS), strict=False))
    _draw_bars(axes, stacks, colours | dict(zip((REST, OUTSIDE), GREYS, strict=True)))
    axes.set(xlabel="of saturation", ylabel="mean, ms")


def stacked_stages(figures: Figures) -> dict[str, float]:
    """Mean milliseconds of the stages that ran, the rest of the service, and the time outside."""
    stages = {name: mean for name, mean in figures.stages.items() if name != TOTAL and mean}
    inside = figures.stages.get(TOTAL, 0.0)
    if inside:
        stages[REST] = max(0.0, inside - sum(stages.values()))
    return stages | {OUTSIDE: max(0.0, figures.mean_latency - inside)}


def _draw_outcomes(axes: "Axes", measurement: Measurement) -> None:
    names = {OK: "answered", **{status: f"rejected, {status}" for status in REJECTIONS}}
    names[NO_ANSWER] = "no answer"
    for status in sorted({n for figures in measurement.rates.values() for n in figures.statuses}):
        names.setdefault(status, str(status))
    stacks = {
        percent: {names[n]: 100 * count / len(each.measured) for n, count in each.statuses.items()}
        for percent, each in measurement.rates.items()
    }
    _draw_bars(axes, stacks, dict(zip(names.values(), cycle(_COLOURS), strict=False)))
    axes.set(xlabel="rate, of saturation", ylabel="per cent of requests", ylim=(0, 100))


def _draw_bars(
    axes: "Axes", stacks: Mapping[float, Mapping[str, float]], colours: Mapping[str, str]
) -> None:
    """Draw a bar for each rate, with its parts stacked in the order of `colours`."""
    below = np.zeros(len(stacks))
    for part, colour in colours.items():
        heights = np.array([stack.get(part, 0.0) for stack in stacks.values()])
        if heights.any():
            axes.bar(range(len(stacks)), heights, 0.6, bottom=below, color=colour, label=part)
            below += heights
    axes.set_xticks(range(len(stacks)), [f"{percent:g}%" for percent in stacks])
    axes.grid(visible=False, axis="x")
