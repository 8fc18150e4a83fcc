"""The values of a field: how many documents have each (facets), and the groups that they make."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from swiftlet.errors import GroupingError, InvalidArgumentError, shown
from swiftlet.index.columns.columns import Columns, Value, field_keys, one_key, value_of
from swiftlet.index.columns.filters import Condition
from swiftlet.index.vectors.vector_index import Mask

MOST_FACET_VALUES = 50
"""The values of a facet that are counted, the most frequent ones."""

_OF_FILES = ("path", "kind", "size")
_FACETS_OF_FILES = ("kind", "folder", "author", "language")
_KINDS = (b"b", b"n", b"s")  # the text of a date has a second key, of another kind


def check_facets(fields: Iterable[str], columns: Columns) -> None:
    """Refuse fields that no document has a value for.

    :raises InvalidArgumentError: When there is one; names it, and the fields that exist.
    """
    for field in fields:
        if not columns.codes(field_keys(field)):
            names = list(columns.fields())
            raise InvalidArgumentError(
                f"the facet is {shown(field)}, but "
                + (
                    f"the documents have the fields {shown(names)}"
                    if names
                    else "no document has metadata"
                )
            )


def file_facets(columns: Columns) -> list[str]:
    """The facets of an index of files, by the fields that its documents have; others have none."""

    def has(field: str) -> bool:
        return bool(columns.codes(field_keys(field)))

    return [*filter(has, _FACETS_OF_FILES)] if all(map(has, _OF_FILES)) else []


def facet_values(field: str, parts: Sequence[tuple[Columns, Mask]]) -> list[tuple[Value, int]]:
    """The most frequent values of a field, and the number of documents with each.

    Ties are in the order of the values: false, true, numbers, texts. Values without a document are
    left out, and so are texts and integers over 256 bytes and numbers that are not finite.

    :param parts: Columns, and which of their documents (n,) are counted.
    """
    (columns, mask), *others = parts
    found: list[tuple[int, bytes, int]] = []
    for rank, kind in enumerate(_KINDS):
        codes = columns.codes(field_keys(field, kind))
        counts, others_counts = columns.counts(codes, mask), Counter[bytes]()
        for other, other_mask in others:
            other_codes = other.codes(field_keys(field, kind))
            for code, count in zip(other_codes, other.counts(other_codes, other_mask), strict=True):
                key = other[code]
                if at := columns.codes(one_key(key)):
                    counts[at.start - codes.start] += count
                else:
                    others_counts[key] += int(count)
        found += [(rank, columns[codes[at]], int(counts[at])) for at in _highest(counts)]
        found += [(rank, key, count) for key, count in others_counts.items() if count]
    found.sort(key=lambda each: (-each[2], *each[:2]))
    return shown_values((key, count) for _, key, count in found)


def shown_values(counts: Iterable[tuple[bytes, int]]) -> list[tuple[Value, int]]:
    """The first values of a facet that are shown, by the keys and counts of all."""
    values = ((value_of(key), count) for key, count in counts)
    can_be_shown = (
        (value, count)
        for value, count in values
        if value is not None and not (isinstance(value, float) and not isfinite(value))
    )
    return [*islice(can_be_shown, MOST_FACET_VALUES)]


def _highest(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of the highest counts, ties in their order."""
    least = 1
    if len(counts) > MOST_FACET_VALUES:
        least = max(least, int(np.partition(counts, -MOST_FACET_VALUES)[-MOST_FACET_VALUES]))
    places = np.flatnonzero(counts >= least)
    return places[np.argsort(-counts[places], kind="stable")][:MOST_FACET_VALUES]


def check_single_values(path: str, parts: Iterable[tuple[Columns, Mask]]) -> None:
    """Refuse a field without a value in any document, or with several in one document.

    :param parts: Columns, and which of their documents (n,) can be found.
    :raises GroupingError: When it is one.
    """
    exists = several = False
    for columns, mask in parts:
        found = [columns.documents(columns.codes(keys)) for keys in values_of(path).keys]
        counts = np.bincount(np.concatenate(found), minlength=len(mask))
        exists |= bool(counts.any())
        several |= bool((counts[mask] > 1).any())
    check_values(path, exists=exists, several=several)


def check_values(path: str, *, exists: bool, several: bool) -> None:
    """Refuse a field unless values of it exist, and no document has several.

    :raises GroupingError: When it cannot be grouped by.
    """
    if several:
        raise GroupingError(
            f"group_by is {shown(path)}, but a document has several values of it; a field with one "
            "value is expected"
        )
    if not exists:
        raise GroupingError(f"group_by is {shown(path)}, but no document has a value of it")


def values_of(path: str) -> Condition:
    """The documents with a value of a field, each value by one key."""
    return Condition(path, tuple(field_keys(path, kind) for kind in _KINDS))
