"""Readable messages for invalid settings."""

from collections.abc import Callable, Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError


def describe_errors(
    error: ValidationError, model: type[BaseModel], name: Callable[[str], str] = str
) -> str:
    """Describe all errors in the settings of `model`, with the bound or the choices of each.

    :param name: Gives the user's name for `table.setting`.
    """
    errors = error.errors()
    # A list also counts as too short if an entry of it is bad.
    places = [each["loc"] for each in errors]
    return "; ".join(
        _describe(found, model, name)
        for found in errors
        if found["type"] != "too_short"
        or not any(place[: len(found["loc"])] == found["loc"] != place for place in places)
    )


def _describe(error: Any, model: type[BaseModel], name: Callable[[str], str]) -> str:
    place = ".".join(map(str, error["loc"]))
    message = error["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    match error["type"]:
        case "extra_forbidden":
            table = _table(model, error["loc"][:-1])
            # Those of the table itself first, and then those that it has from others.
            known = dict.fromkeys([*table.__annotations__, *table.model_fields])
            return f"{place} is not a setting; the settings are {', '.join(known)}"
        case "missing":
            return f"{name(place)} is missing"
        case "too_short":
            least, found = (error["ctx"][each] for each in ("min_length", "actual_length"))
            return f"{name(place)} has {found} entries; at least {least} is expected"
        case "value_error":
            return f"{name(place)}: {message}" if place else message
        case _:
            return f"{name(place)} is {error['input']!r:.60}, but should be {message}"


def _table(model: type[BaseModel], place: tuple[str | int, ...]) -> type[BaseModel]:
    """The model of the table at `place`. Numbers in `place` are list indices."""
    for part in place:
        if isinstance(part, str):
            model = next(_models(model.model_fields[part].annotation))
    return model


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)
