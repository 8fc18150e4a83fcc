"""Facets: the values of a field, and how many documents have each."""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from swiftlet.retrieval.columns import Columns, Value, field_keys, one_key, value_of
from swiftlet.retrieval.errors import InvalidArgumentError, shown

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
                + (f"the documents have the fields {shown(names)}" if names else "none has a field")
            )


def facet_values(
    field: str, parts: Sequence[tuple[Columns, NDArray[np.bool] | None]]
) -> list[tuple[Value, int]]:
    """The most frequent values of a field, and the number of documents with each.

    Ties are in the order of the values: false, true, numbers, texts. Values without a document are
    left out, and so are texts over 256 bytes and numbers that are not finite.

    :param parts: The columns of each part of the index, the largest first, and which of its
        documents are counted, (n,); None counts all.
    """
    (columns, mask), *others = parts
    found = []
    for kind in (b"b", b"n", b"s"):
        codes = columns.codes(field_keys(field, kind))
        counts = columns.counts(codes, mask)
        new: Counter[bytes] = Counter()
        for other, other_mask in others:
            other_codes = other.codes(field_keys(field, kind))
            for code, count in zip(other_codes, other.counts(other_codes, other_mask), strict=True):
                if own := columns.codes(one_key(other[code])):
                    counts[own.start - codes.start] += count
                elif count:
                    new[other[code]] += int(count)
        new.update({columns[codes[at]]: int(counts[at]) for at in _highest(counts)})
        for key in sorted(new):
            value = value_of(key)
            if isinstance(value, str) or (value is not None and isfinite(value)):
                found.append((value, new[key]))
    found.sort(key=lambda each: -each[1])
    return found[:MOST_FACET_VALUES]


def _highest(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of the highest counts, ties in their order."""
    least = 1
    if len(counts) > MOST_FACET_VALUES:
        least = max(least, int(np.partition(counts, -MOST_FACET_VALUES)[-MOST_FACET_VALUES]))
    places = np.flatnonzero(counts >= least)
    return places[np.argsort(-counts[places], kind="stable")][:MOST_FACET_VALUES]
