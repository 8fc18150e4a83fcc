"""The time at which the answer to the search on this thread is due."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from time import perf_counter

_DEADLINE: ContextVar[float] = ContextVar("deadline", default=inf)


@contextmanager
def due_at(deadline: float) -> Iterator[None]:
    """In the block, an answer is due at this time of `perf_counter`."""
    token = _DEADLINE.set(deadline)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def seconds_left() -> float:
    """How long an engine on another machine may take; infinite if there is no deadline."""
    return _DEADLINE.get() - perf_counter()
