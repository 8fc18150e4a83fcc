"""What a collection knows of the fields that filters compare."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Self

from swiftlet.errors import ArtefactError
from swiftlet.servers.milvus.schema import FILTER_FIELDS, NAMES, integer_of, name_of


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
    numbers, dates = ([integer_of(bytes.fromhex(key)) for key in of_kind(kind)] for kind in "nd")
    return texts, numbers, dates


def _has_several(keys: Mapping[str, list[str]], path: str) -> bool:
    texts, numbers, _ = facet_values(keys, path)
    return len(texts) + len(numbers) > 1
