"""Reloads under load, by the route and by SIGHUP, half of them of directories that are broken."""

import http.client
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import median
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

from evaluation.markdown import table
from retrieval.manifest import FILE_NAME, read_manifest, write_manifest

_KEY = "admin-key-of-the-benchmark"
_SHARE = 0.25
_WARM = 5
"""One in so many reloads is over before memory is looked at."""
_SAMPLES = 20
_MOST_GROWTH = 0.05
_TIMEOUT_SECONDS = 60
_POLL_SECONDS = 0.02
_SETTLING_SECONDS = 0.5
_LOADED = "loaded"
_FOREVER = 1e9


def _cut_short(index: Path) -> None:
    os.truncate(index / "index.faiss", 100)


def _flip_a_byte(index: Path) -> None:
    content = bytearray((index / "documents.sqlite").read_bytes())
    content[len(content) // 2] ^= 1
    (index / "documents.sqlite").write_bytes(content)


def _remove_the_manifest(index: Path) -> None:
    (index / FILE_NAME).unlink()


def _move_to_another_space(index: Path) -> None:
    write_manifest(index, replace(read_manifest(index), embedding_space="f" * 64))


def _empty(index: Path) -> None:
    for file in index.iterdir():
        file.unlink()


_BROKEN: dict[str, tuple[Callable[[Path], None], str]] = {
    "a file is cut short": (_cut_short, "corrupt_file"),
    "a byte is flipped": (_flip_a_byte, "corrupt_file"),
    "the manifest is missing": (_remove_the_manifest, "bad_manifest"),
    "it is of another embedding space": (_move_to_another_space, "other_embedding_space"),
    "the directory is empty": (_empty, "bad_manifest"),
}
_WHOLE = ("nothing is broken", (None, _LOADED))


@dataclass(frozen=True, slots=True)
class _Reload:
    kind: str
    by_route: bool
    expected: str
    seconds: float
    resident_bytes: int


@dataclass(frozen=True, slots=True)
class _Reloads:
    reloads: Sequence[_Reload]
    outcomes: dict[str, int]
    arrivals: Arrivals
    usual: Sequence[float]
    ready: bool

    @property
    def growth(self) -> tuple[float, float]:
        """Resident bytes once warm, and at the end."""
        resident = [reload.resident_bytes for reload in self.reloads]
        warm = len(resident) // _WARM
        return median(resident[warm : warm + _SAMPLES]), median(resident[-_SAMPLES:])


def reload(bench: Bench, times: int) -> Section:
    """Reload so many times while searches arrive, a quarter of what the service can answer."""
    versions = bench.folder / "versions"
    versions.mkdir()
    current = versions / "current"
    publish = partial(_publish, versions, bench.index)
    publish(0, None)
    stop = Event()
    requests = searches(bench.queries)
    with ThreadPoolExecutor(1) as pool, bench.serve(current, admin_keys=_KEY) as running:
        rate = _SHARE * bench.capacity(running, requests)
        usual = arrive(running.address, requests, rate=rate, seconds=5).of_status(200)
        loading = pool.submit(
            arrive,
            running.address,
            requests,
            rate=rate,
            seconds=_FOREVER,
            go_on=lambda: not stop.is_set(),
        )
        kinds = cycle(_BROKEN.items())
        reloads = []
        try:
            for number in range(times):
                kind, (breakage, expected) = next(kinds) if number % 2 else _WHOLE
                publish(number + 1, breakage)
                # Twice by the route, twice by the signal, so that both meet every kind.
                by_route = number // 2 % 2 == 0
                seconds = _reload(running, by_route=by_route, refused=breakage is not None)
                _wait_until_one_is_mapped(running, versions)
                resident = _settled_bytes(running)
                reloads.append(_Reload(kind, by_route, expected, seconds, resident))
        finally:
            stop.set()
        arrivals = loading.result()
        ready = _ask(running, "GET", "/health/ready")[0] == http.client.OK
        found = _Reloads(reloads, _outcomes(running), arrivals, usual, ready)
    return _section(found)


def _publish(
    versions: Path, index: Path, number: int, breakage: Callable[[Path], None] | None
) -> None:
    """Make a version of `index` the current one, and remove those that nobody needs any more."""
    version = versions / f"version-{number}"
    shutil.copytree(index, version)
    if breakage is not None:
        breakage(version)
    following = versions / "next"
    following.symlink_to(version.name)
    following.rename(versions / "current")
    # The last whole one may be in use, which is one of the two before.
    shutil.rmtree(versions / f"version-{number - 3}", ignore_errors=True)


def _reload(running: Running, *, by_route: bool, refused: bool) -> float:
    """Seconds until a reload has an outcome."""
    before = sum(_outcomes(running).values())
    began = time.perf_counter()
    if by_route:
        status, body = _ask(running, "POST", "/admin/reload")
        expected = http.client.CONFLICT if refused else http.client.OK
        if status != expected:
            raise SystemExit(f"a reload was answered {status}, not {expected}: {body.decode()}")
    else:
        running.service.process.send_signal(signal.SIGHUP)
        while sum(_outcomes(running).values()) == before:
            if time.perf_counter() > began + _TIMEOUT_SECONDS:
                raise SystemExit("a reload by SIGHUP had no outcome")
            time.sleep(_POLL_SECONDS)
    return time.perf_counter() - began


def _wait_until_one_is_mapped(running: Running, versions: Path) -> None:
    """Wait until memory is given back: no version but one is mapped."""
    maps = Path(f"/proc/{running.service.process.pid}/maps")
    deadline = time.perf_counter() + _TIMEOUT_SECONDS
    while time.perf_counter() < deadline:
        paths = (line.split(maxsplit=5)[5:] for line in maps.read_text().splitlines())
        mapped = {path[0].removeprefix(f"{versions}/").split("/")[0] for path in paths
                  if path and path[0].startswith(f"{versions}/")}  # fmt: skip
        if len(mapped) <= 1:
            return
        time.sleep(_POLL_SECONDS)
    raise SystemExit(f"memory is not given back: {', '.join(sorted(mapped))} are mapped")


def _settled_bytes(running: Running) -> int:
    """Resident memory once what was unmapped is given back, which takes a moment."""
    end = time.perf_counter() + _SETTLING_SECONDS
    least = running.resident_bytes()
    while time.perf_counter() < end:
        time.sleep(_POLL_SECONDS)
        least = min(least, running.resident_bytes())
    return least


def _ask(running: Running, method: str, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(running.address).netloc, timeout=60)
    connection.request(method, path, headers={"Authorization": f"Bearer {_KEY}"})
    answer = connection.getresponse()
    status, body = answer.status, answer.read()
    connection.close()
    return status, body


def _outcomes(running: Running) -> dict[str, int]:
    prefix = 'swiftlet_reloads_total{outcome="'
    lines = _ask(running, "GET", "/metrics")[1].decode().splitlines()
    counts = (line.removeprefix(prefix).split('"} ') for line in lines if line.startswith(prefix))
    return {outcome: round(float(count)) for outcome, count in counts}


def _section(found: _Reloads) -> Section:
    sent = Counter(reload.expected for reload in found.reloads)
    counted = {outcome: count for outcome, count in found.outcomes.items() if count}
    statuses = found.arrivals.statuses
    failed = sum(count for status, count in statuses.items() if status != http.client.OK)
    failed += found.arrivals.unsent
    warm, last = found.growth
    growth = last / warm - 1
    latencies = found.arrivals.of_status(200)
    whole = [reload.seconds for reload in found.reloads if reload.expected == _LOADED]
    words = WORDS.format(
        times=len(found.reloads),
        samples=_SAMPLES,
        share=f"{100 * _SHARE:.0f}",
        kinds=_kind_table(found.reloads),
        statuses=status_table(statuses),
        p50=milliseconds(percentile(latencies, 50)),
        p99=milliseconds(percentile(latencies, 99)),
        usual_p50=milliseconds(percentile(found.usual, 50)),
        usual_p99=milliseconds(percentile(found.usual, 99)),
        most=milliseconds(latencies[-1]),
        median=f"{median(whole):.2f}",
        longest=f"{max(whole):.2f}",
    )
    return Section(
        "Reloading under load",
        words,
        [
            Bound("requests that failed", str(failed), "0", not failed),
            Bound(
                "reloads by outcome, as the metric counts them",
                ", ".join(f"{name} {counted[name]}" for name in sorted(counted)),
                ", ".join(f"{name} {sent[name]}" for name in sorted(sent)),
                counted == sent,
            ),
            Bound(
                f"resident memory after {len(found.reloads) // _WARM} reloads and at the end",
                f"{megabytes(warm)}, {megabytes(last)} ({100 * growth:+.1f}%)",
                f"less than {100 * _MOST_GROWTH:+.0f}%",
                growth < _MOST_GROWTH,
            ),
            Bound("ready afterwards", "yes" if found.ready else "no", "yes", found.ready),
        ],
    )


def _kind_table(reloads: Sequence[_Reload]) -> str:
    kinds = Counter((reload.kind, reload.expected, reload.by_route) for reload in reloads)
    names = dict.fromkeys((reload.kind, reload.expected) for reload in reloads)
    rows = [
        [kind, f"`{expected}`", str(kinds[kind, expected, True]), str(kinds[kind, expected, False])]
        for kind, expected in names
    ]
    return table([["directory", "outcome", "by the route", "by SIGHUP"], *rows])


WORDS = """
{times} reloads, one after the other, each of a directory of its own that a link leads to, while
searches arrive at {share}% of what the service can answer. Every other directory is broken.
Resident memory is that of the whole process, mapped files included, once all but one version are
unmapped, and the least of half a second; medians of {samples} reloads each.

{kinds}

Searches meanwhile:

{statuses}

Their p50 was {p50} and their p99 {p99}, the longest {most}; without reloads {usual_p50} and
{usual_p99}. A reload that was loaded took {median} s at the median, at most {longest} s.
"""
