"""The order of documents by a field of their metadata."""

from collections.abc import Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from swiftlet.errors import SortError, UnknownFieldError, shown
from swiftlet.index.columns.columns import Columns, field_keys
from swiftlet.index.columns.filters import KINDS
from swiftlet.index.vectors.vector_index import Mask, Rows

_MOST_NAMED = 40
_NOTHING = -1

Parts = Sequence[tuple[Columns, Mask]]
"""Columns, and which of their documents (n,) can be found."""


class FieldOrder:
    """Where the document of each passage stands in the order of a field. Thread-safe.

    Numbers and dates are ordered by value, texts by their characters, false before true. Of several
    values of a document, the one that comes first counts.
    """

    def __init__(self, sort: str, parts: Parts, owners: Sequence[NDArray[np.integer]]) -> None:
        """Take a field and a direction, such as "modified:desc".

        :param owners: For each part, the documents of its passages (p,).
        :raises UnknownFieldError: When no document that can be found has a value of the field.
        :raises SortError: When its values have no common order.
        """
        path, _, direction = sort.rpartition(":")
        keys = field_keys(path, _kind(path, parts))
        self._is_descending = direction == "desc"
        self._columns = [columns for columns, _ in parts]
        self._firsts = np.cumsum([0, *map(len, self._columns)])
        found = []
        for (columns, mask), own, first in zip(parts, owners, self._firsts, strict=False):
            codes = columns.codes(keys)
            of_each = np.repeat(np.arange(codes.start, codes.stop), columns.counts(codes))
            by_document = np.full(len(mask), _NOTHING)
            step = 1 if self._is_descending else -1  # the last of a document's values stays
            by_document[columns.documents(codes)[::step]] = first + of_each[::step]
            found.append(by_document[own].astype(np.int32))
        self._codes = np.concatenate(found)

    def places(self, rows: Rows) -> NDArray[np.integer]:
        """The places (k,) of `rows` (k,) in their new order; rows that tie keep theirs.

        Those of documents without a value come last.
        """
        codes, at = np.unique(self._codes[rows], return_inverse=True)
        parts = np.searchsorted(self._firsts, codes, "right") - 1
        within = codes - self._firsts[parts]
        keys = [
            None if part < 0 else self._columns[part][code]
            for part, code in zip(parts.tolist(), within.tolist(), strict=True)
        ]
        order = sorted({key for key in keys if key is not None}, reverse=self._is_descending)
        place_of = dict(zip([*order, None], range(len(order) + 1), strict=True))
        places = np.array([place_of[key] for key in keys], np.int64)
        return np.argsort(places[at], kind="stable")


def _kind(path: str, parts: Parts) -> bytes:
    """The kind of a field's values."""
    if len(kinds := _kinds(path, parts)) == 1:
        return kinds[0]
    if kinds:
        names = " and ".join(KINDS[each] for each in kinds)
        raise SortError(
            f"sort names {shown(path)}, but its values are {names}, which have no common order: "
            "leave out all but one kind by a filter, or sort by another field"
        )
    if not any(mask.any() for _, mask in parts):  # nothing to sort
        return b""
    fields = sorted({name for columns, _ in parts for name in columns.fields()})
    names = ", ".join(
        shown(each)
        for each in islice((each for each in fields if len(_kinds(each, parts)) == 1), _MOST_NAMED)
    )
    other = f"can be sorted by the fields [{names}]" if names else "have no field to sort by"
    raise UnknownFieldError(
        path,
        f"sort names {shown(path)}, but no document that the search may find has a value in it; "
        f"these documents {other}",
        field="sort",
    )


def _kinds(path: str, parts: Parts) -> list[bytes]:
    """The kinds of a field's values; texts that are all dates are of one kind, dates."""
    counts = dict.fromkeys(KINDS, 0)
    for columns, mask in parts:
        for kind in KINDS:
            has = np.zeros(len(mask), np.bool)
            has[columns.documents(columns.codes(field_keys(path, kind)))] = True
            counts[kind] += int(np.count_nonzero(has & mask))
    dates, texts = counts.pop(b"d"), counts[b"s"]
    kinds = [kind for kind, count in counts.items() if count]
    return [b"d"] if kinds == [b"s"] and dates == texts else kinds
