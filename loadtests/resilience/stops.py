"""Stops the service by SIGTERM under load, several times, and counts lost requests."""

import random
import re
import signal
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from threading import Event
from typing import Any

from measuring.http_client import NO_ANSWER, OK, search
from measuring.loads import Load, closed_loop
from measuring.results import bound, none_of, only, spread
from measuring.testbed import CLIENTS, Testbed

CLOSED_EVERY = 4
_LOAD_SECONDS = (0.5, 1.5)
_EXIT_TIMEOUT_SECONDS = 40
_ALLOWED = {OK, 503, NO_ANSWER}
_LOGGED = re.compile(r" (\S+) POST /search (\d+) ")
_SIGNAL_SEED = 5


@dataclass(frozen=True, slots=True)
class Stop:
    """One stop: the load, and the statuses in the service's access log by request id."""

    load: Load
    logged: dict[str, int]
    exit_status: int
    seconds: float

    @property
    def statuses(self) -> Counter[int]:
        """The number of sent requests by status."""
        return Counter(each.status for each in self.load.exchanges if each.was_sent)

    @property
    def lost_after_begin(self) -> int:
        """Requests without an answer that the service had begun."""
        lost = [e for e in self.load.exchanges if e.was_sent and e.status == NO_ANSWER]
        return sum(each.request.request_id in self.logged for each in lost)

    @property
    def different(self) -> int:
        """Requests that got another answer than the access log has."""
        answered = {e.request.request_id: e.status for e in self.load.exchanges if e.status}
        return len(answered.items() ^ self.logged.items())


def stops(testbed: Testbed, times: int) -> dict[str, Any]:
    """Start a service, load it and stop it with SIGTERM, several times."""
    moments = random.Random(_SIGNAL_SEED)
    return summary([stop(testbed, moments.uniform(*_LOAD_SECONDS)) for _ in range(times)])


def stop(testbed: Testbed, seconds: float) -> Stop:
    """Load a service for some seconds and stop it; clients continue until they are refused."""
    requests = (
        search(query, request_id=f"stop-{number}", close=number % CLOSED_EVERY == 0)
        for number, query in enumerate(cycle(testbed.queries))
    )
    enough = Event()
    load_until = partial(closed_loop, clients=CLIENTS, go_on=lambda: not enough.is_set())
    with testbed.serve(access_log="true") as service, ThreadPoolExecutor(1) as pool:
        loading = pool.submit(load_until, service.address, requests)
        try:
            time.sleep(seconds)
            began = time.perf_counter()
            service.process.send_signal(signal.SIGTERM)
            exit_status = int(service.process.wait(_EXIT_TIMEOUT_SECONDS))
            stop_seconds = time.perf_counter() - began
        finally:
            enough.set()
        load = loading.result()
        logged = _LOGGED.findall(service.log_file.read_text("utf-8"))
    return Stop(load, {name: int(status) for name, status in logged}, exit_status, stop_seconds)


def summary(found: Sequence[Stop]) -> dict[str, Any]:
    """The figures of all stops, and their bounds."""
    statuses: Counter[int] = sum((stop.statuses for stop in found), Counter())
    loaded = sum(OK in stop.statuses for stop in found)
    begun = sum(stop.lost_after_begin for stop in found)
    lost = statuses[NO_ANSWER]
    return {
        "times": len(found),
        "clients": CLIENTS,
        "closed_every": CLOSED_EVERY,
        "statuses": statuses,
        "lost": lost,
        "seconds": spread([stop.seconds for stop in found]),
        "bounds": [
            bound("stops under load", loaded, len(found), kept=loaded == len(found)),
            none_of("lost after the service had begun them", begun),
            none_of("lost before the service had read them", lost - begun),
            none_of("answers that differ from the access log", sum(s.different for s in found)),
            none_of("connections reset after their last answer", sum(s.load.resets for s in found)),
            only("statuses other than 200 and 503", statuses, _ALLOWED),
            only("exit statuses other than 0", [stop.exit_status for stop in found], [0]),
        ],
    }
