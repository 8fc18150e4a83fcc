"""Reloads under load, by the route and by SIGHUP, half of them with broken directories."""

import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import median
from threading import Event
from typing import Any, NamedTuple

from measuring.command_line import LoadTestError
from measuring.http_client import OK
from measuring.processes import READY_PATH, Service, call
from measuring.results import bound, growth, none_of
from measuring.testbed import Testbed, by_outcome, wait_until
from swiftlet.manifest import FILE_NAME, read_manifest, write_manifest

SHARE = 0.25
WARM_SHARE = 0.2
"""The share of the reloads that happen before the first measurement of memory."""
SAMPLES = 20
_KEY = "admin-key-of-the-load-test"
_CONFLICT = 409
_USUAL_SECONDS = 5.0
_SETTLING_SECONDS = 0.5
_LOADED = "loaded"
_COUNTER = "swiftlet_reloads_total"


def _flip_a_byte(index: Path) -> None:
    content = bytearray((index / "documents.sqlite").read_bytes())
    content[len(content) // 2] ^= 1
    (index / "documents.sqlite").write_bytes(content)


def _move_to_another_space(index: Path) -> None:
    write_manifest(index, replace(read_manifest(index), embedding_space="f" * 64))


def _empty(index: Path) -> None:
    for file in index.iterdir():
        file.unlink()


Damage = Callable[[Path], None]
_WHOLE: tuple[str, str, Damage] = ("nothing is broken", _LOADED, lambda _index: None)
_BROKEN: list[tuple[str, str, Damage]] = [
    ("a file is truncated", "corrupt_file", lambda index: os.truncate(index / "index.faiss", 100)),
    ("a byte is flipped", "corrupt_file", _flip_a_byte),
    ("the manifest is missing", "bad_manifest", lambda index: (index / FILE_NAME).unlink()),
    ("it is of another embedding space", "other_embedding_space", _move_to_another_space),
    ("the directory is empty", "bad_manifest", _empty),
]


class _Reload(NamedTuple):
    kind: str
    expected: str
    by_route: bool
    seconds: float
    resident_bytes: int


def reloads(testbed: Testbed, times: int) -> dict[str, Any]:
    """Reload repeatedly at a quarter of the load that the service can answer."""
    versions = testbed.folder / "versions"
    versions.mkdir()
    _publish(versions, testbed.index, 0, _WHOLE[2])
    with testbed.serve(versions / "current", admin_keys=_KEY) as service:
        rate = SHARE * testbed.capacity(service, testbed.requests)
        usual, _ = testbed.during(lambda stop: stop.wait(_USUAL_SECONDS), service, rate)
        reload = partial(_reload_all, testbed, service, versions, times)
        figures, done = testbed.during(reload, service, rate)
        ready = call(service.address + READY_PATH)[0] == OK
        outcomes = {
            name: number for name, number in by_outcome(service, _COUNTER).items() if number
        }
    expected_outcomes = dict(Counter(each.expected for each in done))
    kinds = Counter(each[:3] for each in done)
    failed = len(figures.measured) - figures.statuses[OK]
    resident_bytes = [each.resident_bytes for each in done]
    warm = int(WARM_SHARE * times)
    first, last = median(resident_bytes[warm:][:SAMPLES]), median(resident_bytes[-SAMPLES:])
    whole = [each.seconds for each in done if each.expected == _LOADED]
    return {
        "times": times,
        "share": SHARE,
        "samples": SAMPLES,
        "kinds": [
            [kind, f"`{outcome}`", kinds[kind, outcome, True], kinds[kind, outcome, False]]
            for kind, outcome in dict.fromkeys(each[:2] for each in done)
        ],
        "statuses": figures.statuses,
        "failed": failed,
        "seconds": {f"p{p}": figures.latency(p) / 1000 for p in (50, 99, 100)},
        "usual_seconds": {f"p{p}": usual.latency(p) / 1000 for p in (50, 99)},
        "reload_seconds": {"median": median(whole), "most": max(whole)},
        "resident_bytes": resident_bytes,
        "bounds": [
            none_of("requests that failed", failed),
            bound(
                "reloads by outcome, as the metric counts them",
                _listed(outcomes), _listed(expected_outcomes), kept=outcomes == expected_outcomes,
            ),
            growth(f"resident memory after {warm} reloads and at the end", first, last),
            bound("ready afterwards", "yes" if ready else "no", "yes", kept=ready),
        ],
    }  # fmt: skip


def _reload_all(
    testbed: Testbed, service: Service, versions: Path, times: int, stop: Event
) -> list[_Reload]:
    broken, done = cycle(_BROKEN), []
    for number in range(times):
        if stop.is_set():
            break
        kind, expected, damage = next(broken) if number % 2 else _WHOLE
        _publish(versions, testbed.index, number + 1, damage)
        # Twice by the route, twice by the signal, so that both get every kind of directory.
        by_route = number // 2 % 2 == 0
        seconds = _reload(service, by_route=by_route, refused=expected != _LOADED)
        resident = _settled_bytes(service, versions)
        done.append(_Reload(kind, expected, by_route, seconds, resident))
    return done


def _listed(outcomes: dict[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(outcomes.items()))


def _publish(versions: Path, index: Path, number: int, damage: Damage) -> None:
    """Make a version of `index` the current one, and remove versions that are no longer used."""
    version = versions / f"version-{number}"
    shutil.copytree(index, version)
    damage(version)
    following = versions / "next"
    following.symlink_to(version.name)
    following.rename(versions / "current")
    # The service uses the last complete version, which is one of the two previous ones.
    shutil.rmtree(versions / f"version-{number - 3}", ignore_errors=True)


def _reload(service: Service, *, by_route: bool, refused: bool) -> float:
    """Seconds until a reload has an outcome."""
    before = sum(by_outcome(service, _COUNTER).values())
    began = time.perf_counter()
    if by_route:
        status, body = call(f"{service.address}/admin/reload", method="POST", key=_KEY)
        expected = _CONFLICT if refused else OK
        if status != expected:
            raise LoadTestError(f"a reload was answered {status}, not {expected}: {body.decode()}")
    else:
        service.process.send_signal(signal.SIGHUP)
        wait_until(
            lambda: sum(by_outcome(service, _COUNTER).values()) > before, "a reload has no outcome"
        )
    return time.perf_counter() - began


def _settled_bytes(service: Service, versions: Path) -> int:
    """Resident memory half a second after earlier versions were released."""

    def mapped() -> set[str]:
        files = (Path(each.path) for each in service.process.memory_maps())
        return {
            file.relative_to(versions).parts[0] for file in files if file.is_relative_to(versions)
        }

    wait_until(lambda: len(mapped()) <= 1, "the memory of an earlier version is not released")
    time.sleep(_SETTLING_SECONDS)
    return service.resident_bytes()
