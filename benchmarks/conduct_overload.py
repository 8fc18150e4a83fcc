"""Ten times as much as the service can do: what it answers, and how soon it is itself again."""

import http.client
import time
from dataclasses import dataclass
from statistics import median
from urllib.parse import urlsplit

from conduct_bench import (
    Bench,
    Bound,
    Section,
    milliseconds,
    percentile,
    status_table,
)
from conduct_load import MOST_CONNECTIONS, Arrivals, arrive, searches
from load import one_by_one

_TIMES = 10
_DEADLINE_SECONDS = 5.0
_RECOVERY_SECONDS = 2.0
_ALLOWED = {200, 429, 503, 504}
_PROBES = 20
_NORMAL = 1.5
_RECOVERY_TIMEOUT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class _Overload:
    capacity: float
    usual_seconds: float
    arrivals: Arrivals
    recovery_seconds: float


def overload(bench: Bench, seconds: float) -> Section:
    """Ask ten times as much for so long, then as one client until answers come as before."""
    requests = searches(bench.queries)
    with bench.serve(timeout_ms=round(1000 * _DEADLINE_SECONDS)) as running:
        rate = bench.capacity(running, requests)
        contents = [request.content for request in requests]
        usual = median(one_by_one(running.address, contents).latencies)
        arrivals = arrive(running.address, requests, rate=_TIMES * rate, seconds=seconds)
        recovered = _recovery(running.address, contents, usual)
    return _section(_Overload(rate, usual, arrivals, recovered - arrivals.ended))


def _recovery(address: str, contents: list[bytes], usual: float) -> float:
    """When the first answers had come that were as quick as usual, from a service that is ready."""
    deadline = time.perf_counter() + _RECOVERY_TIMEOUT_SECONDS
    while time.perf_counter() < deadline:
        probes = one_by_one(address, contents[:_PROBES])
        if median(probes.latencies) <= _NORMAL * usual and _is_ready(address):
            return time.perf_counter()
    return float("inf")


def _is_ready(address: str) -> bool:
    connection = http.client.HTTPConnection(urlsplit(address).netloc)
    connection.request("GET", "/health/ready")
    status = connection.getresponse().status
    connection.close()
    return status == http.client.OK


def _section(found: _Overload) -> Section:
    arrivals, statuses = found.arrivals, found.arrivals.statuses
    accepted, refused = arrivals.of_status(200), arrivals.of_status(429)
    others = sorted(set(statuses) - _ALLOWED)
    p99 = percentile(accepted, 99)
    words = WORDS.format(
        seconds=f"{arrivals.seconds:.0f}",
        times=_TIMES,
        capacity=f"{found.capacity:,.0f}",
        due=f"{arrivals.due:,}",
        rate=f"{arrivals.due / arrivals.seconds:,.0f}",
        connections=f"{MOST_CONNECTIONS:,}",
        unsent=f"{arrivals.unsent:,}",
        accepted=f"{len(accepted) / arrivals.seconds:,.0f}",
        p50=milliseconds(percentile(accepted, 50)),
        refused_p50=milliseconds(percentile(refused, 50)) if refused else "none",
        refused_p99=milliseconds(percentile(refused, 99)) if refused else "none",
        share=f"{100 * arrivals.cpu_seconds / arrivals.seconds:.0f}",
        probes=_PROBES,
        normal=_NORMAL,
        usual=milliseconds(found.usual_seconds),
        statuses=status_table(statuses),
    )
    return Section(
        "Overload",
        words,
        [
            Bound(
                "statuses but for 200, 429, 503, 504",
                ", ".join(map(str, others)) or "none",
                "none",
                not others,
            ),
            Bound(
                "accepted requests, p99",
                milliseconds(p99),
                f"the deadline, {milliseconds(_DEADLINE_SECONDS)}",
                p99 <= _DEADLINE_SECONDS,
            ),
            Bound(
                "recovery",
                f"{found.recovery_seconds:.2f} s",
                f"{_RECOVERY_SECONDS:.0f} s",
                found.recovery_seconds < _RECOVERY_SECONDS,
            ),
        ],
    )


WORDS = """
For {seconds} s, {times} times as many searches arrive as the service can answer when it is always
asked for more ({capacity} a second): {due} of them, {rate} a second, a Poisson process over at most
{connections} connections. A latency counts from when a request was due. {unsent} requests found
every connection waiting for an answer, and were not sent.

{statuses}

{accepted} searches a second were answered 200, p50 {p50}. A refusal (429) took {refused_p50} at p50
and {refused_p99} at p99. The generator used {share}% of a core. 504 is the answer to a request
whose deadline passed while it waited.

Recovery is from the end of the arrivals to the end of the first {probes} searches of one client
whose median is at most {normal} times what it was before ({usual}), from a service that is ready.
"""
