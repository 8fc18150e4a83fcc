"""The files of a load test: report.md with its raw figures, CSV tables, pictures, each request."""

import csv
import gzip
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import psutil

from loadtests import results
from loadtests.arguments import Plan
from loadtests.figures import (
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
from loadtests.locust_run import LocustFigures
from loadtests.measure import Measurement
from loadtests.plots import draw_all
from loadtests.systems import file_name

REPORT_FILE, RAW_FILE, RATES_FILE = "report.md", "report.json", "rates.csv"
SATURATION_FILE, LOCUST_FILE = "saturation.csv", "locust.csv"
REQUESTS_FOLDER = "requests"
TEMPLATE = "loadtests/report.md.j2"

_MIDDLE = 50.0
_MOST_TIMES_THE_MIDDLE = 5.0
_NONE = "-"

Row = dict[str, str]


def write_report(
    measurements: Sequence[Measurement], plan: Plan, folder: Path, *, command: str, machine: str
) -> None:
    """Write report.md with its raw figures, pictures and CSV tables into `folder`."""
    pictures = draw_all(measurements, folder)
    _write_csv(folder / RATES_FILE, [row for each in measurements for row in _rate_rows(each)])
    _write_csv(folder / SATURATION_FILE, [r for each in measurements for r in _step_rows(each)])
    _write_csv(folder / LOCUST_FILE, [row for each in measurements for row in _locust_rows(each)])
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
        "seconds": plan.seconds,
        "warm_up": plan.warm_up,
        "step_seconds": plan.step_seconds,
        "seed": plan.seed,
        "growth": round(GROWTH - 1, 4),
        "most_clients": MOST_CLIENTS,
        "fewest": {"p99": fewest_requests(99.0), "p99.9": fewest_requests(99.9)},
        "busy_share": BUSY_SHARE,
        "summary": [_summary(each) for each in measurements],
        "bounds": [row for each in measurements for row in _bounds(each)],
        "pictures": pictures,
        "services": [
            {
                "name": each.system.name,
                "command": each.system.command,
                "artefacts": list(each.artefacts),
                "steps": _step_rows(each),
                "rates": _rate_rows(each),
                "stages": _stage_rows(each),
                "locust": _locust_rows(each),
                "warnings": each.warnings,
            }
            for each in measurements
        ],
    }
    results.write(folder / RAW_FILE, figures)


