"""Signals that ask the load test to end: it ends its services first, and says so."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ASKED_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """A signal has asked for the end; asyncio lets no other kind of exception pass."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = signal.Signals(number)


def stop_on_signals() -> None:
    """Raise `Stopped` from now on, wherever the process is; what is ignored stays so."""
    for number in _ASKED_TO_END:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)


@contextmanager
def held_back() -> Iterator[None]:
    """A signal that comes within the block takes effect after it."""
    came: list[int] = []
    handlers = {
        number: signal.signal(number, lambda number, _frame: came.append(number))
        for number in _ASKED_TO_END
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def _stop(number: int, _frame: FrameType | None) -> None:
    raise Stopped(number)
