"""How the processor time of a function grows with what it is given."""

import gc
from collections.abc import Callable
from time import process_time


def least_seconds(call: Callable[[], object], rounds: int = 3) -> float:
    """The least processor time of several calls: what else the process does costs some of them."""

    def seconds() -> float:
        gc.disable()  # a collection takes as long as the heap of the whole test run is large
        began = process_time()
        try:
            call()
            return process_time() - began
        finally:
            gc.enable()

    return min(seconds() for _ in range(rounds))


def grows_evenly(run: Callable[[int], object], count: int) -> bool:
    """Whether four times the `count` takes at most eight times as long: the square takes 16."""
    single, fourfold = (least_seconds(lambda n=n: run(n)) for n in (count, 4 * count))
    return fourfold < 8 * single + 0.02
