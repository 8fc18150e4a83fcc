"""The metadata of documents as filters of a collection compare it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from swiftlet.errors import ArtefactError
from swiftlet.index.columns.columns import field_keys, field_of, keys_of
from swiftlet.servers.milvus.schema import FILTER_FIELDS

NO_VALUES = ("", 1 - (1 << 63), 1 - (1 << 63))
"""What the columns of a facet have where a document has no such value, see `facet_columns`. No
number and no date has this key; the least integer of all cannot be written in an expression."""

NAMES = "names"
"""In the keys of a row: the names of all fields that it has values of, see `name_of`."""


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
