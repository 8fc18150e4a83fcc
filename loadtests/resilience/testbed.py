"""The services of resilience runs, and the load that they are measured by."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import numpy as np

from loadtests.figures import Figures
from loadtests.http_client import Request, search
from loadtests.loads import Load, closed_loop, poisson_arrivals
from loadtests.processes import SWIFTLET, Service, running, swiftlet_command

_WARM_UP_SECONDS = 2.0
_CAPACITY_SECONDS = 4.0
CLIENTS = 16
"""Clients of a full load."""
_ARRIVAL_SEED = 5


@dataclass(frozen=True, slots=True)
class Testbed:
    """An index and queries for it, and the cores of the service and of the generator.

    `rate` is how many searches a second the service can answer; None to measure it. `program` is
    the command that is used in place of `swiftlet`.
    """

    folder: Path
    index: Path
    encoder: Path | None
    queries: Sequence[str]
    service_cores: Sequence[int]
    generator_cores: Sequence[int]
    rate: float | None = None
    times: float = 4.0
    program: Sequence[str] = SWIFTLET

    @property
    def requests(self) -> list[Request]:
        """A search for each query."""
        return list(map(search, self.queries))

    @contextmanager
    def serve(self, index: Path | None = None, **settings: object) -> Iterator[Service]:
        """A service with a thread for each of its cores and without an embedding cache."""
        settings = {"threads": len(self.service_cores), "cache_bytes": 0, **settings}
        variables = {f"SWIFTLET_{name.upper()}": str(value) for name, value in settings.items()}
        command = swiftlet_command(index or self.index, self.encoder, self.program)
        with running(command, cores=self.service_cores, settings=variables) as service:
            yield service

    def capacity(self, service: Service, requests: Sequence[Request]) -> float:
        """Answers a second of the warm service to clients without pauses."""
        if self.rate is not None:
            return self.rate
        self.saturate(service, seconds=_WARM_UP_SECONDS, requests=requests)
        load = self.saturate(service, seconds=_CAPACITY_SECONDS, requests=requests)
        return Figures(load).answered_rate

    def saturate(
        self, *services: Service, seconds: float, requests: Sequence[Request] = ()
    ) -> Load:
        """The load of clients without pauses, spread evenly over the services."""
        addresses = [service.address for service in services]
        asked = cycle(requests or self.requests)
        return closed_loop(addresses, asked, clients=CLIENTS, seconds=seconds)


def one_by_one(address: str, requests: Sequence[Request]) -> Load:
    """Each request once, over one connection."""
    return closed_loop(address, iter(requests), clients=1)


def arrivals(rate: float, seconds: float) -> np.ndarray:
    """Moments of a Poisson process, the same ones each time."""
    return poisson_arrivals(rate, seconds, seed=_ARRIVAL_SEED)


def statuses(figures: Figures) -> dict[str, int]:
    """The number of requests by status, for a page."""
    return {str(status): count for status, count in figures.statuses.items()}
