"""How the processor time of a function grows with what it is given."""

from collections.abc import Callable
from time import process_time


def grows_evenly(run: Callable[[int], object], count: int) -> bool:
    """Whether twice the `count` takes at most four times as long."""
    run(10)
    seconds = []
    for each in (count, 2 * count):
        began = process_time()
        run(each)
        seconds.append(process_time() - began)
    return seconds[1] < 4 * seconds[0] + 0.1
