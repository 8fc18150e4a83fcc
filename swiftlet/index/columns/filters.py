"""The language of filters: conditions on the metadata of documents."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from swiftlet.errors import FilterError, UnknownFieldError, shown, shown_json
from swiftlet.index.columns.columns import (
    LONGEST_KEY,
    Columns,
    KeyRange,
    boolean_key,
    date_key,
    field_keys,
    keys_with,
    number_key,
    one_key,
    parse_date,
    text_key,
)
from swiftlet.text import in_form

MOST_VALUES = 256
"""The values that a filter may compare with, in all."""

_DEEPEST, _LARGEST = 16, 2_048
"""The levels of a filter, and the values, objects and lists that are parsed to count its values."""

_MOST_NAMED, _MOST_COMPARED = 40, 2_000
"""The fields that a refusal names, and those among which it looks for the nearest names."""

_SEARCHED = ("title", "text")
_RANGES = ("gt", "gte", "lt", "lte")
_OPERATORS = ("eq", "any", "all", "none", *_RANGES, "exists", "prefix")
KINDS = {b"b": "true or false", b"n": "numbers", b"s": "texts", b"d": "dates"}
"""What the kinds of values are called."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Condition:
    """The documents that have a key of the field `path` in one of the ranges.

    All `keys` are of one `kind`; "" stands for any.
    """

    path: str
    keys: tuple[KeyRange, ...]
    kind: bytes = b""


@dataclass(frozen=True, slots=True)
class Every:
    """The documents that pass each of the parts."""

    parts: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class Some:
    """The documents that pass one of the parts."""

    parts: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class Without:
    """The documents that do not pass the part."""

    part: "Filter"


Filter = Condition | Every | Some | Without


def parse_filter(value: object) -> Filter:
    """The filter that an object of JSON describes; docs/search.md has the language.

    One that this function returned is not parsed again.

    :raises FilterError: When it is none, or has more than `MOST_VALUES` values.
    """
    if isinstance(value, Filter):
        return value
    size, waiting = 0, [value]
    while waiting and (size := size + 1) <= _LARGEST:
        inner = waiting.pop()
        if isinstance(inner, Mapping):
            waiting += inner.values()
        elif isinstance(inner, list | tuple):
            waiting += inner
    if size > _LARGEST:
        raise FilterError(
            f"the filter has more than {_LARGEST} values, objects and lists; at most {MOST_VALUES} "
            "values and conditions are expected"
        )
    parsed = _parse(value, 1)
    count = sum(len(condition.keys) for condition in conditions(parsed))
    if count > MOST_VALUES:
        raise FilterError(
            f"the filter has {count} values and conditions; at most {MOST_VALUES} are expected"
        )
    return parsed


def fold(
    tree: Filter,
    condition: Callable[[Condition], T],
    every: Callable[[list[T]], T],
    some: Callable[[list[T]], T],
    without: Callable[[T], T],
) -> T:
    """A filter as a value: each function gets the values of the parts."""

    def value_of(node: Filter) -> T:
        match node:
            case Condition():
                return condition(node)
            case Every(parts):
                return every(list(map(value_of, parts)))
            case Some(parts):
                return some(list(map(value_of, parts)))
            case Without(part):
                return without(value_of(part))

    return value_of(tree)


def conditions(tree: Filter) -> Iterator[Condition]:
    """All conditions of a filter."""
    match tree:
        case Condition():
            yield tree
        case Every(parts) | Some(parts):
            for part in parts:
                yield from conditions(part)
        case Without(part):
            yield from conditions(part)


def check_fields(tree: Filter, parts: Iterable[Columns]) -> None:
    """Refuse a filter on fields, or on kinds of values, that no document in `parts` has.

    :raises FilterError: When there is one; names it, and the fields or kinds that exist.
    """
    parts = list(parts)

    def exists(condition: Condition) -> bool:
        return any(columns.codes(keys) for columns in parts for keys in condition.keys)

    if (condition := first_without_values(tree, exists)) is None:
        return
    raise unknown_field(condition, {name for columns in parts for name in columns.fields()})


