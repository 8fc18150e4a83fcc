"""The relevant passages of each query, which must not become its negatives."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Self

import numpy as np
from numpy.typing import NDArray


class KnownPositives:
    """The relevant passage rows of each query number, as a compressed sparse matrix."""

    def __init__(self, rows: Iterable[Sequence[int]]) -> None:
        """Take the rows of queries 0, 1, …. A query may have none."""
        lists = list(rows)
        counts = np.array([len(found) for found in lists], np.int64)
        numbers = np.arange(len(lists))
        flat = np.fromiter(chain.from_iterable(lists), np.int64, int(counts.sum()))
        self._keep(np.repeat(numbers, counts), flat, numbers)

    @classmethod
    def of_groups(
        cls, numbers: NDArray[np.int64], rows: NDArray[np.int64], groups: NDArray[np.int64]
    ) -> Self:
        """Take pairs of a group number (p,) and a row (p,), and the group of each query, (n,).

        The queries of a group share one copy of its rows.
        """
        known = cls(())
        known._keep(numbers, rows, groups)
        return known

    def _keep(
        self, numbers: NDArray[np.int64], rows: NDArray[np.int64], groups: NDArray[np.int64]
    ) -> None:
        width = int(rows.max(initial=0)) + 1
        # Several times faster than np.unique.
        keys = np.sort(numbers * width + rows)
        ascending, self._rows = np.divmod(keys[np.diff(keys, prepend=-1) > 0], width)
        self._starts = np.searchsorted(ascending, groups)
        self._counts = np.searchsorted(ascending, groups, side="right") - self._starts

    def __len__(self) -> int:
        return len(self._starts)

    def of(self, query: int) -> NDArray[np.int64]:
        """The relevant rows of one query, ascending."""
        start = self._starts[query]
        return self._rows[start : start + self._counts[query]]

    def pairs(self, queries: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """All pairs of a position in `queries` (n,) and a relevant row of that query: (p,) each.

        Sorted by position, then by row.
        """
        starts, counts = self._starts[queries], self._counts[queries]
        places = np.repeat(np.arange(len(queries)), counts)
        # The positions within each query's rows: 0, 1, ….
        firsts = np.cumsum(counts) - counts
        return places, self._rows[np.arange(len(places)) + np.repeat(starts - firsts, counts)]

    def mask(self, queries: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether row j is relevant to query i.

        :param queries: Query numbers, (n,).
        :param rows: Passage rows or -1: (m,) for all queries, or (n, m) with a line per query.
        :returns: (n, m).
        """
        places, positives = self.pairs(queries)
        if rows.ndim == 1:
            # Only the few rows that are relevant to any query are compared with each query.
            masked = np.zeros((len(queries), len(rows)), dtype=np.bool_)
            columns = np.flatnonzero(_is_among(np.unique(positives), rows))
            own = np.broadcast_to(rows[columns], (len(queries), len(columns)))
            masked[:, columns] = self.mask(queries, own)
            return masked
        # Each pair has a key, and keys ascend. The last key of a line belongs to no pair. It is the
        # key of rows above all known rows, and of the row -1 in the next line.
        width = int(positives.max(initial=-1)) + 2
        keys = np.arange(len(queries))[:, np.newaxis] * width + np.minimum(rows, width - 1)
        return _is_among(places * width + positives, keys)


def _is_among(ascending: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each of `values`, of any shape, is in `ascending`."""
    padded = np.append(ascending, np.iinfo(np.int64).max)
    found: NDArray[np.bool_] = padded[np.searchsorted(ascending, values)] == values
    return found
