"""Facets: the values of a field, and how many documents have each."""

from collections.abc import Iterable
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from swiftlet.retrieval.columns import Columns, Value, field_keys, value_of
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
    field: str, columns: Columns, mask: NDArray[np.bool] | None = None
) -> list[tuple[Value, int]]:
    """The most frequent values of a field, and the number of documents with each.

    Ties are in the order of the values: false, true, numbers, texts. Values without a document are
    left out, and so are texts over 256 bytes and numbers that are not finite.

    :param mask: The documents that are counted, (n,); None counts all.
    """
    found = []
    for kind in (b"b", b"n", b"s"):
        codes = columns.codes(field_keys(field, kind))
        counts = columns.counts(codes, mask)
        for at in _highest(counts):
            value = value_of(columns[codes[at]])
            if isinstance(value, str) or (value is not None and isfinite(value)):
                found.append((value, int(counts[at])))
    found.sort(key=lambda each: -each[1])
    return found[:MOST_FACET_VALUES]


def _highest(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of the highest counts, ties in their order."""
    least = 1
    if len(counts) > MOST_FACET_VALUES:
        least = max(least, int(np.partition(counts, -MOST_FACET_VALUES)[-MOST_FACET_VALUES]))
    places = np.flatnonzero(counts >= least)
    return places[np.argsort(-counts[places], kind="stable")][:MOST_FACET_VALUES]
