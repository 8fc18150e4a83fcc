"""From the start of a process to its readiness, and its memory beyond the index."""

from itertools import cycle, islice
from typing import Any

from loadtests.resilience.testbed import Testbed, one_by_one
from loadtests.results import bound, megabytes, spread

MOST_SECONDS = 2.0
MOST_BYTES = 250e6
QUERIES = 1000


def starts(testbed: Testbed, times: int) -> dict[str, Any]:
    """Start services one after the other, and send the last one a thousand queries."""
    seconds = []
    for number in range(times):
        with testbed.serve() as service:
            seconds.append(service.seconds_to_ready)
            if number == times - 1:
                at_first = service.resident_bytes()
                one_by_one(service.address, list(islice(cycle(testbed.requests), QUERIES)))
                own = service.resident_bytes(without=testbed.index)
                whole = service.resident_bytes()
    longest, most = f"{MOST_SECONDS:.0f} s", megabytes(MOST_BYTES)
    slowest = max(seconds)
    return {
        "seconds": spread(seconds),
        "times": times,
        "queries": QUERIES,
        "resident_bytes": {"ready": at_first, "after": whole, "index": whole - own},
        "bounds": [
            bound(
                "start to ready, the longest", f"{slowest:.2f} s", longest,
                kept=slowest <= MOST_SECONDS,
            ),
            bound(
                "resident memory beyond the index", megabytes(own), most, kept=own <= MOST_BYTES
            ),
        ],
    }  # fmt: skip
