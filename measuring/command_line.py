"""Command lines and signals; bad arguments are refused in one sentence, with status 2."""

import argparse
import math
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

REFUSED = 2
_ASKED_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class LoadTestError(Exception):
    """A load test cannot run; the message names the culprit and the bound."""


class Parser(argparse.ArgumentParser):
    """Refuses bad arguments in one sentence, without the usage before it."""

    def error(self, message: str) -> NoReturn:
        """End the process with the sentence and status 2."""
        refuse(message)


def script_options(description: str | None, **options: Any) -> argparse.Namespace:
    """The options of a script that measures, by name.

    Each has its default, or a tuple of choices, of which the first is the default. Or it is a path:
    `Path` if it is required and must be there, None if it is not.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in options.items():
        choices = default if isinstance(default, tuple) else None
        value = choices[0] if choices else None if default is Path else default
        kind = Path if value is None else type(value)
        words: dict[str, Any] = {"type": kind, "default": value, "required": default is Path}
        words["choices"] = choices
        parser.add_argument(f"--{name.replace('_', '-')}", help=f"default: {value}", **words)
    given = parser.parse_args()
    for name, default in options.items():
        if default is Path and not getattr(given, name).exists():
            parser.error(f"--{name} {getattr(given, name)}: there is no such file or folder")
    return given


def refuse(reason: LoadTestError | str, status: int = REFUSED) -> NoReturn:
    """End the process with the sentence and the status."""
    print(f"loadtests: {reason}", file=sys.stderr, flush=True)
    sys.exit(status)


def number(
    least: float, most: float, kind: type[int] | type[float] = float
) -> Callable[[str], float]:
    """The type of an argument that is a number within bounds."""
    expected = "a whole number" if kind is int else "a number"

    def parse(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            bounds = f"{expected} from {least:g} to {most:g}"
            raise argparse.ArgumentTypeError(f"{text!r} is given; {bounds} is expected")
        return value

    return parse


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
    """Delay signals within the block until its end; outside the main thread none arrives."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
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
