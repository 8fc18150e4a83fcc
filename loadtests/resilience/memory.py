"""Starts and their memory; memory and equal answers in minutes of queries of all lengths."""

import json
import random
import time
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from itertools import cycle, islice
from threading import Event
from typing import Any, NamedTuple

from measuring.http_client import OK, search
from measuring.processes import Service, call
from measuring.results import at_most, bound, growth, megabytes, none_of, spread
from measuring.testbed import Testbed, one_by_one, statuses

MOST_SECONDS = 2.0
MOST_BYTES = 250e6
QUERIES = 1000
SHARE = 0.8
LONGEST = 2000
TEXTS = 2000
WARM_SHARE = 0.1
_SECONDS_BETWEEN = 1.0
_PROBE = json.dumps({"query": "how do I read a file line by line"}).encode()
_TEXT_SEED = 5


class _Sample(NamedTuple):
    """Seconds after the beginning; resident bytes, with and without the index; a probe's answer."""

    seconds: float
    resident_bytes: int
    own_bytes: int
    answer: str


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
    return {
        "seconds": spread(seconds),
        "times": times,
        "queries": QUERIES,
        "resident_bytes": {"ready": at_first, "after": whole, "index": whole - own},
        "bounds": [
            at_most("start to ready, the longest", max(seconds), MOST_SECONDS, "{:.2f} s".format),
            at_most("resident memory beyond the index", own, MOST_BYTES, megabytes),
        ],
    }


def memory(testbed: Testbed, minutes: float) -> dict[str, Any]:
    """Load the service with 80% of the searches that it can answer, and sample its memory."""
    requests = [search(text) for text in texts_of_lengths(testbed.queries, LONGEST, TEXTS)]
    seconds = 60 * minutes
    with testbed.serve() as service:
        before = _probe(service)
        capacity = testbed.capacity(service, requests)
        sample = partial(_sample, service, testbed, seconds)
        figures, samples = testbed.during(sample, service, SHARE * capacity, requests)
    warm_seconds = seconds * WARM_SHARE
    warm = [each for each in samples if each.seconds >= warm_seconds]
    most = max(each.resident_bytes for each in warm)
    probes = [before, *(each.answer for each in samples)]
    different = len(set(filter(None, probes)))
    failed = len(figures.measured) - figures.statuses[OK] + probes.count("")
    return {
        "minutes": minutes,
        "share": SHARE,
        "longest": LONGEST,
        "capacity": capacity,
        "statuses": statuses(figures),
        "seconds": {f"p{p}": figures.latency(p) / 1000 for p in (50, 99)},
        "warm_seconds": warm_seconds,
        "probes": len(probes),
        "resident_bytes": {"first": samples[0].resident_bytes, "last": warm[-1].resident_bytes},
        "own_bytes": {"first": warm[0].own_bytes, "most": max(each.own_bytes for each in warm)},
        "samples": [each[:3] for each in samples],
        "bounds": [
            growth(
                f"resident memory after {warm_seconds:.0f} s, and the most later",
                warm[0].resident_bytes, most,
            ),
            bound("distinct answers to one query", different, 1, kept=different == 1),
            none_of("requests not answered 200", failed),
        ],
    }  # fmt: skip


def texts_of_lengths(texts: Sequence[str], longest: int, count: int) -> list[str]:
    """Parts of `texts` of 1 to `longest` characters.

    The logarithms of the lengths are evenly distributed; each part begins with a word.
    """
    words = " ".join(texts).split()
    chance = random.Random(_TEXT_SEED)
    parts = []
    for _ in range(count):
        characters = round(longest ** chance.random())
        first = chance.randrange(len(words))
        # A word and the space before it have two characters at least.
        around = (words[first:] + words)[: characters // 2 + 1]
        parts.append(" ".join(around)[:characters].strip())
    return parts


def _sample(service: Service, testbed: Testbed, duration: float, stop: Event) -> list[_Sample]:
    began, samples, seconds = time.perf_counter(), [], 0.0
    while seconds < duration and not stop.wait(_SECONDS_BETWEEN):
        own = service.resident_bytes(without=testbed.index)
        seconds = time.perf_counter() - began
        samples.append(_Sample(seconds, service.resident_bytes(), own, _probe(service)))
    return samples


def _probe(service: Service) -> str:
    """The hash of the answer to one query; empty for a refusal."""
    status, body = call(f"{service.address}/search", _PROBE)
    return sha256(body).hexdigest() if status == OK else ""
