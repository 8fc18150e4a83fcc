"""Options: what the fields of a frozen value tell the command line, the service and the checks."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields
from functools import cache, partial
from typing import Any, TypeVar

from swiftlet.arguments import whole_number
from swiftlet.errors import InvalidArgumentError, shown

T = TypeVar("T")


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
    """The options of a dataclass with annotated fields, by the names of the fields."""
    annotated: list[Any] = [each for each in fields(settings) if each.init]
    return {each.name: each.type.__metadata__[0] for each in annotated}


def made(kind: type[T], *positional: Any, **named: Any) -> T:
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
