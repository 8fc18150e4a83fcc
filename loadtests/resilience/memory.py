"""Starts and their memory; memory and equal answers in minutes of queries of all lengths."""

import json
import random
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from itertools import cycle, islice
from typing import Any

from measuring.http_client import OK, search
from measuring.processes import Service, call
from measuring.results import at_most, bound, growth, megabytes, none_of, spread
from measuring.testbed import Testbed, each_second, one_by_one

MOST_SECONDS = 2.0
MOST_BYTES = 250e6
QUERIES = 1000
SHARE = 0.8
LONGEST = 2000
TEXTS = 2000
WARM_SHARE = 0.1
_PROBE = json.dumps({"query": "how do I read a file line by line"}).encode()
_TEXT_SEED = 5


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
        sample = partial(each_second, partial(_sample, service, testbed), most_seconds=seconds)
        figures, samples = testbed.during(sample, service, SHARE * capacity, requests)
    warm_seconds = seconds * WARM_SHARE
    _, resident_bytes, own_bytes, answers = zip(*samples, strict=True)
    first = next(n for n, (second, *_) in enumerate(samples) if second >= warm_seconds)
    most = max(resident_bytes[first:])
    probes = [before, *answers]
    different = len(set(filter(None, probes)))
    failed = len(figures.measured) - figures.statuses[OK] + probes.count("")
    return {
        "minutes": minutes,
        "share": SHARE,
        "longest": LONGEST,
        "capacity": capacity,
        "statuses": figures.statuses,
        "seconds": {f"p{p}": figures.latency(p) / 1000 for p in (50, 99)},
        "warm_seconds": warm_seconds,
        "probes": len(probes),
        "resident_bytes": {"first": resident_bytes[0], "last": resident_bytes[-1]},
        "own_bytes": {"first": own_bytes[first], "most": max(own_bytes[first:])},
        "samples": [each[:3] for each in samples],
        "bounds": [
            growth(
                f"resident memory after {warm_seconds:.0f} s, and the most later",
                resident_bytes[first], most,
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


def _sample(service: Service, testbed: Testbed) -> tuple[int, int, str]:
    """Resident bytes, with and without the index, and the answer to a probe."""
    own = service.resident_bytes(without=testbed.index)
    return service.resident_bytes(), own, _probe(service)


def _probe(service: Service) -> str:
    """The hash of the answer to one query; empty for a refusal."""
    status, body = call(f"{service.address}/search", _PROBE)
    return sha256(body).hexdigest() if status == OK else ""
