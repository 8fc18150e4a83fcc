"""What a load shows: rates, percentiles, stages, and whether the generator kept up."""

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from loadtests.answers import OK, REJECTIONS, stage_times
from loadtests.connection import NO_ANSWER, Exchange
from loadtests.loads import Load

PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)
BUSY_SHARE = 0.9
LATE_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class Figures:
    """The figures of one load; times are in milliseconds.

    Latencies are those of requests that were answered 200 or not at all (these count with the time
    that was waited), from the scheduled moment on. `offered` is how many requests a second were to
    come, or None for a closed loop; `service_share` how much of a core the service took.
    """

    load: Load
    offered: float | None = None
    service_share: float | None = None

    @cached_property
    def measured(self) -> list[Exchange]:
        """Those that were scheduled after the warm-up and before the end."""
        end = self.load.began + self.load.seconds
        return [each for each in self.load.exchanges if self.load.began <= each.scheduled < end]

    @cached_property
    def statuses(self) -> Counter[int]:
        """How many were answered with each status."""
        return Counter(exchange.status for exchange in self.measured)

    @property
    def answered_rate(self) -> float:
        """Answers a second with status 200.

        Of a closed loop, those that came within the time; of an open one, those to requests that
        were scheduled within it.
        """
        if self.offered is not None:
            return self.statuses[OK] / self.load.seconds
        end = self.load.began + self.load.seconds
        whole = sum(each.status == OK and each.finished <= end for each in self.measured)
        return whole / self.load.seconds

    @property
    def rejected_share(self) -> float:
        """The share of requests that were rejected: 429, 503 and 504."""
        return sum(self.statuses[status] for status in REJECTIONS) / max(1, len(self.measured))

    @property
    def failed(self) -> int:
        """Requests that were neither answered nor rejected."""
        return len(self.measured) - sum(self.statuses[status] for status in (OK, *REJECTIONS))

    @cached_property
    def latencies(self) -> NDArray[np.float64]:
        """Ascending, in milliseconds."""
        counted = [each for each in self.measured if each.status in {OK, NO_ANSWER}]
        return np.sort([1000 * (each.finished - each.scheduled) for each in counted])

    @property
    def mean_latency(self) -> float:
        """The mean latency of requests that were answered 200, in milliseconds; NaN of none."""
        answered = [each for each in self.measured if each.status == OK]
        if not answered:
            return math.nan
        return 1000 * fmean(each.finished - each.scheduled for each in answered)

    @cached_property
    def lateness(self) -> NDArray[np.float64]:
        """How late the generator itself got to each request, ascending, in milliseconds."""
        return np.sort([1000 * (each.begun - each.scheduled) for each in self.measured])

    def latency(self, percentile: float) -> float:
        """A percentile of the latencies; NaN where there are none."""
        return _percentile(self.latencies, percentile)

    def late(self, percentile: float) -> float:
        """A percentile of the generator's own lateness."""
        return _percentile(self.lateness, percentile)

    @cached_property
    def stages(self) -> dict[str, float]:
        """The mean of each stage that the service reports of its answers, and of its `total`."""
        reports = [
            stage_times(each.server_timing.decode()) for each in self.measured if each.status == OK
        ]
        names = dict.fromkeys(name for report in reports for name in report)
        return {name: fmean(report.get(name, 0.0) for report in reports) for name in names}

    @property
    def generator_share(self) -> float:
        """How much of a core the generator took."""
        return self.load.cpu_seconds / self.load.wall_seconds

    @property
    def distrust(self) -> list[str]:
        """Why the generator, not the service, may have made these figures; empty if it did not."""
        reasons = []
        if self.load.repeated:
            reasons.append(
                f"{self.load.repeated} requests were sent again, on new connections, since the "
                "service had closed theirs"
            )
        if self.generator_share > BUSY_SHARE:
            reasons.append(
                f"the generator took {self.generator_share:.0%} of a core, "
                f"more than {BUSY_SHARE:.0%}"
            )
        if self.offered is not None and len(self.latencies):
            for percentile in (50.0, 99.0):
                late, latency = self.late(percentile), self.latency(percentile)
                if late > LATE_SHARE * latency:
                    reasons.append(
                        f"the generator's lateness (p{percentile:g} {late:.2f} ms) is more than "
                        f"{LATE_SHARE:.0%} of the latency ({latency:.2f} ms)"
                    )
        return reasons


def fewest_requests(percentile: float) -> int:
    """How many it takes for one of them to be above the percentile."""
    return round(100 / (100 - percentile))


def _percentile(ascending: NDArray[np.float64], percentile: float) -> float:
    return float(np.percentile(ascending, percentile)) if len(ascending) else math.nan
