"""The lanes of the tests: what may stand in the first one, and which worker runs what."""

import gc
import os
import re
import time
from collections.abc import Generator
from functools import cache
from pathlib import Path
from statistics import median

import pytest

# Else threads of OpenMP that wait for work take the processor from the other worker.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

MOST_SECONDS = 6.0 if os.environ.get("CI") else 3.0
"""Of processor time, for a test of the first lane. Seconds of the wall depend on other programs.

CI, whose machine varies, is to find what is far above the bound, and not what is at it by chance.
"""

DEAR = {"check", "soak"}
"""The marks of the lanes after the first."""

_WHOLLY_DEAR = re.compile(r"^pytestmark = pytest\.mark\.(?:check|soak)\b", re.MULTILINE)

SHARING = ("tests/swiftlet/servers", "tests/deploy")
"""Folders whose servers are started once in every lane."""

LONGEST = ("tests/swiftlet/servers", "tests/crashes", "tests/service", "tests/test_")
"""What takes minutes in the lanes after the first, the longest first."""

_LOOP_SECONDS = 0.033
"""What the loop of `_slowness` takes on the machine that the bound was chosen on."""


def _processor_seconds() -> float:
    """Of this process and of the children that have ended."""
    return sum(os.times()[:4])


@cache
def _slowness() -> float:
    """How many times as long this machine takes as the one of the bound, at least 1."""
    seconds = []
    for _ in range(5):
        began = time.process_time()
        sum(len(f"{number:x}") for number in range(300_000))
        seconds.append(time.process_time() - began)
    return max(1.0, median(seconds) / _LOOP_SECONDS)


def _is_quiet() -> bool:
    """Whether the cores have time: on busy ones, the same work takes much more processor time."""
    return os.getloadavg()[0] < 2 * len(os.sched_getaffinity(0))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that is too heavy for its lane, on quiet cores. Its fixtures do not count.

    pyproject.toml has such a test run a second time, since the first one to import a library pays
    for it.
    """
    before = _processor_seconds()
    result = yield
    taken = (_processor_seconds() - before) / _slowness()
    dear = DEAR & {mark.name for mark in item.iter_markers()}
    if taken > MOST_SECONDS and not dear and _is_quiet():
        pytest.fail(
            f"the test took {taken:.1f} s of processor time; at most {MOST_SECONDS:g} s are "
            "expected in the first lane: make it cheaper, move work that tests share into a "
            "fixture, or move it to the second lane by `@pytest.mark.check`",
            pytrace=False,
        )
    return result


def _scope(place: str, *, is_first_lane: bool) -> str:
    """What one worker runs as a whole, of the place of a test: a folder, or a file of a dear lane.

    A folder's modules and session fixtures are loaded once then. In the other lanes they cost less
    than a worker without work at the end.
    """
    file = place.partition("::")[0]
    folder = file.rpartition("/")[0]
    return folder if is_first_lane or folder.startswith(SHARING) else file


def _names_a_lane(file: Path) -> bool:
    """Whether a file may have tests of the dear lanes."""
    text = file.read_text("utf-8")
    return "mark.check" in text or "mark.soak" in text or "servers" in file.parts


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the files without a test of the lane out of it: imports take half a minute."""
    if not collection_path.match("test_*.py"):
        return None
    lane = config.option.markexpr.partition(" ")[0]
    has_others = lane in DEAR and not _names_a_lane(collection_path)
    is_dear = lane == "not" and _WHOLLY_DEAR.search(collection_path.read_text("utf-8"))
    return True if has_others or is_dear else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Refuse a test of a dear lane in a file that would be left out of it."""
    if DEAR & {mark.name for mark in item.iter_markers()} and not _names_a_lane(item.path):
        raise pytest.UsageError(f"{item.nodeid} has its mark from elsewhere: write it in its file")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest."""

    def place(item: pytest.Item) -> int:
        begins = [item.nodeid.startswith(each) for each in LONGEST]
        return begins.index(True) if True in begins else len(begins)

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Leave all that is imported out of collections of garbage, which would walk it each time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Give each worker one scope after the other; the dear lanes in their order."""
    from xdist.scheduler import LoadScopeScheduling

    is_first_lane = "not check" in config.option.markexpr
    config.option.loadscopereorder = is_first_lane  # by the number of tests

    class ByScope(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _scope(nodeid, is_first_lane=is_first_lane)

    return ByScope(config, log)
