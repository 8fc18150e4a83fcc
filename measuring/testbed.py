"""Services of an index that are measured, and the load that they are measured by."""

import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count, cycle
from math import inf
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import psutil
from prometheus_client.parser import text_string_to_metric_families

from measuring.command_line import LoadTestError
from measuring.http_client import Request, search
from measuring.load_figures import Figures
from measuring.loads import Load, closed_loop, open_loop, poisson_arrivals
from measuring.processes import Service, get, running, swiftlet_command
from measuring.results import RESULTS
from swiftlet.manifest import read_manifest
from swiftlet.search.request import Mode

_WARM_UP_SECONDS = 2.0
_CAPACITY_SECONDS = 4.0
_TIMEOUT_SECONDS = 60
_POLL_SECONDS = 0.02
CLIENTS = 16
"""Clients of a full load."""
DEMO_FOLDER = Path(".demo")
_LONGEST_BUILD_SECONDS = 1800.0  # on busy cores with AVX2 alone, ten minutes are too few
PAGE, TITLE = RESULTS / "service.json", "The service"
"""The page of the service, and its title."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Testbed:
    """An index and queries for it, and the cores of the service and of the generator.

    `rate` is how many searches a second the service can answer; None to measure it.
    """

    folder: Path
    index: Path
    encoder: Path | None
    queries: Sequence[str]
    service_cores: Sequence[int]
    generator_cores: Sequence[int]
    rate: float | None = None
    times: float = 4.0
    mode: Mode | None = None

    @property
    def requests(self) -> list[Request]:
        """A search for each query."""
        return [search(query, self.mode) for query in self.queries]

    @contextmanager
    def serve(self, index: Path | None = None, **settings: object) -> Iterator[Service]:
        """A service with a thread for each of its cores and without an embedding cache."""
        settings = {"threads": len(self.service_cores), "cache_bytes": 0, **settings}
        variables = {f"SWIFTLET_{name.upper()}": str(value) for name, value in settings.items()}
        command = swiftlet_command(index or self.index, self.encoder)
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

    def during(
        self, work: Callable[[Event], Result], service: Service, rate: float,
        requests: Sequence[Request] = (),
    ) -> tuple[Figures, Result]:  # fmt: skip
        """Searches at `rate` until `work` has ended, and its result; its event asks it to end."""
        stop, minute = Event(), poisson_arrivals(rate, 60)
        moments = (60 * number + moment for number in count() for moment in minute)
        with ThreadPoolExecutor(1) as pool:
            working = pool.submit(work, stop)
            try:
                load = open_loop(
                    service.address, requests or self.requests, moments, seconds=inf,
                    go_on=lambda: not working.done(),
                )  # fmt: skip
            finally:
                stop.set()
            return Figures(load, offered=rate), working.result()


def demo_index(cores: Sequence[int], start_timeout: float = 0.0) -> Path:
    """The index of `swiftlet demo`, built if it does not exist."""
    words = [sys.executable, "-m", "swiftlet", "demo", "--directory", str(DEMO_FOLDER)]
    timeout = max(_LONGEST_BUILD_SECONDS, start_timeout)
    with running(f"{shlex.join(words)} --port {{port}}", cores=cores, start_timeout=timeout):
        pass
    manifests = DEMO_FOLDER.glob("*/manifest.json")
    return max(manifests, key=lambda manifest: manifest.stat().st_mtime).parent


def num_passages(index: Path) -> int:
    """The passages of an index.

    :raises ManifestError: When the directory is no index.
    """
    return int(read_manifest(index, "index").details["num_passages"])


def one_by_one(address: str, requests: Sequence[Request]) -> Load:
    """Each request once, over one connection."""
    return closed_loop(address, iter(requests), clients=1)


def each_second(
    read: Callable[[], tuple[Any, ...]], stop: Event, most_seconds: float = inf
) -> list[tuple[Any, ...]]:
    """The seconds since the beginning and what is read then, once a second until the end."""
    began, seconds, rows = time.perf_counter(), 0.0, []
    while seconds < most_seconds and not stop.wait(1.0):
        seconds = time.perf_counter() - began
        with suppress(OSError, psutil.Error):  # a process has just ended
            rows.append((seconds, *read()))
    return rows


def by_outcome(service: Service, metric: str) -> dict[str, int]:
    """The values of a metric of the service, by its label "outcome"."""
    text = get(f"{service.address}/metrics").decode()
    samples = (each for family in text_string_to_metric_families(text) for each in family.samples)
    return {each.labels["outcome"]: round(each.value) for each in samples if each.name == metric}


def wait_until(condition: Callable[[], bool], otherwise: str) -> None:
    """Wait for a condition; the error after a minute begins with `otherwise`."""
    deadline = time.perf_counter() + _TIMEOUT_SECONDS
    while not condition():
        if time.perf_counter() > deadline:
            raise LoadTestError(f"{otherwise} after {_TIMEOUT_SECONDS} s")
        time.sleep(_POLL_SECONDS)
