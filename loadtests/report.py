"""What a load test leaves: report.md, CSV tables, pictures, and every single request."""

import csv
import gzip
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from loadtests.answers import TOTAL
from loadtests.figures import BUSY_SHARE, PERCENTILES, Figures, fewest_requests
from loadtests.locust_run import LocustFigures
from loadtests.machine import threads_of_a_core
from loadtests.measure import Measurement, Plan, file_name
from loadtests.plots import draw_all
from loadtests.saturation import CHANGED, GROWTH, MOST_CLIENTS, unsteadiness

REPORT_FILE, RATES_FILE = "report.md", "rates.csv"
SATURATION_FILE, LOCUST_FILE = "saturation.csv", "locust.csv"
REQUESTS_FOLDER = "requests"

_MIDDLE = 50.0
_MOST_TIMES_THE_MIDDLE = 5.0
_NONE = "-"


def write_report(
    measurements: Sequence[Measurement], plan: Plan, folder: Path, *, command: str, machine: str
) -> None:
    """Write report.md with its pictures and CSV tables into `folder`."""
    pictures = draw_all(measurements, folder)
    _write_csv(folder / RATES_FILE, [row for each in measurements for row in _rate_rows(each)])
    _write_csv(folder / SATURATION_FILE, [r for each in measurements for r in _step_rows(each)])
    _write_csv(folder / LOCUST_FILE, [row for each in measurements for row in _locust_rows(each)])
    sections = [
        _head(plan, command, machine),
        "## Side by side\n\n" + _table(map(_summary, measurements)),
        *_bounds(measurements),
        *(f"![{title}]({name})" for name, title in pictures.items()),
        *map(_section, measurements),
    ]
    text = "\n\n".join(section.strip() for section in sections)
    (folder / REPORT_FILE).write_text(f"{text}\n", "utf-8")


