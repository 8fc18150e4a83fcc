"""Overloads one index of a folder, and measures how long searches of another one take meanwhile."""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import cycle
from multiprocessing import get_context
from statistics import median
from threading import Event
from typing import Any

from measuring.http_client import OK, Request
from measuring.load_figures import Figures
from measuring.loads import closed_loop
from measuring.results import at_most, only
from measuring.testbed import CLIENTS, Testbed

QUIET_SHARE = 0.05
ROUNDS = 5
MOST_TIMES = 1.2


def neighbours(testbed: Testbed, seconds: float) -> dict[str, Any]:
    """Search a quiet index alone and beside a busy one, in turns, for `seconds` each time."""
    folder = testbed.folder / "indexes"
    folder.mkdir()
    for name in ("quiet", "busy"):
        (folder / name).symlink_to(testbed.index.resolve())
    quiet, busy = ([_about(each, name) for each in testbed.requests] for name in ("quiet", "busy"))
    found: dict[str, list[Figures]] = {"alone": [], "beside": []}
    answered: list[float] = []
    # Another process, so that the quiet client does not wait for the busy one's interpreter.
    pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
    with testbed.serve(indexes=folder) as service, pool:

        def saturate(_: Event) -> None:
            answered.append(pool.submit(_saturate, service.address, busy, seconds).result())

        saturate(Event())  # starts the process, and opens the index
        answered.clear()
        works: dict[str, Callable[[Event], object]] = {
            "alone": lambda stop: stop.wait(seconds), "beside": saturate,
        }  # fmt: skip
        rate = QUIET_SHARE * testbed.capacity(service, quiet)
        for _ in range(ROUNDS):
            for name, work in works.items():
                found[name].append(testbed.during(work, service, rate, quiet)[0])
    each = {
        f"p{p}": {name: [one.latency(p) / 1000 for one in of] for name, of in found.items()}
        for p in (50, 99)
    }
    typical = {p: {name: median(values) for name, values in of.items()} for p, of in each.items()}
    statuses = sum((one.statuses for of in found.values() for one in of), Counter[int]())
    times = typical["p99"]["beside"] / typical["p99"]["alone"]
    return {
        "seconds": seconds, "rounds": ROUNDS, "clients": CLIENTS, "rate": rate,
        "busy_rate": median(answered), "each": each, "typical": typical,
        "bounds": [
            only("statuses of the quiet index other than 200", statuses, (OK,)),
            at_most("p99 beside the busy index, over alone", times, MOST_TIMES, "{:.2f}".format),
        ],
    }  # fmt: skip


def _about(request: Request, index: str) -> Request:
    return replace(request, path=f"/indexes/{index}{request.path}")


def _saturate(address: str, requests: Sequence[Request], seconds: float) -> float:
    """Answers a second to clients without pauses."""
    load = closed_loop(address, cycle(requests), clients=CLIENTS, seconds=seconds)
    return Figures(load).answered_rate
