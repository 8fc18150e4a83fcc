"""Checks of the arguments of public functions."""

import operator
import os
from collections.abc import Sequence
from dataclasses import replace
from math import inf, nan
from numbers import Real
from pathlib import Path
from typing import TypeVar

from swiftlet.address import TOKEN_VARIABLE, Address, is_address, parse_address, typed_address
from swiftlet.errors import InvalidArgumentError, shown

T = TypeVar("T", bound=str)
StrPath = str | os.PathLike[str]


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


def number(name: str, value: object, *, least: float = -inf, most: float = inf) -> float:
    """The value of the argument `name` as a float; NumPy's numbers are taken, booleans are not.

    :raises InvalidArgumentError: When it is no number, or not from `least` to `most`.
    """
    found = float(value) if isinstance(value, Real) and not isinstance(value, bool) else nan
    if not least <= found <= most:
        bounds = f" from {least:g} to {most:g}" if least > -inf else ""
        raise InvalidArgumentError(f"{name} is {shown(value)}, but a number{bounds} is expected")
    return found


def one_of(name: str, value: object, choices: Sequence[T]) -> T:
    """The value of the argument `name`, one of `choices`.

    :raises InvalidArgumentError: When it is another value.
    """
    for choice in choices:
        if choice == value:
            return choice
    raise InvalidArgumentError(
        f"{name} is {shown(value)}, but one of {', '.join(choices)} is expected"
    )


def place_of(name: str, value: object) -> Path | Address:
    """The value of the argument `name` as a path, or as an address with the token that is set.

    :raises InvalidArgumentError: When it is neither.
    """
    if isinstance(value, Address):
        return value
    if isinstance(value, str) and "://" in value:
        token = os.environ.get(TOKEN_VARIABLE, "")
        if not token.isprintable():
            raise InvalidArgumentError(
                f"{TOKEN_VARIABLE} has a character that cannot be printed: set it to the token, or "
                "USER:PASSWORD, in UTF-8"
            )
        return replace(parse_address(value), token=token)
    return path_of(name, value)


def address_of(name: str, value: object) -> Address:
    """The value of the argument `name` as an address, with the token that is set.

    :raises InvalidArgumentError: When it is none.
    """
    found = place_of(name, value)
    return found if isinstance(found, Address) else parse_address(f"{value}")


def path_of(name: str, value: object) -> Path:
    """The value of the argument `name` as a path.

    :raises InvalidArgumentError: When it is no path, or empty.
    """
    if not isinstance(value, str | os.PathLike) or value == "":
        raise InvalidArgumentError(f"{name} is {shown(value)}, but a path is expected")
    if is_address(f"{value}"):
        raise InvalidArgumentError(
            f"{name} is the address of a server, but a path on this machine is expected: make an "
            "index of it by swiftlet pull ADDRESS --out INDEX"
        )
    if (typed := typed_address(f"{value}")) is not None:
        raise InvalidArgumentError(
            f"{name} is {shown(typed)}, but a path on this machine is expected: begin it with "
            "./ if there is a colon in its name"
        )
    return Path(value)
