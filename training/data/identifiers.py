"""Compact storage for millions of ids, and the lookup of their numbers."""

from array import array
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray


class HashIndex:
    """Finds the numbers of keys by their 64-bit hashes, in 16 bytes per key.

    Among ten million keys, the probability that two share a hash is 3 in a million.
    """

    def __init__(self, hashes: NDArray[np.int64]) -> None:
        """Index the hashes of keys 0, 1, …, computed by `hash` in this process."""
        self._order = np.argsort(hashes, kind="stable")
        self._sorted = hashes[self._order]

    def numbers(self, hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of the key with each hash (n,), -1 if there is no such key."""
        if not len(self._sorted):
            return np.full(len(hashes), -1)
        places = np.minimum(np.searchsorted(self._sorted, hashes), len(self._sorted) - 1)
        return np.where(self._sorted[places] == hashes, self._order[places], -1)


class Identifiers:
    """Ids by number and numbers by id.

    An id takes 32 bytes besides its text, a quarter of the memory of a dictionary.
    """

    def __init__(self, ids: Iterable[str]) -> None:
        """Number the distinct `ids` from 0, in their order."""
        self._text = bytearray()
        ends, hashes = array("q", [0]), array("q")
        for identifier in ids:
            self._text += identifier.encode()
            ends.append(len(self._text))
            hashes.append(hash(identifier))
        self._ends = np.frombuffer(ends, np.int64)
        self._index = HashIndex(np.frombuffer(hashes, np.int64))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, number: int) -> str:
        if not 0 <= number < len(self):
            raise IndexError(f"there is no number {number} among {len(self)} ids")
        return self._text[self._ends[number] : self._ends[number + 1]].decode()

    def numbers(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """The numbers (n,) of `ids`, -1 where an id is unknown."""
        return self._index.numbers(np.fromiter(map(hash, ids), np.int64, len(ids)))
