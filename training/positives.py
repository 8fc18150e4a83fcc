"""Which passages are relevant to which queries, so that none of them serves as a negative."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Self

import numpy as np
from numpy.typing import NDArray


class KnownPositives:
    """For each query number the passage rows that are relevant to it, as compressed sparse rows."""

    def __init__(self, rows: Iterable[Sequence[int]]) -> None:
        """Take the rows of query 0, of query 1 and so on; a query may have none."""
        lists = list(rows)
        counts = np.array([len(found) for found in lists], np.int64)
        numbers = np.arange(len(lists))
        flat = np.fromiter(chain.from_iterable(lists), np.int64, int(counts.sum()))
        self._keep(np.repeat(numbers, counts), flat, numbers)

    @classmethod
    def of_groups(
        cls, numbers: NDArray[np.int64], rows: NDArray[np.int64], groups: NDArray[np.int64]
    ) -> Self:
        """Take pairs of a group's number (p,) and a row (p,), and the group of each query, (n,).

        The rows of a group are kept once, however many queries share them.
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
        """The ascending rows of one query."""
        start = self._starts[query]
        return self._rows[start : start + self._counts[query]]

    def pairs(self, queries: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where in `queries` (n,) a query stands, and a row that it knows: (p,) each.

        Ascending, first by place, then by row.
        """
        starts, counts = self._starts[queries], self._counts[queries]
        places = np.repeat(np.arange(len(queries)), counts)
        # Counts up from each query's start.
        firsts = np.cumsum(counts) - counts
        return places, self._rows[np.arange(len(places)) + np.repeat(starts - firsts, counts)]

    def mask(self, queries: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether row j is a known positive of query i.

        :param queries: Query numbers, (n,).
        :param rows: Passage rows or -1, (m,) for all queries alike or (n, m) for each its own.
        :returns: (n, m).
        """
        places, positives = self.pairs(queries)
        if rows.ndim == 1:
            # Few of many rows are known to any query: only they are looked at for each.
            masked = np.zeros((len(queries), len(rows)), dtype=np.bool_)
            columns = np.flatnonzero(_is_among(np.unique(positives), rows))
            own = np.broadcast_to(rows[columns], (len(queries), len(columns)))
            masked[:, columns] = self.mask(queries, own)
            return masked
        # One ascending key for each pair. The last of a line is no pair's: rows beyond all known
        # ones get it, and -1 gets the one of the line before.
        width = int(positives.max(initial=-1)) + 2
        keys = np.arange(len(queries))[:, np.newaxis] * width + np.minimum(rows, width - 1)
        return _is_among(places * width + positives, keys)


def _is_among(ascending: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which `values`, of any shape, stand in `ascending`."""
    padded = np.append(ascending, np.iinfo(np.int64).max)
    found: NDArray[np.bool_] = padded[np.searchsorted(ascending, values)] == values
    return found
