"""From the start of a process to its readiness, and the memory that it takes beyond its index."""

from itertools import cycle, islice
from statistics import median

from conduct_bench import Bench, Bound, Section, megabytes
from load import one_by_one, search_request
from processes import MEBIBYTE

_MOST_SECONDS = 2.0
_MOST_BYTES = 250e6
_QUERIES = 1000


def start(bench: Bench, times: int) -> Section:
    """Start so many services one after the other, and ask the last one a thousand queries."""
    seconds = []
    for number in range(times):
        with bench.serve() as running:
            seconds.append(running.service.seconds_to_ready)
            if number == times - 1:
                at_first = running.resident_bytes()
                queries = islice(cycle(bench.queries), _QUERIES)
                one_by_one(running.address, list(map(search_request, queries)))
                own = running.service.resident_mib(without=bench.index) * MEBIBYTE
                whole = running.resident_bytes()
    words = WORDS.format(
        times=times,
        median=f"{median(seconds):.2f}",
        queries=f"{_QUERIES:,}",
        at_first=megabytes(at_first),
        whole=megabytes(whole),
        index=megabytes(whole - own),
    )
    return Section(
        "Start",
        words,
        [
            Bound(
                "start to ready, the longest",
                f"{max(seconds):.2f} s",
                f"{_MOST_SECONDS:.0f} s",
                max(seconds) <= _MOST_SECONDS,
            ),
            Bound(
                "resident memory beyond the index",
                megabytes(own),
                megabytes(_MOST_BYTES),
                own <= _MOST_BYTES,
            ),
        ],
    )


WORDS = """
{times} starts, files in the page cache, from the start of the process to the first 200
of `/health/ready`: median {median} s.

The last one answered {queries} queries. Its resident memory was {at_first} when it was ready and
{whole} then, {index} of which are mapped files of the index; the rest is what it takes beyond the
index.
"""
