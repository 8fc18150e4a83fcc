"""The measurement of one system under test: saturation, and the rates around it."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from loadtests.arguments import Plan
from loadtests.systems import SystemUnderTest
from measuring.command_line import LoadTestError
from measuring.load_figures import Figures, find_saturation, unsteadiness
from measuring.loads import closed_loop, open_loop, poisson_arrivals
from measuring.processes import Service
from measuring.traffic import traffic

FULL = 100.0
_WARM_UP_CLIENTS = 8
_ENDS_WITHIN_SECONDS = 1.0


@dataclass(slots=True)
class Measurement:
    """The figures of one system.

    `rates` and `saturation_around` (the saturation rate right before and right after) are keyed by
    per cent of saturation.
    """

    system: SystemUnderTest
    saturation: float
    steps: Mapping[int, Figures]
    artefacts: Sequence[str]
    rates: dict[float, Figures] = field(default_factory=dict)
    saturation_around: dict[float, tuple[float, float]] = field(default_factory=dict)
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
