"""Queries of the same words, which ask for the same whatever their ids."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def same_words(queries: Sequence[str]) -> NDArray[np.int64]:
    """For each query the number of the first one of the same words, (n,).

    Case and white space make no difference. As in `HashIndex`, words count as the same when their
    64-bit hashes are.
    """
    hashes = np.fromiter((hash(words_of(query)) for query in queries), np.int64, len(queries))
    _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
    numbers: NDArray[np.int64] = first[group.reshape(-1)]
    return numbers


def words_of(query: str) -> str:
    """What queries of the same words have in common."""
    return " ".join(query.casefold().split())
