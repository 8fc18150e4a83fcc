"""The figures of a load: rates, percentiles, stages, and whether the generator kept up."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from measuring.http_client import NO_ANSWER, OK, REJECTIONS, Exchange, stage_times
from measuring.loads import Load

PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)
TOTAL = "total"
"""The name of the whole time of a request inside the service, beside those of the stages."""

BUSY_SHARE = 0.9
LATE_SHARE = 0.1
MOST_CLIENTS = 128
GROWTH = 1.03
STEADY = 0.1
CHANGED = "the speed of the machine or of the service changed"


@dataclass(frozen=True, eq=False)
class Figures:
    """The figures of one load; times are in milliseconds.

    Latencies count from the scheduled moment. They include requests that were answered 200, and
    requests without an answer, with the time that was waited. `offered` is the intended rate of an
    open loop, None for a closed one; `service_share` the share of a core that the service used.
    """

    load: Load
    offered: float | None = None
    service_share: float | None = None

    @property
    def end(self) -> float:
        """The moment at which the measurement ended."""
        return self.load.began + self.load.seconds

    @cached_property
    def measured(self) -> list[Exchange]:
        """Requests that were scheduled after the warm-up and before the end."""
        began, end = self.load.began, self.end
        return [each for each in self.load.exchanges if began <= each.scheduled < end]

    @cached_property
    def statuses(self) -> Counter[int]:
        """How many requests were answered with each status."""
        return Counter(exchange.status for exchange in self.measured)

    @property
    def answered_rate(self) -> float:
        """Answers a second with status 200.

        For a closed loop, answers that arrived within the time count; for an open one, answers to
        requests that were scheduled within it.
        """
        if self.offered is not None:
            return self.statuses[OK] / self.load.seconds
        in_time = sum(each.status == OK and each.finished <= self.end for each in self.measured)
        return in_time / self.load.seconds

    @property
    def rejected_share(self) -> float:
        """The share of requests that were rejected: 429, 503 and 504."""
        return sum(self.statuses[status] for status in REJECTIONS) / max(1, len(self.measured))

    @property
    def failed(self) -> int:
        """Requests that were neither answered nor rejected."""
        return len(self.measured) - sum(self.statuses[status] for status in (OK, *REJECTIONS))

    def of_status(self, *statuses: int) -> NDArray[np.float64]:
        """The latencies of requests with one of these statuses, ascending, in milliseconds."""
        return np.sort([1000 * e.latency for e in self.measured if e.status in statuses])

    @cached_property
    def latencies(self) -> NDArray[np.float64]:
        """Ascending, in milliseconds."""
        return self.of_status(OK, NO_ANSWER)

    @property
    def mean_latency(self) -> float:
        """The mean latency of requests that were answered 200, in milliseconds; NaN of none."""
        answered = self.of_status(OK)
        return float(answered.mean()) if len(answered) else math.nan

    def latency(self, percent: float) -> float:
        """A percentile of the latencies; NaN where there are none."""
        return percentile(self.latencies, percent)

    def late(self, percent: float) -> float:
        """A percentile of how late the generator itself began each request, in milliseconds."""
        return percentile(np.array([e.begun - e.scheduled for e in self.measured]) * 1000, percent)

    @cached_property
    def stages(self) -> dict[str, float]:
        """The mean of each stage that the service reports in its answers, and of its `total`."""
        reports = [
            stage_times(each.server_timing.decode()) for each in self.measured if each.status == OK
        ]
        names = dict.fromkeys(name for report in reports for name in report)
        return {name: fmean(report.get(name, 0.0) for report in reports) for name in names}

    @property
    def generator_share(self) -> float:
        """How much of a core the generator used."""
        return self.load.cpu_seconds / self.load.wall_seconds

    @property
    def warnings(self) -> list[str]:
        """Reasons to suspect that the generator, not the service, determined these figures."""
        reasons = []
        if repeated := self.load.repeated:
            reasons.append(
                f"{repeated} requests were sent again on new connections because the service had "
                "closed idle ones"
            )
        if (share := self.generator_share) > BUSY_SHARE:
            reasons.append(f"the generator used {share:.0%} of a core, more than {BUSY_SHARE:.0%}")
        for percent in (50.0, 99.0) if self.offered is not None and len(self.latencies) else ():
            late, latency = self.late(percent), self.latency(percent)
            if late > LATE_SHARE * latency:
                reasons.append(
                    f"the generator's lateness (p{percent:g} {late:.2f} ms) is more than "
                    f"{LATE_SHARE:.0%} of the latency ({latency:.2f} ms)"
                )
        return reasons


def fewest_requests(percent: float) -> int:
    """The number of requests of which one is above the percentile."""
    return round(100 / (100 - percent))


def percentile(values: NDArray[np.float64], percent: float) -> float:
    """A percentile; NaN where there are no values."""
    return float(np.percentile(values, percent)) if len(values) else math.nan


def find_saturation(measure: Callable[[int], Figures]) -> tuple[int, dict[int, Figures]]:
    """The number of clients with the most answers a second, and the figures of each step.

    The saturation rate is the highest rate of 200s of closed loops with 1, 2, 4, … clients. They
    are doubled until two doublings in a row gain less than 3% over the best rate so far, or there
    are 128.

    :param measure: Gives the figures of a closed loop for a number of clients.
    """
    steps: dict[int, Figures] = {}
    best, without_growth, clients = 0.0, 0, 1
    while clients <= MOST_CLIENTS and without_growth < 2:
        steps[clients] = measure(clients)
        rate = steps[clients].answered_rate
        without_growth = 0 if rate > GROWTH * best else without_growth + 1
        best, clients = max(best, rate), 2 * clients
    return max(steps, key=lambda each: steps[each].answered_rate), steps


def unsteadiness(before: float, after: float) -> list[str]:
    """A warning if the saturation rate changed by more than 10% around a measurement.

    :param before: The saturation rate right before the measurement.
        The rate of the measurement is a percentage of it.
    :param after: The saturation rate right after.
    """
    if abs(after / before - 1) <= STEADY:
        return []
    was = f"{before:,.0f} a second right before and {after:,.0f} right after"
    return [f"the saturation rate was {was}: {CHANGED}"]