def unknown_field(condition: Condition, fields: Iterable[str]) -> UnknownFieldError:
    """The refusal of a filter on a field that no document has."""
    path, names = condition.path, sorted(fields)
    near = get_close_matches(path[:LONGEST_KEY], names[:_MOST_COMPARED], 3)
    shown_names = names if len(names) <= _MOST_NAMED else [*dict.fromkeys([*near, *names])]
    listed = ", ".join([shown(name) for name in shown_names[:_MOST_NAMED]])
    more = ", …" if len(names) > _MOST_NAMED else ""
    why = ", which is searched and no field of the metadata" if path in _SEARCHED else ""
    return UnknownFieldError(
        path,
        f"the filter names {shown(path)}{why}, but "
        + (
            f"the documents have the fields [{listed}{more}]"
            if names
            else "no document has metadata"
        ),
    )


def first_without_values(tree: Filter, exists: Callable[[Condition], bool]) -> Condition | None:
    """The first condition on a field that no document has, if there is one.

    :param exists: Whether a document passes a condition.
    :raises FilterError: When documents have values of the field, but of other kinds.
    """

    def of_kind(path: str, kind: bytes) -> Condition:
        keys = (field_keys(path, kind),) if kind else (field_keys(path), inner_keys(path))
        return Condition(path, keys, kind)

    for condition in conditions(tree):
        path, kind = condition.path, condition.kind
        if exists(of_kind(path, kind)):
            continue
        kinds = [name for other, name in KINDS.items() if exists(of_kind(path, other))]
        if not kinds:
            return condition
        raise UnknownFieldError(
            path,
            f"the filter compares {shown(path)} with {KINDS[kind]}, but its values are "
            f"{' and '.join(kinds)}",
        )
    return None


def passing(tree: Filter, columns: Columns, num_documents: int) -> NDArray[np.bool]:
    """Whether each document passes the filter, (num_documents,)."""

    def with_keys(condition: Condition) -> NDArray[np.bool]:
        mask = np.zeros(num_documents, dtype=np.bool)
        for keys in condition.keys:
            mask[columns.documents(columns.codes(keys))] = True
        return mask

    def every(masks: list[NDArray[np.bool]]) -> NDArray[np.bool]:
        return np.logical_and.reduce(masks) if masks else np.ones(num_documents, dtype=np.bool)

    return fold(tree, with_keys, every, np.logical_or.reduce, np.logical_not)


def _parse(value: object, depth: int) -> Filter:
    if not isinstance(value, Mapping):
        raise FilterError(f"the filter has {shown_json(value)} where an object is expected")
    if depth > _DEEPEST:
        raise FilterError(f"the filter is nested more than {_DEEPEST} levels deep")
    parts: list[Filter] = []
    for name, operand in value.items():
        if name in ("and", "or"):
            inner = tuple(_parse(part, depth + 1) for part in _listed(name, operand))
            parts.append(Every(inner) if name == "and" else Some(inner))
        elif name == "not":
            parts.append(Without(_parse(operand, depth + 1)))
        elif isinstance(operand, Mapping):
            parts += _operators(str(name), operand)
        else:
            operator = "any" if isinstance(operand, list | tuple) else "eq"
            parts += _operators(str(name), {operator: operand})
    return parts[0] if len(parts) == 1 else Every(tuple(parts))


