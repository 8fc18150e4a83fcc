"""The options of `swiftlet search` and `swiftlet evaluate`: the fields of `SearchRequest`."""

import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any, get_args, get_type_hints

import typer

from swiftlet.cli.options import filter_of
from swiftlet.search.request import OPTIONS, SearchRequest

_TYPES = get_type_hints(SearchRequest, localns={"Filter": str})
_DEFAULTS = {
    "mode": "hybrid, where the index has both",
    "weight": "the index's",
    "filter": "all documents",
    "rerank": "none",
}
PRINTED = tuple(
    name for name, option in OPTIONS.items() if option.printed and name not in {"query", "top_k"}
)
"""The fields that have an option of `swiftlet search`."""

MEASURED = tuple(name for name in PRINTED if OPTIONS[name].ranks)
"""The fields that have an option of `swiftlet evaluate`."""


def takes(names: Iterable[str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command, which takes `**fields`, an option for each of these fields of a request."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        added = [_parameter(name) for name in names]
        command.__signature__ = signature.replace(parameters=own + added)  # type: ignore[attr-defined]
        command.__annotations__ |= {each.name: each.annotation for each in added}
        return command

    return decorate


def given(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields with a value, as `SearchRequest` takes them.

    :raises FilterError: When the filter is not JSON.
    """
    values = {name: value for name, value in fields.items() if value is not None}
    if "filter" in values:
        values["filter"] = filter_of(values["filter"])
    return values


def _parameter(name: str) -> inspect.Parameter:
    hint, further = _TYPES[name], dict[str, Any]()
    if name in _DEFAULTS:
        further["show_default"] = _DEFAULTS[name]
    if int in {hint, *get_args(hint)}:
        further["min"] = 0 if name == "offset" else 1
    option = typer.Option(f"--{name.replace('_', '-')}", help=OPTIONS[name].about, **further)
    default = SearchRequest.__dataclass_fields__[name].default
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=Annotated[hint, option])
