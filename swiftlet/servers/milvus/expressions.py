"""Filters as expressions of Milvus."""

from collections.abc import Iterator

from swiftlet.index.columns.columns import KeyRange, field_keys, one_key
from swiftlet.index.columns.filters import Condition, Filter, fold, inner_keys
from swiftlet.servers.milvus.filter_fields import (
    NAMES,
    NO_VALUES,
    FilterFields,
    facet_columns,
    integer_of,
    name_of,
)
from swiftlet.servers.milvus.schema import KEYS, ROW

ALL = f"{ROW} >= 0"
"""All rows."""

_NONE = f"{ROW} < 0"
_KINDS = (b"b", b"n", b"s")
_NO_INTEGER = NO_VALUES[1]
_BYTES = 8


def expression_of(tree: Filter, fields: FilterFields) -> str:
    """The rows of the documents that pass a filter."""

    # Each part with its opposite: conditions alone are negated, since a server reads 100 levels.
    def of_condition(condition: Condition) -> tuple[str, str]:
        found = _any(list(_ranges(condition, fields)))
        return found, f"not ({found})"

    def every(parts: list[tuple[str, str]]) -> tuple[str, str]:
        return _all([part for part, _ in parts]), _any([opposite for _, opposite in parts])

    def some(parts: list[tuple[str, str]]) -> tuple[str, str]:
        return _any([part for part, _ in parts]), _all([opposite for _, opposite in parts])

    def opposite(both: tuple[str, str]) -> tuple[str, str]:
        return both[1], both[0]

    found, _ = fold(tree, of_condition, every, some, opposite)
    return found


def with_values(path: str, fields: FilterFields) -> str:
    """The rows of the documents that have a value of a field."""
    if path in fields.facets:
        text, number, _ = facet_columns(fields.facets.index(path))
        return f'({text} != "" or {number} > {_NO_INTEGER})'
    return _any([_has_name(name_of(path, kind)) for kind in _KINDS])


def with_several_values(path: str, fields: FilterFields) -> str:
    """The rows of the documents that have several values of a field."""
    if path in fields.facets:
        return _NONE
    several = [_has_name(name_of(path, kind, 1)) for kind in _KINDS]
    names = [_has_name(name_of(path, kind)) for kind in _KINDS]
    pairs = zip(names, names[1:] + names[:1], strict=True)
    return _any([*several, *(_joined(" and ", [*pair]) for pair in pairs)])


def _has_name(name: str) -> str:
    """The rows of the documents that have values of this name."""
    return f'json_contains({KEYS}["{NAMES}"], "{name}")'


def _ranges(condition: Condition, fields: FilterFields) -> Iterator[str]:
    path = condition.path
    for keys in condition.keys:
        if keys == inner_keys(path):
            yield _has_name(name_of(f"{path}."))
            continue
        if path in fields.facets:
            yield _in_column(path, keys, fields)
            continue
        length = field_keys(path).first.index(b"\0") + 1
        kind = keys.first[length : length + 1]
        if keys == field_keys(path, kind):
            yield _has_name(name_of(path, kind))
        elif keys.first < keys.end:
            most = fields.most_values.get(name_of(path, kind), 1)
            yield from _values(path, kind, keys, most)


def _in_column(path: str, keys: KeyRange, fields: FilterFields) -> str:
    """The rows with a value in a range. A document has at most one value of this field."""
    whole = field_keys(path)
    if keys == whole:
        return with_values(path, fields)
    first, end = (key[len(whole.first) :] for key in keys)
    text, number, date = facet_columns(fields.facets.index(path))
    if first[:1] in b"nd":
        return _of_integers(number if first[:1] == b"n" else date, first[1:], end[1:])
    low, high = (key[:1].decode() + key[1:].hex() for key in (first, end))
    if keys == one_key(keys.first):
        return f'{text} == "{low}"'
    return f'({text} >= "{low}" and {text} < "{high}")'


def _of_integers(column: str, first: bytes, end: bytes) -> str:
    """The rows with a number or a date in a range of keys. An empty key stands for no bound.

    A key has 8 bytes, and the next one after it has 9.
    """
    if end == first + b"\0":
        return f"{column} == {integer_of(first)}"
    low = f"{'>=' if len(first) == _BYTES else '>'} {integer_of(first[:_BYTES])}"
    bounds = [f"{column} {low if first else f'> {_NO_INTEGER}'}"]
    if end:
        bounds.append(f"{column} {'<' if len(end) == _BYTES else '<='} {integer_of(end[:_BYTES])}")
    return _joined(" and ", bounds)


def _values(path: str, kind: bytes, keys: KeyRange, most_values: int) -> Iterator[str]:
    """The rows with one of the keys, by its place among the values of the field.

    A comparison with a value that is not there is neither true nor false, and so is its opposite.
    So the name comes first, which says that it is there.
    """
    start = len(field_keys(path).first) + 1
    name = name_of(path, kind)
    field = f'{KEYS}["{name}"]'
    if keys == one_key(keys.first):
        yield f'({_has_name(name)} and json_contains({field}, "{keys.first[start:].hex()}"))'
        return
    whole = field_keys(path, kind)
    for place in range(most_values):
        bounds = [_has_name(name_of(path, kind, place))]
        if keys.first > whole.first:
            bounds.append(f'{field}[{place}] >= "{keys.first[start:].hex()}"')
        if keys.end < whole.end:
            bounds.append(f'{field}[{place}] < "{keys.end[start:].hex()}"')
        yield _joined(" and ", bounds)


def _any(parts: list[str]) -> str:
    return _joined(" or ", parts) or _NONE


def _all(parts: list[str]) -> str:
    return _joined(" and ", parts) or ALL


def _joined(by: str, parts: list[str]) -> str:
    """The parts in halves of halves: "a or b or c" has a level for each part on a server."""
    if len(parts) < 2:
        return "".join(parts)
    half = len(parts) // 2
    return f"({_joined(by, parts[:half])}{by}{_joined(by, parts[half:])})"
