"""The passages of each word in arrays: the scores of all passages for a query in one pass.

Up to `MOST_ROWS` passages, this takes less time than tantivy takes to find the best ones and to
score given ones. Beyond, there are no such arrays.
"""

from array import array
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swiftlet.disk import save_array
from swiftlet.errors import CorruptIndexError
from swiftlet.index.vectors.vector_index import Rows
from swiftlet.publication import map_arrays
from swiftlet.types import Embeddings

K1 = 1.2
"""How much the repetition of a word adds."""

MOST_ROWS = 2**16

FILES = ("postings-words.npy", "postings-ends.npy", "postings-rows.npy", "postings-shares.npy")
"""The hashes (w,) of all words, ascending, where the postings of each end (w + 1,), beginning with
0; of each posting, the row (p,) and the share (p,) of the word's weight that its passage has."""

_TYPES = [np.dtype(each) for each in ("<u8", "<u4", "<u2", "<f4")]
_B, _HALF = 0.75, np.float32(0.5)
_EXACT_BITS, _EXACT_UP_TO = 4, 24
_BLOCKS, _KEPT_WORDS, _FEW_WORDS = 4, 2**14, 64


class Postings:
    """The passages of each word. Thread-safe."""

    def __init__(self, arrays: Sequence[NDArray[Any]], num_rows: int) -> None:
        """Take the arrays of `FILES`, of `num_rows` passages."""
        words, ends, self._rows, self._shares = arrays
        self._words, self._ends, self._num_rows = words, ends, num_rows
        # Of a method, it would keep the files mapped until garbage is collected.
        self._kept = lru_cache(_KEPT_WORDS)(partial(_postings_of, words, ends, num_rows))

    @classmethod
    def open(cls, folder: Path, num_rows: int) -> "Postings":
        """Map the files of `folder` into memory.

        :raises CorruptIndexError: When they cannot be read, or do not belong together.
        """
        arrays = map_arrays(folder, FILES)
        words, ends, rows, shares = arrays
        if not (
            [each.dtype for each in arrays] == _TYPES
            and all(each.ndim == 1 for each in arrays)
            and len(ends) == len(words) + 1
            and ends[0] == 0
            and ends[-1] == len(rows) == len(shares)
            and bool((ends[1:] >= ends[:-1]).all() and (words[1:] > words[:-1]).all())
            and rows.max(initial=0) < num_rows
            and bool(np.isfinite(shares).all())
        ):
            raise CorruptIndexError(
                f"{folder} is damaged: its postings do not belong together: restore the index from "
                "a copy"
            )
        return cls(arrays, num_rows)

    def frequency(self, word: str) -> int:
        """How many passages have a word."""
        start, end, _ = self._kept(word)
        return end - start

    def frequencies(self, words: Sequence[str]) -> list[int]:
        """How many passages have each word. Of many words, none are kept."""
        if len(words) <= _FEW_WORDS:
            return [*map(self.frequency, words)]
        wanted = np.fromiter(map(_hash, words), np.uint64, len(words))
        first, after = (self._words.searchsorted(wanted, side) for side in ("left", "right"))
        found: list[int] = (self._ends[after] - self._ends[first]).tolist()
        return found

    def scores(self, words: Sequence[str], boosts: Sequence[float]) -> Embeddings:
        """The BM25 score (n,) of each passage; the weight of a word is boosted.

        Each step is that of tantivy and rounded as there, so the bits of a score are the same.
        """
        scores = np.zeros(self._num_rows, np.float32)
        for (start, end, weight), boost in zip(map(self._kept, words), boosts, strict=True):
            boosted = weight * np.float32(boost)
            # In a third of the time of `+=`.
            np.add.at(scores, self._rows[start:end], boosted * self._shares[start:end])
        return scores


def _postings_of(
    words: NDArray[np.uint64], ends: NDArray[np.uint32], num_rows: int, word: str
) -> tuple[int, int, np.float32]:
    """Where the postings of a word begin and end, and the word's weight."""
    wanted = np.uint64(_hash(word))
    at = int(words.searchsorted(wanted))
    is_known = at < len(words) and words[at] == wanted
    start, end = int(ends[at]), int(ends[at + is_known])
    rest, one = np.float32(num_rows - end + start), np.float32(1)
    odds = one + (rest + _HALF) / (np.float32(end - start) + _HALF)
    return start, end, np.float32(np.log(np.float64(odds))) * (one + np.float32(K1))


def best_rows(scores: Embeddings, most: int) -> Rows:
    """The rows (k,) of the best `most` scores (n,) above 0, best first; ties in order."""
    # At least so many scores are as high as this: the highest ones of blocks.
    width, least = len(scores) // (_BLOCKS * most), 0.0
    if width > 1:
        blocks = scores[: _BLOCKS * most * width].reshape(width, -1)
        least = float(np.partition(blocks.max(axis=0), -most)[-most])
    rows = np.flatnonzero(scores >= least if least > 0 else scores > 0)
    best: Rows = rows[np.argsort(-scores[rows], kind="stable")[:most]]
    return best


class PostingsWriter:
    """Collects the words of passages in row order."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._words, self._counts, self._lengths = array("I"), array("I"), array("I")
        self._distinct = array("I")

    def add(self, words: Sequence[str]) -> None:
        """Take the words of the next passage, with repetitions."""
        numbers, counts = self._numbers, Counter(words)
        self._words.extend(numbers.setdefault(word, len(numbers)) for word in counts)
        self._counts.extend(counts.values())
        self._distinct.append(len(counts))
        self._lengths.append(len(words))

    def save(self, folder: Path) -> None:
        """Write the `FILES`; none if there are too many passages, or two words have one hash.

        :raises StorageError: When the file system refuses.
        """
        num_rows = len(self._lengths)
        hashes = np.fromiter(map(_hash, self._numbers), np.uint64, len(self._numbers))
        order = np.argsort(hashes)
        if not 0 < num_rows <= MOST_ROWS or (np.diff(hashes[order]) == 0).any():
            return
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        words = places[np.array(self._words, np.int64)]
        by_word = np.argsort(words, kind="stable")
        rows = np.repeat(np.arange(num_rows), self._distinct)[by_word]
        counts = np.array(self._counts, np.float32)[by_word]
        mean = np.float32(sum(self._lengths)) / np.float32(num_rows) or np.float32(1)
        stored = np.array([*map(stored_length, self._lengths)], np.float32)
        ends = np.concatenate(([0], np.cumsum(np.bincount(words, minlength=len(order)))))
        shares = counts / (counts + length_norm(stored, mean)[rows])
        arrays = hashes[order], ends, rows, shares
        for name, each, kind in zip(FILES, arrays, _TYPES, strict=True):
            save_array(folder / name, each.astype(kind))


def stored_length(length: int) -> int:
    """The length that tantivy keeps in one byte: of large ones, the first four binary digits."""
    surplus = length - _EXACT_UP_TO
    shift = max(0, surplus.bit_length() - _EXACT_BITS)
    return length if surplus <= 0 else _EXACT_UP_TO + (surplus >> shift << shift)


def length_norm(stored: Any, mean: Any) -> Any:
    """What is added to the count of a word in a passage, by its length and the mean length."""
    return type(mean)(K1) * (type(mean)(1 - _B) + type(mean)(_B) * stored / mean)


def _hash(word: str) -> int:
    return int.from_bytes(blake2b(word.encode(), digest_size=8).digest())
