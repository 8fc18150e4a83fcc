"""Signals that end the load test, after its services were stopped."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ASKED_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """The process received a signal; asyncio lets only children of KeyboardInterrupt pass."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = signal.Signals(number)


def stop_on_signals() -> None:
    """Raise `Stopped` on these signals from now on; ignored ones stay ignored."""
    for number in _ASKED_TO_END:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)


@contextmanager
def held_back() -> Iterator[None]:
    """Delay signals within the block until its end."""
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
