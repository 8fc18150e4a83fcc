"""Processor time, as tests bound how it grows with an input."""

import gc
from collections.abc import Callable
from time import process_time


def least_seconds(call: Callable[[], object], rounds: int = 3) -> float:
    """The least processor time of several calls: what else the process does costs some of them."""

    def seconds() -> float:
        gc.collect()
        began = process_time()
        call()
        return process_time() - began

    return min(seconds() for _ in range(rounds))
