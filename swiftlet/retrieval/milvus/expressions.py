"""Filters as expressions of Milvus."""

from collections.abc import Iterator

from swiftlet.retrieval.metadata.columns import KeyRange, field_keys, one_key
from swiftlet.retrieval.metadata.filters import Condition, Filter, fold, inner_keys
from swiftlet.retrieval.milvus.schema import KEYS, NAMES, ROW, name_of

ALL = f"{ROW} >= 0"
"""All rows."""

_NONE = f"{ROW} < 0"


def expression_of(tree: Filter, most_values: int) -> str:
    """The rows of the documents that pass a filter.

    :param most_values: The number of values that a field of a document has at most.
    """
    return fold(
        tree,
        lambda condition: _any(list(_ranges(condition, most_values))),
        lambda parts: _joined(" and ", parts) or ALL,
        _any,
        lambda part: f"not ({part})",
    )


def has_name(name: str) -> str:
    """The rows of the documents that have values of a field."""
    return f'json_contains({KEYS}["{NAMES}"], "{name}")'


def _ranges(condition: Condition, most_values: int) -> Iterator[str]:
    path = condition.path
    for keys in condition.keys:
        if keys == inner_keys(path):
            yield has_name(name_of(f"{path}."))
            continue
        length = field_keys(path).first.index(b"\0") + 1
        kind = keys.first[length : length + 1]
        if keys == field_keys(path, kind):
            yield has_name(name_of(path, kind))
        elif keys.first < keys.end:
            yield from _values(path, kind, keys, most_values)


def _values(path: str, kind: bytes, keys: KeyRange, most_values: int) -> Iterator[str]:
    """The rows with one of the keys, by its place among the values of the field.

    A comparison with a value that is not there is neither true nor false, and so is its opposite.
    So the name comes first, which says that it is there.
    """
    start = len(field_keys(path).first) + 1
    name = name_of(path, kind)
    field = f'{KEYS}["{name}"]'
    if keys == one_key(keys.first):
        yield f'({has_name(name)} and json_contains({field}, "{keys.first[start:].hex()}"))'
        return
    whole = field_keys(path, kind)
    for place in range(most_values):
        bounds = [has_name(name_of(path, kind, place))]
        if keys.first > whole.first:
            bounds.append(f'{field}[{place}] >= "{keys.first[start:].hex()}"')
        if keys.end < whole.end:
            bounds.append(f'{field}[{place}] < "{keys.end[start:].hex()}"')
        yield _joined(" and ", bounds)


def _any(parts: list[str]) -> str:
    return _joined(" or ", parts) or _NONE


def _joined(by: str, parts: list[str]) -> str:
    return f"({by.join(parts)})" if len(parts) > 1 else "".join(parts)
