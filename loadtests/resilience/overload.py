"""Sends more searches than the service can answer, and measures how soon it recovers."""

import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from math import inf
from multiprocessing import get_context
from typing import Any

from measuring.http_client import OK, REJECTIONS, Request
from measuring.load_figures import Figures, percentile
from measuring.loads import open_loop, poisson_arrivals
from measuring.processes import READY_PATH, call
from measuring.results import at_most, bound, milliseconds, only
from measuring.testbed import Testbed, one_by_one

DEADLINE_SECONDS = 5.0
RECOVERY_SECONDS = 2.0
CONNECTIONS = 4000
SENT_SHARE = 0.99
PROBES = 20
NORMAL = 1.5
_LEAD_SECONDS = 3.0
_RECOVERY_TIMEOUT_SECONDS = 60


def overload(testbed: Testbed, seconds: float) -> dict[str, Any]:
    """Send `testbed.times` as many searches for some time, then probe until answers are normal."""
    requests = testbed.requests
    deadline = round(1000 * DEADLINE_SECONDS)
    # Another process, so that the probes do not wait for the interpreter of the generator.
    pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
    with testbed.serve(timeout_ms=deadline) as service, pool:
        capacity = testbed.capacity(service, requests)
        rate, usual = testbed.times * capacity, _median_seconds(service.address, requests)
        start_at = time.monotonic() + _LEAD_SECONDS
        loading = pool.submit(
            open_loop, service.address, requests, poisson_arrivals(rate, seconds), seconds=seconds,
            connections=CONNECTIONS, start_at=start_at,
        )  # fmt: skip
        end = start_at + seconds
        recovery = _recovered_at(service.address, requests[:PROBES], usual, end) - end
        load = loading.result()
    figures = Figures(load, offered=rate)
    accepted, refused = (figures.of_status(status) / 1000 for status in (OK, 429))
    offered, sent = len(figures.measured), sum(e.sent <= figures.end for e in figures.measured)
    p99 = percentile(accepted, 99)
    return {
        "seconds": seconds,
        "capacity": capacity,
        "times": testbed.times,
        "offered": offered,
        "sent": sent,
        "sent_times": sent / seconds / capacity,
        "answered": len(accepted),
        "refused": len(refused),
        "statuses": figures.statuses,
        "accepted_seconds": {f"p{p}": percentile(accepted, p) for p in (50, 99)},
        "refused_seconds": {f"p{p}": percentile(refused, p) for p in (50, 99) if len(refused)},
        "generator_share": figures.generator_share,
        "connections": CONNECTIONS,
        "probes": PROBES,
        "normal": NORMAL,
        "usual_seconds": usual,
        "recovery_seconds": recovery,
        "bounds": [
            bound(
                "requests sent within the time", f"{sent / offered:.1%}",
                f"at least {SENT_SHARE:.0%}", kept=sent >= SENT_SHARE * offered,
            ),
            only("statuses other than 200, 429, 503, 504", figures.statuses, (OK, *REJECTIONS)),
            at_most("accepted requests, p99", p99, DEADLINE_SECONDS, milliseconds),
            at_most("recovery", recovery, RECOVERY_SECONDS, "{:.2f} s".format),
        ],
    }  # fmt: skip


def _recovered_at(address: str, probes: Sequence[Request], usual: float, end: float) -> float:
    """When, after `end`, probes were answered as quickly as usual by a service that is ready."""
    time.sleep(max(0.0, end - time.monotonic()))
    while time.monotonic() < end + _RECOVERY_TIMEOUT_SECONDS:
        normal = _median_seconds(address, probes) <= NORMAL * usual
        if normal and call(address + READY_PATH)[0] == OK:
            return time.monotonic()
    return inf


def _median_seconds(address: str, requests: Sequence[Request]) -> float:
    return Figures(one_by_one(address, requests)).latency(50.0) / 1000
