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

from typing_extensions import override

from swiftlet.errors import RetrievalError

REFUSED = 2
HELP = {
    "data": "folder of the collections; made by python -m experiments.data --out DATA",
    "work": "folder of the finished runs, which are not repeated",
    "jobs": "runs at a time, each on one thread",
    "seeds": "runs with different seeds, over which a figure is averaged",
    "rounds": "repetitions, in which the compared sides alternate",
    "raw": "file of the raw figures; the page is written beside it",
    "again": "measure finished runs anew",
    "smoke": "try it in minutes: few documents, short trainings, all of it below runs/smoke",
    "queries": "file of queries, or BEIR folder",
    "wordnet": "folder of WordNet's files, as Debian's package wordnet-base has them",
    "only": "one of its experiments",
}
"""What the options of scripts mean; others have names that say it."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class LoadTestError(RetrievalError):
    """A load test cannot run; the message names the culprit and the bound."""


class Parser(argparse.ArgumentParser):
    """Refuses bad arguments in one sentence, without the usage before it."""

    @override
    def error(self, message: str) -> NoReturn:
        refuse(message, program=self.prog)


def script_parser(description: str | None, **options: Any) -> Parser:
    """The parser of a script that measures, `python -m FOLDER.SCRIPT`.

    An option has its default, or a tuple of choices, of which the first is the default; `False` is
    a flag. A function, such as `existing`, reads an option that is required; None is a path that is
    not. A list of choices is for an argument without a name.
    """
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    parser = Parser(
        prog=spec.name.removesuffix(".__main__") if spec else None, description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    for name, default in options.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(default, list):
            parser.add_argument(name, choices=default)
            continue
        if default is False:
            parser.add_argument(flag, action="store_true", help=HELP.get(name))
            continue
        choices = default if isinstance(default, tuple) else None
        read = default if callable(default) else None
        value = choices[0] if choices else None if read else default
        kind = read or (Path if value is None else type(value))
        shown = [HELP.get(name, ""), f"default: {value}" if value else ""]
        parser.add_argument(
            flag, required=bool(read), choices=choices, default=value,
            type=kind, help="; ".join(filter(None, shown)),
        )  # fmt: skip
    return parser


def script_options(description: str | None, **options: Any) -> argparse.Namespace:
    """The options of a script that measures, by name, as `script_parser` reads them."""
    return script_parser(description, **options).parse_args()


def existing(text: str) -> Path:
    """The type of an argument that is a file or a folder.

    :raises ArgumentTypeError: When there is none.
    """
    if not (path := Path(text)).exists():
        raise argparse.ArgumentTypeError(f"{path}: there is no such file or folder")
    return path


def folder_with(*names: str) -> Callable[[str], Path]:
    """The type of an argument that is the folder of these collections, in BEIR's layout."""

    def parse(text: str) -> Path:
        data = existing(text)
        lost = [
            name for name in names
            if not any((data / name / file).is_file() for file in ("queries.jsonl", "corpus.jsonl"))
        ]  # fmt: skip
        if lost:
            raise argparse.ArgumentTypeError(
                f"{data} has no collection {', '.join(lost)}: "
                f"run python -m experiments.data --out {data} {' '.join(lost)}"
            )
        return data

    return parse


def refuse(
    reason: Exception | str, status: int = REFUSED, *, program: str = "loadtests"
) -> NoReturn:
    """End the process with the sentence and the status."""
    print(f"{program.partition('.')[0]}: {reason}", file=sys.stderr, flush=True)
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
    for number in SIGNALS:
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
        for number in SIGNALS
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