def _operators(path: str, operators: Mapping[str, Any]) -> Iterator[Filter]:
    if unknown := [name for name in operators if name not in _OPERATORS]:
        raise FilterError(
            f"the filter of {shown(path)} has the operator {shown(unknown[0])}, but one of "
            f"{', '.join(_OPERATORS)} is expected; a nested field is named by its path, such as "
            f"{shown(f'{path}.{unknown[0]}')}"
        )
    if not operators:
        raise FilterError(f"the filter of {shown(path)} has no operator")
    ranges = {name: operators[name] for name in _RANGES if name in operators}
    if ranges:
        yield _between(path, ranges)
    for name, operand in operators.items():
        match name:
            case "eq":
                yield _equal(path, operand)
            case "any":
                yield Some(tuple(_equal(path, each) for each in _listed(path, operand)))
            case "all":
                yield Every(tuple(_equal(path, each) for each in _listed(path, operand)))
            case "none":
                each = tuple(_equal(path, each) for each in _listed(path, operand))
                yield Without(Some(each))
            case "exists":
                if not isinstance(operand, bool):
                    raise _expected(path, name, operand, "true or false")
                found = Condition(path, (field_keys(path), inner_keys(path)))
                yield found if operand else Without(found)
            case "prefix":
                if (
                    not isinstance(operand, str)
                    or not 0 < len(operand.encode(errors="replace")) <= LONGEST_KEY
                ):
                    raise _expected(path, name, operand, f"a text of 1 to {LONGEST_KEY} bytes")
                yield Condition(path, tuple(map(keys_with, _text_keys(path, operand))), b"s")


def _equal(path: str, value: object) -> Condition:
    match value:
        case bool():
            return Condition(path, (one_key(boolean_key(path, value)),), b"b")
        case int() | float() if _is_number(value):
            return Condition(path, (one_key(number_key(path, value)),), b"n")
        case str():
            return Condition(path, tuple(map(one_key, _text_keys(path, value))), b"s")
    raise FilterError(
        f"the filter of {shown(path)} has the value {shown_json(value)}, but a text, a number, "
        'true or false is expected; {"exists": false} finds documents without one'
    )


def _text_keys(path: str, value: str) -> list[bytes]:
    """The keys of a text: composed, and as it is, since earlier indexes have texts as they were."""
    return [*{text_key(path, each): None for each in (in_form("NFC", value), value)}]


def _between(path: str, bounds: Mapping[str, Any]) -> Condition:
    """The range between the bounds; a date stands for all of its day."""
    numbers = [value for value in bounds.values() if _is_number(value)]
    if len(numbers) == len(bounds):
        kind = b"n"
        ends = {name: (number_key(path, value), b"\0") for name, value in bounds.items()}
    elif not numbers:
        kind = b"d"
        ends = {}
        for name, value in bounds.items():
            moments = parse_date(value) if isinstance(value, str) else None
            if moments is None:
                raise _expected(path, name, value, "a number or an ISO date such as 2020-12-31")
            first, after = (date_key(path, moment) for moment in moments)
            ends[name] = (first, b"") if name in ("gte", "lt") else (after, b"")
    else:
        raise FilterError(
            f"the filter of {shown(path)} has numbers and dates as the bounds of one range"
        )
    first, end = field_keys(path, kind)
    for name, (key, after) in ends.items():
        match name:
            case "gte":
                first = max(first, key)
            case "gt":
                first = max(first, key + after)
            case "lt":
                end = min(end, key)
            case "lte":
                end = min(end, key + after)
    return Condition(path, (KeyRange(first, end),), kind)


def inner_keys(path: str) -> KeyRange:
    """The keys of all fields inside a nested field."""
    return keys_with(text_key(f"{path}.", "").split(b"\0", 1)[0])


def _is_number(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and not (isinstance(value, float) and math.isnan(value))


def _listed(name: str, operand: object) -> Sequence[Any]:
    if not isinstance(operand, list | tuple) or not operand:
        raise FilterError(
            f"the filter of {shown(name)} has {shown_json(operand)}, but a list of one element or "
            "more is expected"
        )
    return operand


def _expected(path: str, operator: str, operand: object, expected: str) -> FilterError:
    return FilterError(
        f'the filter of {shown(path)} has "{operator}": {shown_json(operand)}, but {expected} is '
        "expected"
    )
