"""Minutes of queries of very different lengths: memory, and the same bytes for the same query."""

import http.client
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from threading import Event
from urllib.parse import urlsplit

from conduct_bench import (
    Bench,
    Bound,
    Running,
    Section,
    megabytes,
    milliseconds,
    percentile,
    status_table,
)
from conduct_load import Arrivals, arrive, searches
from processes import MEBIBYTE
from pydantic_core import to_json
from queries import texts_of_lengths

from retrieval.documents import DocumentStore
from retrieval.searcher import DOCUMENTS_FILE

_SHARE = 0.8
_LONGEST = 2000
_TEXTS = 2000
_PASSAGES = 2000
_WARM_SHARE = 0.1
_MOST_GROWTH = 0.05
_SECONDS_BETWEEN = 1.0
_PROBE = "how do I read a file line by line"


@dataclass(frozen=True, slots=True)
class _Sample:
    """So many seconds after the beginning: resident bytes, with and without the index's files."""

    seconds: float
    resident_bytes: int
    own_bytes: float
    answer: str


@dataclass(frozen=True, slots=True)
class _Memory:
    minutes: float
    capacity: float
    before: str
    samples: Sequence[_Sample]
    arrivals: Arrivals

    @property
    def warm(self) -> list[_Sample]:
        """The samples after the first tenth of the time."""
        return [each for each in self.samples if each.seconds >= 60 * self.minutes * _WARM_SHARE]


def memory(bench: Bench, minutes: float) -> Section:
    """Let searches arrive at 80% of what the service can answer, and look on."""
    store = DocumentStore(bench.index / DOCUMENTS_FILE)
    passages = store.passages(list(range(min(_PASSAGES, store.num_passages))))
    store.close()
    texts = [*bench.queries, *(passage.text for passage, _, _ in passages)]
    requests = searches(texts_of_lengths(texts, _LONGEST, _TEXTS))
    stop = Event()
    with ThreadPoolExecutor(1) as pool, bench.serve() as running:
        before = _probe(running)
        rate = bench.capacity(running, requests)
        looking = pool.submit(_look_on, running, bench, stop)
        try:
            arrivals = arrive(running.address, requests, rate=_SHARE * rate, seconds=60 * minutes)
        finally:
            stop.set()
        found = _Memory(minutes, rate, before, looking.result(), arrivals)
    return _section(found)


def _look_on(running: Running, bench: Bench, stop: Event) -> list[_Sample]:
    began = time.perf_counter()
    samples = []
    while not stop.wait(_SECONDS_BETWEEN):
        own = running.service.resident_mib(without=bench.index) * MEBIBYTE
        seconds = time.perf_counter() - began
        samples.append(_Sample(seconds, running.resident_bytes(), own, _probe(running)))
    return samples


def _probe(running: Running) -> str:
    """The hash of the bytes that answer one query; nothing for one that is refused."""
    connection = http.client.HTTPConnection(urlsplit(running.address).netloc, timeout=60)
    connection.request("POST", "/search", to_json({"query": _PROBE}))
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return sha256(body).hexdigest() if answer.status == http.client.OK else ""


def _section(found: _Memory) -> Section:
    warm = found.warm
    warm_seconds = f"{60 * found.minutes * _WARM_SHARE:.0f}"
    first, most = warm[0].resident_bytes, max(each.resident_bytes for each in warm)
    own_first, own_most = warm[0].own_bytes, max(each.own_bytes for each in warm)
    probes = [found.before, *(each.answer for each in found.samples)]
    answers = {answer for answer in probes if answer}
    statuses = found.arrivals.statuses
    failed = sum(count for status, count in statuses.items() if status != http.client.OK)
    failed += found.arrivals.unsent + probes.count("")
    latencies = found.arrivals.of_status(200)
    words = WORDS.format(
        minutes=f"{found.minutes:g}",
        share=f"{100 * _SHARE:.0f}",
        longest=f"{_LONGEST:,}",
        capacity=f"{found.capacity:,.0f}",
        statuses=status_table(statuses),
        warm=warm_seconds,
        p50=milliseconds(percentile(latencies, 50)),
        p99=milliseconds(percentile(latencies, 99)),
        probes=f"{len(probes):,}",
        at_once=megabytes(found.samples[0].resident_bytes),
        own_first=megabytes(own_first),
        own_most=megabytes(own_most),
        last=megabytes(warm[-1].resident_bytes),
    )
    growth = most / first - 1
    return Section(
        "Memory",
        words,
        [
            Bound(
                f"resident memory after {warm_seconds} s, and the most later",
                f"{megabytes(first)}, {megabytes(most)} ({100 * growth:+.1f}%)",
                f"less than {100 * _MOST_GROWTH:+.0f}%",
                growth < _MOST_GROWTH,
            ),
            Bound("different answers to one query", str(len(answers)), "1", len(answers) == 1),
            Bound("requests not answered 200", str(failed), "0", not failed),
        ],
    )


WORDS = """
{minutes} minutes at {share}% of what the service can answer of these queries ({capacity} a second):
real words, from 1 to {longest} characters, lengths spread evenly over their logarithm, a Poisson
process. No cache of embeddings.

{statuses}

p50 {p50}, p99 {p99}. Resident memory is that of the whole process, mapped files included: {at_once}
in the first second, {last} at the end. Without the files of the index it was {own_first} after
{warm} s and at most {own_most} later. One query was asked {probes} times, before the load and each
second of it, and its answers compared byte by byte.
"""
