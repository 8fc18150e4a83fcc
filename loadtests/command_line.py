"""Command-line parsing; bad arguments are refused in one sentence, with status 2."""

import argparse
import sys
from collections.abc import Callable
from typing import NoReturn

REFUSED = 2


class LoadTestError(Exception):
    """A load test cannot run; the message names the culprit and the bound."""


class Parser(argparse.ArgumentParser):
    """Refuses bad arguments in one sentence, without the usage before it."""

    def error(self, message: str) -> NoReturn:
        """End the process with the sentence and status 2."""
        refuse(message)


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
            value = None
        if value is None or not least <= value <= most:
            bounds = f"{expected} from {least:g} to {most:g}"
            raise argparse.ArgumentTypeError(f"{text!r} is given; {bounds} is expected")
        return value

    return parse
