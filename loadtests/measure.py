"""The measurement of one system under test: saturation, the rates around it, Locust."""

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from loadtests.arguments import Plan
from loadtests.systems import SystemUnderTest
from measuring.command_line import LoadTestError
from measuring.load_figures import Figures, fewest_requests, find_saturation, unsteadiness
from measuring.loads import closed_loop, open_loop, poisson_arrivals
from measuring.processes import Service, pinned
from measuring.traffic import SEARCH_PATH, traffic

FULL = 100.0
_WARM_UP_CLIENTS = 8
_ENDS_WITHIN_SECONDS = 1.0
LOCUSTFILE = Path(__file__).with_name("locustfile.py")
MOST_REQUESTS_A_USER = 10.0
"""Requests a second per user: so few that a request is rarely due before the last answer."""

_FEWEST_USERS = 10
_GRACE_SECONDS = 60.0


@dataclass(slots=True)
class Measurement:
    """The figures of one system.

    `rates`, `saturation_around` (the saturation rate right before and right after) and `locust` are
    keyed by per cent of saturation.
    """

    system: SystemUnderTest
    saturation: float
    steps: Mapping[int, Figures]
    artefacts: Sequence[str]
    rates: dict[float, Figures] = field(default_factory=dict)
    saturation_around: dict[float, tuple[float, float]] = field(default_factory=dict)
    locust: dict[float, dict[str, Any]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def saturations(self) -> list[float]:
        """Every saturation rate that was measured, ascending."""
        around = [rate for both in self.saturation_around.values() for rate in both]
        return sorted([self.saturation, *around])


def measure(system: SystemUnderTest, plan: Plan) -> Measurement:
    """Start the service, load it, stop it.

    :raises LoadTestError: When it does not start, answers no request with 200, or ends by itself.
    """
    _report(f"{system.name}: starting")
    with system.start() as service:
        try:
            measurement = _measure(service, system, plan)
        except LoadTestError:
            service.check(_ENDS_WITHIN_SECONDS)  # reports that the service has ended, if so
            raise
    for warning in measurement.warnings:
        _report(f"{system.name}: {warning}")
    return measurement


def _measure(service: Service, system: SystemUnderTest, plan: Plan) -> Measurement:
    _closed(service, plan, _WARM_UP_CLIENTS, plan.warm_up)
    _report(f"{system.name}: looking for the saturation rate")
    best_clients, steps = find_saturation(
        lambda clients: _closed(service, plan, clients, plan.step_seconds)
    )
    saturation = steps[best_clients].answered_rate
    if not saturation:
        found = [f"{count} times {status}" for status, count in steps[1].statuses.items()]
        raise LoadTestError(
            f"{system.name} answered no request with 200, but {', '.join(found) or 'none'}; check "
            "that it accepts the queries and the mix"
        )
    measurement = Measurement(system, saturation, steps, system.describe(service))
    for clients, step in steps.items():
        measurement.warnings += [f"with {clients} clients: {why}" for why in step.warnings]

    def saturation_now(when: str) -> float:
        figures = _closed(service, plan, best_clients, plan.step_seconds)
        measurement.warnings += [f"{when}: {why}" for why in figures.warnings]
        return figures.answered_rate

    for percent in plan.percents:
        when = f"before {percent:g}%"
        if not (before := saturation_now(when)):
            why = "it answered no request with 200 any more; from there on nothing was measured"
            measurement.warnings.append(f"{when}: {why}")
            break
        rate = before * percent / FULL
        _report(f"{system.name}: {percent:g}% of saturation, {rate:,.1f} requests a second")
        figures = _open(service, plan, rate)
        if plan.with_locust and percent < FULL:
            _report(f"{system.name}: the same by Locust")
            locust = run_locust(service.address, plan, ready_path=system.ready_path, rate=rate)
            measurement.locust[percent] = locust
        after = saturation_now(f"after {percent:g}%")
        measurement.rates[percent] = figures
        measurement.saturation_around[percent] = before, after
        reasons = [*figures.warnings, *unsteadiness(before, after)]
        measurement.warnings += [f"at {percent:g}%: {why}" for why in reasons]
    return measurement


def _closed(service: Service, plan: Plan, clients: int, seconds: float) -> Figures:
    requests = traffic(plan.queries, plan.mix, seed=plan.seed + clients)
    cpu_before = service.cpu_seconds
    load = closed_loop(service.address, requests, clients=clients, seconds=seconds)
    return Figures(load, service_share=(service.cpu_seconds - cpu_before) / load.wall_seconds)


def _open(service: Service, plan: Plan, rate: float) -> Figures:
    moments = poisson_arrivals(rate, plan.warm_up + plan.seconds, seed=plan.seed)
    if not len(moments):
        none = f"{rate:.3g} requests a second are none in {plan.seconds:g} s"
        raise LoadTestError(f"{none}; a longer --duration is expected")
    # Made beforehand, because making a request takes as long as sending it.
    requests = list(islice(traffic(plan.queries, plan.mix, seed=plan.seed), len(moments)))
    cpu_before = service.cpu_seconds
    load = open_loop(service.address, requests, moments, warm_up=plan.warm_up, seconds=plan.seconds)
    share = (service.cpu_seconds - cpu_before) / load.wall_seconds
    return Figures(load, offered=rate, service_share=share)


def _report(text: str) -> None:
    print(f"loadtests: {text}", file=sys.stderr, flush=True)


def run_locust(address: str, plan: Plan, *, ready_path: str, rate: float) -> dict[str, Any]:
    """Run Locust with `rate` requests a second on the generator's cores: a row of the report.

    Latencies are in milliseconds; p99 is NaN if there are too few requests. The share of a core is
    with Locust's start.

    :raises LoadTestError: When it fails to start, or does not end.
    """
    users, mix = max(_FEWEST_USERS, math.ceil(rate / MOST_REQUESTS_A_USER)), plan.mix
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "locust", "--headless", "-f", LOCUSTFILE, "--host", address,
            "--ready-path", ready_path, "--users", users, "--spawn-rate", users,
            "--request-rate", f"{rate:g}", "--run-time", f"{plan.seconds:g}s",
            "--queries", plan.queries_file, "--seed", plan.seed, "--single", mix.single,
            "--batch", mix.batch, "--batch-queries", mix.batch_queries,
            "--top-k", mix.top_k, "--json-file", f"{folder}/found",
        ]  # fmt: skip
        began, cpu_before = time.monotonic(), _cpu_of_ended_children()
        try:
            with pinned(plan.generator_cores):
                ended = subprocess.run(
                    list(map(str, command)), cwd=LOCUSTFILE.parents[1], capture_output=True,
                    text=True, check=False, timeout=plan.seconds + _GRACE_SECONDS,
                )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise LoadTestError(f"Locust did not end within {error.timeout:g} s") from error
        share = (_cpu_of_ended_children() - cpu_before) / (time.monotonic() - began)
        found = Path(folder, "found.json")
        if not found.is_file():
            lines = ended.stderr.strip().splitlines() or ["it wrote nothing"]
            raise LoadTestError(f"Locust ended with status {ended.returncode}: {lines[-1]}")
        entries = json.loads(found.read_text("utf-8"))
    searches = [e for e in entries if e["method"] == "POST" and e["name"].startswith(SEARCH_PATH)]
    # Milliseconds, to three digits, and the number of requests.
    counts = [pair for entry in searches for pair in entry["response_times"].items()]
    times = np.array(counts, float).reshape(-1, 2)
    latencies = np.repeat(times[:, 0], times[:, 1].astype(int))
    enough = len(latencies) >= fewest_requests(99.0)
    p50, p99 = np.percentile(latencies, [50, 99]) if enough else (np.median(latencies), math.nan)
    return {
        "answered a second": len(latencies) / plan.seconds,
        "p50": float(p50),
        "p99": float(p99),
        "failed": sum(entry["num_failures"] for entry in entries),
        "Locust's core": f"{share:.0%}",
    }


def _cpu_of_ended_children() -> float:
    times = psutil.Process().cpu_times()
    return float(times.children_user + times.children_system)
