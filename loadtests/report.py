"""The files of a load test: report.md with its raw figures."""

from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import Any

import psutil

from loadtests.arguments import Plan
from loadtests.measure import Measurement
from measuring import results
from measuring.load_figures import (
    BUSY_SHARE,
    CHANGED,
    GROWTH,
    MOST_CLIENTS,
    PERCENTILES,
    TOTAL,
    Figures,
    fewest_requests,
    unsteadiness,
)

REPORT_FILE, RAW_FILE = "report.md", "report.json"
TEMPLATE = "loadtests/report.md.j2"

_MIDDLE = 50.0
_MOST_TIMES_THE_MIDDLE = 5.0

Row = dict[str, Any]


def write_report(
    measurements: Sequence[Measurement], plan: Plan, folder: Path, *, command: str, machine: str
) -> None:
    """Write report.md with its raw figures into `folder`."""
    services, generators = plan.service_cores, plan.generator_cores
    figures = {
        "template": TEMPLATE,
        "command": command,
        "machine": machine,
        "service_cores": ", ".join(map(str, services)),
        "generator_cores": ", ".join(map(str, generators)),
        "shared_cores": bool(set(services) & set(generators)),
        "threads_of_a_core": psutil.cpu_count() != psutil.cpu_count(logical=False),
        "queries": len(plan.queries),
        "queries_file": plan.queries_file.name,
        "mix": str(plan.mix),
        **{name: getattr(plan, name) for name in ("seconds", "warm_up", "step_seconds", "seed")},
        "growth": round(GROWTH - 1, 4),
        "most_clients": MOST_CLIENTS,
        "fewest": {"p99": fewest_requests(99.0), "p99.9": fewest_requests(99.9)},
        "busy_share": BUSY_SHARE,
        "summary": list(map(_summary, measurements)),
        "bounds": [_bound(each) for each in measurements if _MIDDLE in each.rates],
        "services": [
            {
                "name": each.system.name,
                "command": each.system.command,
                "artefacts": list(each.artefacts),
                "warnings": each.warnings,
                "saturation": _numbers(_step_rows(each)),
                "rates": _numbers(_rate_rows(each)),
                "stages": _numbers(_stage_rows(each)),
                "locust": _numbers(_locust_rows(each)),
            }
            for each in measurements
        ],
    }
    results.write(folder / RAW_FILE, figures)


def _summary(measurement: Measurement) -> Row:
    least, most = (f"{measurement.saturations[n]:,.0f}" for n in (0, -1))
    saturation = least if least == most else f"{least} to {most}"
    row = {"service": measurement.system.name, "saturation, answers a second": saturation}
    for percent, figures in measurement.rates.items():
        both = [results.shown(_latency(figures, p)) for p in (_MIDDLE, 99.0)]
        row[f"p50 / p99 at {percent:g}%, ms"] = " / ".join(both)
    return row


def _bound(measurement: Measurement) -> Row:
    figures = measurement.rates[_MIDDLE]
    row = {
        "service": measurement.system.name,
        "bound": f"p99 at 50% of saturation is at most {_MOST_TIMES_THE_MIDDLE:g} times p50",
    }
    if len(figures.latencies) < fewest_requests(99.0):
        return row | {"measured": "", "": "too few requests to tell"}
    times = figures.latency(99.0) / figures.latency(_MIDDLE)
    kept = "kept" if times <= _MOST_TIMES_THE_MIDDLE else "**missed**"
    if unsteadiness(*measurement.saturation_around[_MIDDLE]):
        kept += f", while {CHANGED}"
    return row | {"measured": f"{times:.2f} times", "": kept}


def _rate_rows(measurement: Measurement) -> list[Row]:
    rows = []
    for percent, figures in measurement.rates.items():
        before, after = measurement.saturation_around[percent]
        row = {
            "% of saturation": f"{percent:g}",
            "saturation before": before,
            "saturation after": after,
            "offered a second": figures.offered,
            "came a second": len(figures.measured) / figures.load.seconds,
            "answered a second": figures.answered_rate,
            **{f"p{p:g}": _latency(figures, p) for p in PERCENTILES},
            "longest": figures.latency(100.0),
            "rejected": f"{figures.rejected_share:.1%}",
            "failed": figures.failed,
            **_shares(figures),
            "generator late, p50": figures.late(50.0),
            "generator late, p99": figures.late(99.0),
        }
        rows.append(row)
    return rows


def _step_rows(measurement: Measurement) -> list[Row]:
    return [
        {"clients": clients, "answered a second": figures.answered_rate}
        | {f"p{p:g}": _latency(figures, p) for p in (_MIDDLE, 99.0)}
        | _shares(figures)
        for clients, figures in measurement.steps.items()
    ]


def _stage_rows(measurement: Measurement) -> list[Row]:
    rows = []
    for percent, figures in measurement.rates.items():
        stages = dict(figures.stages)
        whole = {"service, whole": stages.pop(TOTAL)} if TOTAL in stages else {}
        latency = {"latency": figures.mean_latency}
        rows.append({"% of saturation": f"{percent:g}", **stages, **whole, **latency})
    return rows


def _locust_rows(measurement: Measurement) -> list[Row]:
    rows = []
    for percent, found in measurement.locust.items():
        ours = {f"p{p:g}": measurement.rates[percent].latency(p) for p in (_MIDDLE, 99.0)}
        ratios = {f"open loop / Locust, {p}": own / found[p] for p, own in ours.items()}
        rows.append({"% of saturation": f"{percent:g}", **found, **ratios})
    return rows


def _numbers(rows: Sequence[Row]) -> list[Row]:
    """The rows with None for figures that are not numbers, which JSON does not have."""
    return [
        {
            name: None if isinstance(cell, float) and isnan(cell) else cell
            for name, cell in row.items()
        }
        for row in rows
    ]


def _shares(figures: Figures) -> Row:
    service = figures.service_share
    return {
        "service's CPU": "" if service is None else f"{service:.0%}",
        "generator's CPU": f"{figures.generator_share:.0%}",
    }


def _latency(figures: Figures, percentile: float) -> float | None:
    """A percentile of the latencies; None if there are too few requests for it."""
    enough = len(figures.latencies) >= fewest_requests(percentile)
    return figures.latency(percentile) if enough else None
