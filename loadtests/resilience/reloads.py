"""Reloads under load, by the route and by SIGHUP, half of them with broken directories."""

import http.client
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from statistics import median
from threading import Event
from typing import Any

from loadtests.command_line import LoadTestError
from loadtests.figures import Figures
from loadtests.http_client import OK
from loadtests.loads import open_loop
from loadtests.processes import READY_PATH, Service, call, get
from loadtests.resilience.testbed import Testbed, arrivals, statuses
from loadtests.results import bound, megabytes
from swiftlet.retrieval.manifest import FILE_NAME, read_manifest, write_manifest

SHARE = 0.25
WARM_SHARE = 0.2
"""The share of the reloads that happen before the first measurement of memory."""
SAMPLES = 20
MOST_GROWTH = 0.05
_KEY = "admin-key-of-the-load-test"
_USUAL_SECONDS = 5.0
_LONGEST_SECONDS = 7200.0
_TIMEOUT_SECONDS = 60
_POLL_SECONDS = 0.02
_SETTLING_SECONDS = 0.5
_LOADED = "loaded"


def _flip_a_byte(index: Path) -> None:
    content = bytearray((index / "documents.sqlite").read_bytes())
    content[len(content) // 2] ^= 1
    (index / "documents.sqlite").write_bytes(content)


def _move_to_another_space(index: Path) -> None:
    write_manifest(index, replace(read_manifest(index), embedding_space="f" * 64))


def _empty(index: Path) -> None:
    for file in index.iterdir():
        file.unlink()


_BROKEN: dict[str, tuple[Callable[[Path], None], str]] = {
    "a file is truncated": (lambda index: os.truncate(index / "index.faiss", 100), "corrupt_file"),
    "a byte is flipped": (_flip_a_byte, "corrupt_file"),
    "the manifest is missing": (lambda index: (index / FILE_NAME).unlink(), "bad_manifest"),
    "it is of another embedding space": (_move_to_another_space, "other_embedding_space"),
    "the directory is empty": (_empty, "bad_manifest"),
}


@dataclass(frozen=True, slots=True)
class _Reload:
    kind: str
    by_route: bool
    expected: str
    seconds: float
    resident_bytes: int


def reloads(testbed: Testbed, times: int) -> dict[str, Any]:
    """Reload repeatedly at a quarter of the load that the service can answer."""
    versions = testbed.folder / "versions"
    versions.mkdir()
    _publish(versions, testbed.index, 0, None)
    stop = Event()
    requests = testbed.requests
    with ThreadPoolExecutor(1) as pool, testbed.serve(
        versions / "current", admin_keys=_KEY
    ) as service:  # fmt: skip
        rate = SHARE * testbed.capacity(service, requests)

        def load(seconds: float) -> Figures:
            moments = arrivals(rate, seconds)
            ran = open_loop(
                service.address, requests, moments, seconds=seconds,
                go_on=lambda: not stop.is_set(),
            )  # fmt: skip
            return Figures(ran, offered=rate)

        usual = load(_USUAL_SECONDS)
        loading = pool.submit(load, _LONGEST_SECONDS)
        kinds = cycle(_BROKEN.items())
        done = []
        try:
            for number in range(times):
                whole = ("nothing is broken", (None, _LOADED))
                kind, (damage, expected) = next(kinds) if number % 2 else whole
                _publish(versions, testbed.index, number + 1, damage)
                # Twice by the route, twice by the signal, so that both get every kind of directory.
                by_route = number // 2 % 2 == 0
                seconds = _reload(service, by_route=by_route, refused=damage is not None)
                _wait_until_one_is_mapped(service, versions)
                resident = _settled_bytes(service)
                done.append(_Reload(kind, by_route, expected, seconds, resident))
        finally:
            stop.set()
        figures = loading.result()
        ready = call(service.address + READY_PATH)[0] == OK
        outcomes = {name: number for name, number in _outcomes(service).items() if number}
    return _summary(done, outcomes, figures, usual, ready=ready)


def _publish(
    versions: Path, index: Path, number: int, damage: Callable[[Path], None] | None
) -> None:
    """Make a version of `index` the current one, and remove versions that are no longer used."""
    version = versions / f"version-{number}"
    shutil.copytree(index, version)
    if damage is not None:
        damage(version)
    following = versions / "next"
    following.symlink_to(version.name)
    following.rename(versions / "current")
    # The service uses the last complete version, which is one of the two previous ones.
    shutil.rmtree(versions / f"version-{number - 3}", ignore_errors=True)


def _reload(service: Service, *, by_route: bool, refused: bool) -> float:
    """Seconds until a reload has an outcome."""
    before = sum(_outcomes(service).values())
    began = time.perf_counter()
    if by_route:
        status, body = call(f"{service.address}/admin/reload", method="POST", key=_KEY)
        expected = http.client.CONFLICT if refused else http.client.OK
        if status != expected:
            raise LoadTestError(f"a reload was answered {status}, not {expected}: {body.decode()}")
    else:
        service.process.send_signal(signal.SIGHUP)
        _wait(
            lambda: sum(_outcomes(service).values()) > before, "a reload by SIGHUP has no outcome"
        )
    return time.perf_counter() - began


def _wait_until_one_is_mapped(service: Service, versions: Path) -> None:
    """Wait until memory is released: at most one version is mapped."""

    def mapped() -> set[Path]:
        files = (Path(each.path) for each in service.process.memory_maps())
        return {file.parent for file in files if file.is_relative_to(versions)}

    _wait(lambda: len(mapped()) <= 1, "the memory of an earlier version is not released")


def _wait(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = time.perf_counter() + _TIMEOUT_SECONDS
    while not condition():
        if time.perf_counter() > deadline:
            raise LoadTestError(f"{otherwise} after {_TIMEOUT_SECONDS} s")
        time.sleep(_POLL_SECONDS)


def _settled_bytes(service: Service) -> int:
    """The least resident memory within half a second, because memory is released with a delay."""
    end = time.perf_counter() + _SETTLING_SECONDS
    least = service.resident_bytes()
    while time.perf_counter() < end:
        time.sleep(_POLL_SECONDS)
        least = min(least, service.resident_bytes())
    return least


def _outcomes(service: Service) -> dict[str, int]:
    prefix = 'swiftlet_reloads_total{outcome="'
    lines = get(f"{service.address}/metrics").decode().splitlines()
    counts = (line.removeprefix(prefix).split('"} ') for line in lines if line.startswith(prefix))
    return {outcome: round(float(count)) for outcome, count in counts}


def _summary(
    done: Sequence[_Reload],
    outcomes: dict[str, int],
    figures: Figures,
    usual: Figures,
    *,
    ready: bool,
) -> dict[str, Any]:
    expected = Counter(each.expected for each in done)
    kinds = Counter((each.kind, each.expected, each.by_route) for each in done)
    failed = len(figures.measured) - figures.statuses[OK]
    resident = [each.resident_bytes for each in done]
    warm = int(WARM_SHARE * len(done))
    first, last = median(resident[warm : warm + SAMPLES]), median(resident[-SAMPLES:])
    growth = last / first - 1
    whole = [each.seconds for each in done if each.expected == _LOADED]
    return {
        "times": len(done),
        "share": SHARE,
        "samples": SAMPLES,
        "kinds": [
            [kind, f"`{outcome}`", kinds[kind, outcome, True], kinds[kind, outcome, False]]
            for kind, outcome in dict.fromkeys((each.kind, each.expected) for each in done)
        ],
        "statuses": statuses(figures),
        "failed": failed,
        "seconds": {f"p{p}": figures.latency(p) / 1000 for p in (50, 99, 100)},
        "usual_seconds": {f"p{p}": usual.latency(p) / 1000 for p in (50, 99)},
        "reload_seconds": {"median": median(whole), "most": max(whole)},
        "resident_bytes": resident,
        "bounds": [
            bound("requests that failed", str(failed), "0", kept=not failed),
            bound(
                "reloads by outcome, as the metric counts them",
                ", ".join(f"{name} {outcomes[name]}" for name in sorted(outcomes)),
                ", ".join(f"{name} {expected[name]}" for name in sorted(expected)),
                kept=outcomes == expected,
            ),
            bound(
                f"resident memory after {warm} reloads and at the end",
                f"{megabytes(first)}, {megabytes(last)} ({growth:+.1%})",
                f"less than {MOST_GROWTH:+.0%}",
                kept=growth < MOST_GROWTH,
            ),
            bound("ready afterwards", "yes" if ready else "no", "yes", kept=ready),
        ],
    }
