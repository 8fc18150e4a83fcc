"""Arguments of public functions: their checks, and options, which are fields of frozen values.

An option tells the command line, the service and the checks the same.
"""

import operator
import os
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import cache, partial
from math import inf, nan
from numbers import Real
from pathlib import Path
from typing import Any, TypeVar

from swiftlet.address import TOKEN_VARIABLE, Address, is_address, parse_address, typed_address
from swiftlet.errors import InvalidArgumentError, shown

T = TypeVar("T", bound=str)
Made = TypeVar("Made")
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
        given = shown(value if isinstance(value, str) else typed)
        raise InvalidArgumentError(
            f"{name} is {given}, but a path on this machine is expected: begin it with ./ if there "
            "is a colon in its name"
        )
    return Path(value)


@dataclass(frozen=True, slots=True)
class Option:
    """A field of a frozen dataclass, beyond its type and its default."""

    about: str
    """The help of the command line."""

    check: Callable[[str, Any], Any] | None = None
    """The value that is read later, by the name and the given value; it refuses bad ones."""

    _: KW_ONLY
    flag: str = ""
    """The option of the command line, where the field has another name."""

    unset: str = ""
    """What the command line says instead of the default None."""

    least: int | None = None
    """The least of whole numbers, which then need no other check."""


@cache
def options_of(settings: type) -> dict[str, Any]:
    """The options of a dataclass, by the names of the annotated fields."""
    annotated: list[Any] = [each for each in fields(settings) if hasattr(each.type, "__metadata__")]
    return {each.name: each.type.__metadata__[0] for each in annotated}


def made(kind: type[Made], *positional: Any, **named: Any) -> Made:
    """The value that a caller of another function describes by the names of its fields.

    A first argument that is such a value already is returned as it is.

    :raises InvalidArgumentError: When there is no field of a name; else as `kind` itself.
    """
    if positional and isinstance(positional[0], kind):
        return positional[0]
    key: Any = kind
    options = options_of(key)
    if unknown := [name for name in named if name not in options]:
        raise InvalidArgumentError(
            f"there is no option {shown(unknown[0])}; the options are {', '.join(options)}"
        )
    return kind(*positional, **named)


@cache
def _checks(settings: type) -> list[tuple[str, Callable[[str, Any], Any], object]]:
    found = []
    defaults = {each.name: each.default for each in fields(settings)}
    for name, option in options_of(settings).items():
        check = option.check
        if option.least is not None:
            check = partial(whole_number, least=option.least)
        if check is not None:
            found.append((name, check, defaults[name]))
    return found


def check_values(settings: object) -> None:
    """Check the values of a frozen dataclass with options, in its `__post_init__`.

    :raises InvalidArgumentError: When a value is not its default, and out of its range.
    """
    kind: Any = type(settings)
    for name, check, default in _checks(kind):
        if (value := getattr(settings, name)) is not default:
            object.__setattr__(settings, name, check(name, value))