def write_requests(measurements: Iterable[Measurement], folder: Path) -> None:
    """Write every request of the open loops; times in seconds, from the end of the warm-up on.

    Those of an earlier run are removed.
    """
    for earlier in folder.glob("*.csv.gz"):
        earlier.unlink()
    for measurement in measurements:
        folder.mkdir(exist_ok=True)
        for percent, figures in measurement.rates.items():
            name = file_name(measurement.subject.name)
            began = figures.load.began
            with gzip.open(folder / f"{name}-{percent:g}.csv.gz", "wt", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(
                    ["kind", "scheduled", "begun", "sent", "finished", "status", "server_timing"]
                )
                for each in figures.load.exchanges:
                    moments = (each.scheduled, each.begun, each.sent, each.finished)
                    writer.writerow(
                        [
                            each.request.kind,
                            *(f"{moment - began:.6f}" for moment in moments),
                            each.status,
                            each.server_timing.decode(),
                        ]
                    )


def _head(plan: Plan, command: str, machine: str) -> str:
    service, generator = (_cores(each) for each in (plan.service_cores, plan.generator_cores))
    shared = set(plan.service_cores) & set(plan.generator_cores)
    pinning = (
        f"Service and generator share the cores {service}: each takes time from the other, and the "
        "figures are those of a machine on which both run."
        if shared
        else f"The service has the cores {service} to itself, the generator {generator}: neither "
        "takes time from the other, and the service's figures are those of its cores alone."
    )
    return HEAD.format(
        command=command,
        machine=machine,
        pinning=pinning + (SIBLINGS if threads_of_a_core() else ""),
        queries=len(plan.queries),
        queries_file=plan.queries_file.name,
        mix=plan.mix,
        seconds=f"{plan.seconds:g}",
        warm_up=f"{plan.warm_up:g}",
        step_seconds=f"{plan.step_seconds:g}",
        seed=plan.seed,
        growth=f"{GROWTH - 1:.0%}",
        most_clients=MOST_CLIENTS,
        p99_requests=fewest_requests(99.0),
        p999_requests=fewest_requests(99.9),
    )


def _summary(measurement: Measurement) -> dict[str, str]:
    row = {
        "service": measurement.subject.name,
        "saturation, answers a second": _range(measurement.saturations),
    }
    for percent, figures in measurement.rates.items():
        row[f"p50 / p99 at {percent:g}%, ms"] = (
            f"{_latency(figures, _MIDDLE) or _NONE} / {_latency(figures, 99.0) or _NONE}"
        )
    return row


def _bounds(measurements: Iterable[Measurement]) -> list[str]:
    rows = []
    for measurement in measurements:
        figures = measurement.rates.get(_MIDDLE)
        if figures is None:
            continue
        row = {
            "service": measurement.subject.name,
            "bound": f"p99 at 50% of saturation is at most {_MOST_TIMES_THE_MIDDLE:g} times p50",
        }
        if len(figures.latencies) >= fewest_requests(99.0):
            times = figures.latency(99.0) / figures.latency(_MIDDLE)
            kept = "kept" if times <= _MOST_TIMES_THE_MIDDLE else "**missed**"
            if unsteadiness(*measurement.saturation_around[_MIDDLE]):
                kept += f", while {CHANGED}"
            row |= {"measured": f"{times:.2f} times", "": kept}
        else:
            row |= {"measured": "", "": "too few requests to tell"}
        rows.append(row)
    return ["## Bounds\n\n" + _table(rows)] if rows else []


def _section(measurement: Measurement) -> str:
    subject = measurement.subject
    parts = [
        f"## {subject.name}",
        f"`{subject.command}`",
        "\n".join(f"- {line}" for line in measurement.artefacts),
        "Saturation: closed loops with more and more clients.",
        _table(_step_rows(measurement)),
        "Open loop. Latencies in milliseconds, from the scheduled moment on.",
        _table(_rate_rows(measurement)),
        "Where the time goes: means of answered requests, in milliseconds.",
        _table(_stage_rows(measurement)),
    ]
    if measurement.locust:
        parts += [
            LOCUST.format(busy=f"{BUSY_SHARE:.0%}"),
            _table(_locust_rows(measurement)),
        ]
    if measurement.complaints:
        parts += [
            "**Not to be trusted as they stand:**",
            "\n".join(f"- {complaint}" for complaint in measurement.complaints),
        ]
    return "\n\n".join(part for part in parts if part)


def _rate_rows(measurement: Measurement) -> list[dict[str, str]]:
    return [
        {
            "service": measurement.subject.name,
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


def _step_rows(measurement: Measurement) -> list[dict[str, str]]:
    return [
        {
            "service": measurement.subject.name,
            "clients": str(clients),
            "answered a second": f"{figures.answered_rate:.1f}",
            **{f"p{p:g}": _latency(figures, p) for p in (_MIDDLE, 99.0)},
            **_shares(figures),
        }
        for clients, figures in measurement.steps.items()
    ]


def _stage_rows(measurement: Measurement) -> list[dict[str, str]]:
    rows = []
    for percent, figures in measurement.rates.items():
        stages = {name: _ms(mean) for name, mean in figures.stages.items() if name != TOTAL}
        whole = {"service, whole": _ms(figures.stages[TOTAL])} if TOTAL in figures.stages else {}
        latency = {"latency": _ms(figures.mean_latency)}
        rows.append({"% of saturation": f"{percent:g}", **stages, **whole, **latency})
    return rows


def _locust_rows(measurement: Measurement) -> list[dict[str, str]]:
    rows = []
    for percent, found in measurement.locust.items():
        figures = measurement.rates[percent]
        rows.append(
            {
                "service": measurement.subject.name,
                "% of saturation": f"{percent:g}",
                "users": str(found.users),
                "answered a second": f"{found.rate:.1f}",
                **{f"p{p:g}": _latency(found, p) for p in PERCENTILES},
                **{
                    f"open loop / Locust, p{p:g}": f"{figures.latency(p) / found.latency(p):.2f}"
                    if _latency(figures, p) and _latency(found, p)
                    else ""
                    for p in (_MIDDLE, 99.0)
                },
                "failed": str(found.failures),
                "rejected": str(found.rejections),
                "Locust's core": f"{found.generator_share:.0%}",
            }
        )
    return rows


def _shares(figures: Figures) -> dict[str, str]:
    service = figures.service_share
    return {
        "service's CPU": "" if service is None else f"{service:.0%}",
        "generator's CPU": f"{figures.generator_share:.0%}",
    }


def _table(rows: Iterable[dict[str, str]]) -> str:
    """Rows in Markdown; a cell that a row does not have is a dash."""
    listed = list(rows)
    names = list(dict.fromkeys(name for row in listed for name in row))
    lines = [names, ["---"] * len(names), *([row.get(n) or _NONE for n in names] for row in listed)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _write_csv(path: Path, rows: Sequence[dict[str, str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        names = list(dict.fromkeys(name for row in rows for name in row))
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)


def _range(ascending: Sequence[float]) -> str:
    least, most = f"{ascending[0]:,.0f}", f"{ascending[-1]:,.0f}"
    return least if least == most else f"{least} to {most}"


def _cores(cores: Sequence[int]) -> str:
    return ", ".join(map(str, cores))


def _latency(figures: Figures | LocustFigures, percentile: float) -> str:
    """A percentile of the latencies; nothing where too few requests stand behind it."""
    enough = len(figures.latencies) >= fewest_requests(percentile)
    return _ms(figures.latency(percentile)) if enough else ""


def _ms(milliseconds: float) -> str:
    """To three digits, or whole where there are more; nothing for NaN."""
    if math.isnan(milliseconds):
        return ""
    return f"{milliseconds:.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"


SIBLINGS = (
    " Some of this machine's cores are threads of one physical core, and slow each other down."
)
LOCUST = (
    "Locust at the same rates, and the open loop over it. Where Locust took more than {busy} of "
    "its core, its latencies are its own, and longer."
)
HEAD = """\
# Load test

Made by `{command}`.

Machine: {machine}

{pinning}

{queries:,} queries ({queries_file}), {mix}; seed {seed}. Each rate for {seconds} s after a warm-up
of {warm_up} s.

The saturation rate is the most answers a second of closed loops of {step_seconds} s with 1, 2, 4, …
clients, until two doublings in a row bring less than {growth}, or there are {most_clients}. It is
measured again right before each rate, which is a share of that, and right after it and Locust,
since a machine with neighbours is not always as fast. The rates are open loops with Poisson
arrivals: latency counts from the moment at which a request was to begin, so a late start is charged
to the service. What is answered a second is of the requests that came, however long they waited.

Percentiles are of requests that were answered 200 or not at all; rejected are 429, 503 and 504. One
that has no request above it is left out (-): p99 takes {p99_requests:,} requests, p99.9 takes
{p999_requests:,}. Of N requests N/100 are above p99: where these are few, it is chance to a large
part.
"""
