"""Facets: the values of a field, and how many documents have each."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from swiftlet.errors import InvalidArgumentError, shown
from swiftlet.index.columns.columns import Columns, Value, field_keys, one_key, value_of
from swiftlet.index.vectors.vector_index import Mask

MOST_FACET_VALUES = 50
"""The values of a facet that are counted, the most frequent ones."""


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


def facet_values(field: str, parts: Sequence[tuple[Columns, Mask]]) -> list[tuple[Value, int]]:
    """The most frequent values of a field, and the number of documents with each.

    Ties are in the order of the values: false, true, numbers, texts. Values without a document are
    left out, and so are texts over 256 bytes and numbers that are not finite.

    :param parts: Columns, and which of their documents (n,) are counted.
    """
    (columns, mask), *others = parts
    found: list[tuple[int, bytes, int]] = []
    for rank, kind in enumerate((b"b", b"n", b"s")):
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
        if isinstance(value, str) or (value is not None and isfinite(value))
    )
    return [*islice(can_be_shown, MOST_FACET_VALUES)]


def _highest(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of the highest counts, ties in their order."""
    least = 1
    if len(counts) > MOST_FACET_VALUES:
        least = max(least, int(np.partition(counts, -MOST_FACET_VALUES)[-MOST_FACET_VALUES]))
    places = np.flatnonzero(counts >= least)
    return places[np.argsort(-counts[places], kind="stable")][:MOST_FACET_VALUES]