def write_requests(measurements: Iterable[Measurement], folder: Path) -> None:
    """Write every request of the open loops; times in seconds, from the end of the warm-up on.

    The files of an earlier run are removed.
    """
    for earlier in folder.glob("*.csv.gz"):
        earlier.unlink()
    for measurement in measurements:
        folder.mkdir(exist_ok=True)
        for percent, figures in measurement.rates.items():
            name = file_name(measurement.system.name)
            began = figures.load.began
            with gzip.open(folder / f"{name}-{percent:g}.csv.gz", "wt", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(
                    ["kind", "scheduled", "begun", "sent", "finished", "status", "server_timing"]
                )
                for each in figures.load.exchanges:
                    moments = (each.scheduled, each.begun, each.sent, each.finished)
                    shown = [f"{moment - began:.6f}" for moment in moments]
                    timing = each.server_timing.decode()
                    writer.writerow([each.request.kind, *shown, each.status, timing])


def _summary(measurement: Measurement) -> Row:
    row = {
        "service": measurement.system.name,
        "saturation, answers a second": _range(measurement.saturations),
    }
    for percent, figures in measurement.rates.items():
        row[f"p50 / p99 at {percent:g}%, ms"] = (
            f"{_latency(figures, _MIDDLE) or _NONE} / {_latency(figures, 99.0) or _NONE}"
        )
    return row


def _bounds(measurement: Measurement) -> list[Row]:
    figures = measurement.rates.get(_MIDDLE)
    if figures is None:
        return []
    row = {
        "service": measurement.system.name,
        "bound": f"p99 at 50% of saturation is at most {_MOST_TIMES_THE_MIDDLE:g} times p50",
    }
    if len(figures.latencies) < fewest_requests(99.0):
        return [row | {"measured": "", "": "too few requests to tell"}]
    times = figures.latency(99.0) / figures.latency(_MIDDLE)
    kept = "kept" if times <= _MOST_TIMES_THE_MIDDLE else "**missed**"
    if unsteadiness(*measurement.saturation_around[_MIDDLE]):
        kept += f", while {CHANGED}"
    return [row | {"measured": f"{times:.2f} times", "": kept}]


def _rate_rows(measurement: Measurement) -> list[Row]:
    return [
        {
            "service": measurement.system.name,
            "% of saturation": f"{percent:g}",
            "saturation before": f"{measurement.saturation_around[percent][0]:.1f}",
            "saturation after": f"{measurement.saturation_around[percent][1]:.1f}",
            "offered a second": f"{figures.offered:.1f}",
            "came a second": f"{len(figures.measured) / figures.load.seconds:.1f}",
            "answered a second": f"{figures.answered_rate:.1f}",
            **{f"p{p:g}": _latency(figures, p) for p in PERCENTILES},
            "longest": _ms(figures.latency(100.0)),
            "rejected": f"{figures.rejected_share:.1%}",
            "failed": str(figures.failed),
            **_shares(figures),
            "generator late, p50 / p99": f"{_ms(figures.late(50.0))} / {_ms(figures.late(99.0))}",
        }
        for percent, figures in measurement.rates.items()
    ]


def _step_rows(measurement: Measurement) -> list[Row]:
    return [
        {
            "service": measurement.system.name,
            "clients": str(clients),
            "answered a second": f"{figures.answered_rate:.1f}",
            **{f"p{p:g}": _latency(figures, p) for p in (_MIDDLE, 99.0)},
            **_shares(figures),
        }
        for clients, figures in measurement.steps.items()
    ]


def _stage_rows(measurement: Measurement) -> list[Row]:
    rows = []
    for percent, figures in measurement.rates.items():
        stages = {name: _ms(mean) for name, mean in figures.stages.items() if name != TOTAL}
        whole = {"service, whole": _ms(figures.stages[TOTAL])} if TOTAL in figures.stages else {}
        latency = {"latency": _ms(figures.mean_latency)}
        rows.append({"% of saturation": f"{percent:g}", **stages, **whole, **latency})
    return rows


def _locust_rows(measurement: Measurement) -> list[Row]:
    rows = []
    for percent, found in measurement.locust.items():
        figures = measurement.rates[percent]
        both = {
            p: (_latency(figures, p), _latency(found, p), figures.latency(p) / found.latency(p))
            for p in (_MIDDLE, 99.0)
        }
        rows.append(
            {
                "service": measurement.system.name,
                "% of saturation": f"{percent:g}",
                "users": str(found.users),
                "answered a second": f"{found.rate:.1f}",
                **{f"p{p:g}": _latency(found, p) for p in PERCENTILES},
                **{
                    f"open loop / Locust, p{p:g}": f"{ratio:.2f}" if ours and theirs else ""
                    for p, (ours, theirs, ratio) in both.items()
                },
                "failed": str(found.failures),
                "rejected": str(found.rejections),
                "Locust's core": f"{found.generator_share:.0%}",
            }
        )
    return rows


def _shares(figures: Figures) -> Row:
    service = figures.service_share
    return {
        "service's CPU": "" if service is None else f"{service:.0%}",
        "generator's CPU": f"{figures.generator_share:.0%}",
    }


def _write_csv(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        names = list(dict.fromkeys(name for row in rows for name in row))
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)


def _range(ascending: Sequence[float]) -> str:
    least, most = f"{ascending[0]:,.0f}", f"{ascending[-1]:,.0f}"
    return least if least == most else f"{least} to {most}"


def _latency(figures: Figures | LocustFigures, percentile: float) -> str:
    """A percentile of the latencies; empty if there are too few requests for it."""
    enough = len(figures.latencies) >= fewest_requests(percentile)
    return _ms(figures.latency(percentile)) if enough else ""


def _ms(milliseconds: float) -> str:
    """A number with three digits, or without decimals if it has more; empty for NaN."""
    if math.isnan(milliseconds):
        return ""
    return f"{milliseconds:.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"
