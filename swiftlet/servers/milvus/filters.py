"""Filters as expressions of Milvus, and the metadata that they compare."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from swiftlet.errors import ArtefactError
from swiftlet.index.columns.columns import KeyRange, field_keys, field_of, keys_of, one_key
from swiftlet.index.columns.filters import Condition, Filter, fold, inner_keys
from swiftlet.servers.milvus.schema import FILTER_FIELDS, KEYS, ROW

ALL = f"{ROW} >= 0"
"""All rows."""

NO_VALUES = ("", 1 - (1 << 63), 1 - (1 << 63))
"""What the columns of a facet have where a document has no such value, see `facet_columns`. No
number and no date has this key; the least integer of all cannot be written in an expression."""

NAMES = "names"
"""In the keys of a row: the names of all fields that it has values of, see `name_of`."""

_NONE = f"{ROW} < 0"
_KINDS = (b"b", b"n", b"s")
_NO_INTEGER = NO_VALUES[1]
_BYTES = 8


@dataclass(frozen=True, slots=True)
class FilterFields:
    """Which fields the server has indexed, and how many values the other fields have.

    `facets` are the fields with columns of their own, each in its place. None stands for one that
    a document has several values of: its columns are not used. `most_values` is the number of
    values that a document has at most, for fields with several: by `name_of` the field and kind.
    """

    facets: tuple[str | None, ...] = ()
    most_values: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        """The fields in the properties of a collection.

        :raises ArtefactError: When they are missing or damaged.
        """
        try:
            found = json.loads(properties[FILTER_FIELDS])
            return cls(tuple(found["facets"]), {**found["most_values"]})
        except (KeyError, TypeError, ValueError) as error:
            raise ArtefactError(
                f"the collection's property {FILTER_FIELDS} is missing or damaged: push the index "
                "again with --overwrite"
            ) from error

    def as_property(self) -> str:
        """What `of` reads."""
        return json.dumps(asdict(self))

    def with_keys(self, keys: Mapping[str, list[str]]) -> "FilterFields":
        """The fields after a document was added; `keys` are what `keys_field` gives for it."""
        more = {
            name: len(found)
            for name, found in keys.items()
            if name != NAMES and len(found) > self.most_values.get(name, 1)
        }
        several = [path is not None and _has_several(keys, path) for path in self.facets]
        if not more and not any(several):
            return self
        facets = (None if now else path for path, now in zip(self.facets, several, strict=True))
        return FilterFields(tuple(facets), {**self.most_values, **more})


def facet_values(
    keys: Mapping[str, list[str]], path: str
) -> tuple[list[str], list[int], list[int]]:
    """The values of a field as each of its `facet_columns` has them."""

    def of_kind(kind: str) -> list[str]:
        return keys.get(name_of(path, kind.encode()), [])

    texts = [f"{kind}{key}" for kind in "bs" for key in of_kind(kind)]
    numbers, dates = (
        [integer_of(bytes.fromhex(key)[:8]) for key in of_kind(kind)] for kind in "nd"
    )
    return texts, numbers, dates


def _has_several(keys: Mapping[str, list[str]], path: str) -> bool:
    """Whether columns cannot hold a field: it has several values, or an integer beyond 2⁵³."""
    texts, numbers, _ = facet_values(keys, path)
    longer = any(len(key) > 16 for key in keys.get(name_of(path, b"n"), []))
    return longer or len(texts) + len(numbers) > 1


def keys_field(metadata: Mapping[str, Any]) -> dict[str, list[str]]:
    """What filters compare of a document's metadata.

    For each field and kind of values, the sorted keys of `keys_of` in hexadecimal: they are
    ordered as the values are. `names` lists the fields.
    """
    found: dict[str, list[str]] = {}
    names = set()
    for key in keys_of(metadata):
        path = field_of(key)
        start = key.index(b"\0") + 1
        name = name_of(path, key[start : start + 1])
        values = found.setdefault(name, [])
        names.add(name_of(path, key[start : start + 1], len(values)))
        values.append(key[start + 1 :].hex())
        parts = path.split(".")
        parents = (".".join(parts[:end]) for end in range(1, len(parts)))
        names |= {name_of(path), *(name_of(f"{parent}.") for parent in parents)}
    return {**{name: sorted(keys) for name, keys in found.items()}, NAMES: sorted(names)}


def name_of(path: str, kind: bytes = b"", place: int = 0) -> str:
    """The name of a field, of its values of one kind, or of the value at a `place` among these.

    "author." stands for all fields inside of "author".
    """
    return f"{field_keys(path).first[:-1].hex()}_{kind.decode()}{place or ''}"


def facet_columns(place: int) -> tuple[str, str, str]:
    """The columns of a facet: its value if it is a text or a boolean, a number, or a date.

    A text that is a date is in two. The first has the kind and the key of the value in hexadecimal,
    the other columns have the integer that `integer_of` makes of the key, in the order of the keys.
    A document without a value has the value of `NO_VALUES`.
    """
    return f"facet_{place}", f"facet_{place}_number", f"facet_{place}_date"


def integer_of(key: bytes) -> int:
    """The key of a number or a date (8 bytes) as a signed integer of the same order."""
    return int.from_bytes(key) - (1 << 63)


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
    text, number, date = facet_columns(fields.facets.index(path))
    if keys == whole:
        return f'({text} != "" or {number} > {_NO_INTEGER})'
    first, end = (key[len(whole.first) :] for key in keys)
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
