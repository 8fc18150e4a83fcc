"""The whole measurement of one service: saturation, the rates around it, Locust."""

import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from loadtests.arrivals import poisson_arrivals
from loadtests.command_line import LoadTestError
from loadtests.connection import NO_ANSWER
from loadtests.figures import Figures
from loadtests.loads import Load, closed_loop, open_loop
from loadtests.locust_run import LocustFigures, run_locust
from loadtests.processes import Service, requests_counted
from loadtests.saturation import find_saturation, unsteadiness
from loadtests.traffic import BATCH_PATH, SEARCH_PATH, Mix, traffic

FULL = 100.0
_WARM_UP_CLIENTS = 8
_COUNTED_WITHIN_SECONDS = 2.0
_ENDS_WITHIN_SECONDS = 1.0
# How the service counts a request whose client has left; here it has no answer.
_CLIENT_LEFT = 499


@dataclass(frozen=True, slots=True)
class Subject:
    """A service to measure; `describe` says line by line what a running one serves."""

    name: str
    command: str
    ready_path: str
    start: Callable[[], AbstractContextManager[Service]]
    describe: Callable[[Service], Sequence[str]] = lambda _service: ()


def file_name(name: str) -> str:
    """As which the files of a service of that name begin."""
    return re.sub(r"\W+", "-", name).strip("-")


@dataclass(frozen=True, slots=True)
class Plan:
    """How to measure; `percents` are of the saturation rate, times in seconds."""

    queries_file: Path
    queries: Sequence[str]
    mix: Mix
    percents: Sequence[float]
    seconds: float
    warm_up: float
    step_seconds: float
    seed: int
    service_cores: Sequence[int]
    generator_cores: Sequence[int]
    with_locust: bool = True


@dataclass(slots=True)
class Measurement:
    """What was found out about one service.

    `rates`, `saturation_around` (as it was right before and right after) and `locust` go by per
    cent of saturation.
    """

    subject: Subject
    saturation: float
    steps: Mapping[int, Figures]
    artefacts: Sequence[str]
    rates: dict[float, Figures] = field(default_factory=dict)
    saturation_around: dict[float, tuple[float, float]] = field(default_factory=dict)
    locust: dict[float, LocustFigures] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)

    @property
    def saturations(self) -> list[float]:
        """Every saturation rate that was measured, ascending."""
        around = [rate for both in self.saturation_around.values() for rate in both]
        return sorted([self.saturation, *around])


def measure(subject: Subject, plan: Plan) -> Measurement:
    """Start the service, load it, end it.

    :raises LoadTestError: When it does not start, answers nothing, or ends by itself.
    """
    _say(f"{subject.name}: starting")
    with subject.start() as service:
        try:
            measurement = _measure(service, subject, plan)
        except LoadTestError:
            service.check(_ENDS_WITHIN_SECONDS)  # whose end explains the rest
            raise
    for complaint in measurement.complaints:
        _say(f"{subject.name}: {complaint}")
    return measurement


def _measure(service: Service, subject: Subject, plan: Plan) -> Measurement:
    _closed(service, plan, _WARM_UP_CLIENTS, plan.warm_up)
    _say(f"{subject.name}: looking for the saturation rate")
    best_clients, steps = find_saturation(
        lambda clients: _closed(service, plan, clients, plan.step_seconds)
    )
    saturation = steps[best_clients].answered_rate
    if not saturation:
        raise LoadTestError(
            f"{subject.name} answered no request with 200, but {_statuses(steps[1])}; "
            "are the queries and the mix what it takes?"
        )
    measurement = Measurement(subject, saturation, steps, subject.describe(service))
    for clients, step in steps.items():
        measurement.complaints += [f"with {clients} clients: {why}" for why in step.distrust]

    def saturation_now(when: str) -> float:
        figures = _closed(service, plan, best_clients, plan.step_seconds)
        measurement.complaints += [f"{when}: {why}" for why in figures.distrust]
        return figures.answered_rate

    for percent in plan.percents:
        before = saturation_now(f"before {percent:g}%")
        if not before:
            measurement.complaints.append(
                f"before {percent:g}%: it answered no request with 200 any more; "
                "from there on nothing was measured"
            )
            break
        rate = before * percent / FULL
        _say(f"{subject.name}: {percent:g}% of saturation, {rate:,.1f} requests a second")
        figures = _open(service, plan, rate, measurement.complaints)
        if plan.with_locust and percent < FULL:
            _say(f"{subject.name}: the same by Locust")
            measurement.locust[percent] = _locust(service, subject, plan, rate)
        after = saturation_now(f"after {percent:g}%")
        measurement.rates[percent] = figures
        measurement.saturation_around[percent] = before, after
        reasons = [*figures.distrust, *unsteadiness(before, after)]
        measurement.complaints += [f"at {percent:g}%: {why}" for why in reasons]
    return measurement


def _closed(service: Service, plan: Plan, clients: int, seconds: float) -> Figures:
    requests = traffic(plan.queries, plan.mix, seed=plan.seed + clients)
    cpu_before = service.cpu_seconds
    load = closed_loop(service.address, requests, clients=clients, seconds=seconds)
    return Figures(load, service_share=(service.cpu_seconds - cpu_before) / load.wall_seconds)


def _open(service: Service, plan: Plan, rate: float, complaints: list[str]) -> Figures:
    moments = poisson_arrivals(rate, plan.warm_up + plan.seconds, seed=plan.seed)
    if not len(moments):
        raise LoadTestError(
            f"{rate:.3g} requests a second are none in {plan.seconds:g} s; give it more time"
        )
    requests = traffic(plan.queries, plan.mix, seed=plan.seed)
    cpu_before, counted_before = service.cpu_seconds, requests_counted(service)
    load = open_loop(service.address, requests, moments, warm_up=plan.warm_up, seconds=plan.seconds)
    share = (service.cpu_seconds - cpu_before) / load.wall_seconds
    if counted_before is not None:
        complaints += _differences(load, service, counted_before)
    return Figures(load, offered=rate, service_share=share)


def _differences(load: Load, service: Service, before: Mapping[tuple[str, int], int]) -> list[str]:
    """Where the service's own counters and the generator's differ."""
    asked = Counter((each.request.path, each.status) for each in load.exchanges)
    deadline = time.monotonic() + _COUNTED_WITHIN_SECONDS
    while True:
        after = requests_counted(service) or {}
        counted = {key: after.get(key, 0) - before.get(key, 0) for key in {*after, *asked}}
        differences = [
            f"the service counted {counted[path, status]} answers {status} of {path}, "
            f"the generator {asked[path, status]}"
            for path, status in sorted(counted)
            if path in {SEARCH_PATH, BATCH_PATH}
            and status not in {NO_ANSWER, _CLIENT_LEFT}
            and counted[path, status] != asked[path, status]
        ]
        # A request is counted when its answer has left, which may be noticed here before.
        if not differences or time.monotonic() > deadline:
            return differences
        time.sleep(_COUNTED_WITHIN_SECONDS / 100)


def _locust(service: Service, subject: Subject, plan: Plan, rate: float) -> LocustFigures:
    return run_locust(
        service.address,
        queries=plan.queries_file,
        mix=plan.mix,
        ready_path=subject.ready_path,
        rate=rate,
        seconds=plan.seconds,
        seed=plan.seed,
        cores=plan.generator_cores,
    )


def _statuses(figures: Figures) -> str:
    return (
        ", ".join(f"{count} times {status}" for status, count in figures.statuses.items()) or "none"
    )


def _say(text: str) -> None:
    print(f"loadtests: {text}", file=sys.stderr, flush=True)
