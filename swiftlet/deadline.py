"""How long what asks another machine may wait."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from email.utils import parsedate_to_datetime
from math import inf
from time import perf_counter

_DEADLINE: ContextVar[float] = ContextVar("deadline", default=inf)


@contextmanager
def due_at(deadline: float) -> Iterator[None]:
    """In the block, the answer to the search on this thread is due at this `perf_counter` time."""
    token = _DEADLINE.set(deadline)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def seconds_left() -> float:
    """How long another machine may take; infinite if there is no deadline."""
    return _DEADLINE.get() - perf_counter()


def retry_after_seconds(text: str) -> float:
    """The time of a header `Retry-After`, in seconds or as a date; 0 if missing or malformed."""
    try:
        return (
            float(text) if text.isdigit() else parsedate_to_datetime(text).timestamp() - time.time()
        )
    except (ValueError, OverflowError):
        return 0.0
