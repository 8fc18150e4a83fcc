"""How the processor time of a function grows with what it is given."""

import gc
from collections.abc import Callable
from math import inf
from time import process_time


def seconds_of(call: Callable[[], object]) -> float:
    """The processor time of a call."""
    gc.disable()  # a collection takes as long as the heap of the whole test run is large
    began = process_time()
    try:
        call()
        return process_time() - began
    finally:
        gc.enable()


def least_seconds(call: Callable[[], object], rounds: int = 3) -> float:
    """The least processor time of several calls: what else the process does costs some of them."""
    return min(seconds_of(call) for _ in range(rounds))


def grows_evenly(run: Callable[[int], object], count: int) -> bool:
    """Whether four times the `count` takes at most eight times as long: the square takes 16.

    One round that is far from that suffices; else the least of three rounds counts. Other programs
    may disturb three, but hardly nine.
    """
    single = fourfold = inf
    for done in range(1, 10):
        # The longer call pays for what the first one of all loads.
        fourfold = min(fourfold, seconds_of(lambda: run(4 * count)))
        single = min(single, seconds_of(lambda: run(count)))
        if fourfold < 5 * single + 0.01 or (done >= 3 and fourfold < 8 * single + 0.02):
            return True
    return False
