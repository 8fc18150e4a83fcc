"""Checks of the arguments of public functions."""

import operator
import os
from pathlib import Path

from swiftlet.retrieval.errors import InvalidArgumentError, shown


def whole_number(name: str, value: object, *, least: int) -> int:
    """The value of the argument `name` as an int; NumPy's integers are taken, booleans are not.

    :raises InvalidArgumentError: When it is no whole number, or below `least`.
    """
    try:
        number = operator.index(None if isinstance(value, bool) else value)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidArgumentError(
            f"{name} is {shown(value)}, but a whole number of at least {least} is expected"
        ) from None
    if number < least:
        raise InvalidArgumentError(f"{name} is {number}, but at least {least} is expected")
    return number


def path_of(name: str, value: object) -> Path:
    """The value of the argument `name` as a path.

    :raises InvalidArgumentError: When it is no path, or empty.
    """
    if not isinstance(value, str | os.PathLike) or value == "":
        raise InvalidArgumentError(f"{name} is {shown(value)}, but a path is expected")
    return Path(value)
