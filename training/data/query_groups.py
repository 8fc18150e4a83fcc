"""Groups queries with the same words: they are the same query even if their ids differ."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def query_groups(queries: Sequence[str]) -> NDArray[np.int64]:
    """The number of the first query with the same words, for each query, (n,).

    Case and white space are ignored. As in `HashIndex`, texts with equal 64-bit hashes are taken
    as equal.
    """
    hashes = np.fromiter(
        (hash(normalised_query(query)) for query in queries), np.int64, len(queries)
    )
    _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
    numbers: NDArray[np.int64] = first[group.reshape(-1)]
    return numbers


def normalised_query(query: str) -> str:
    """The query in lower case and with single spaces."""
    return " ".join(query.casefold().split())


def digest(text: str) -> bytes:
    """A key of a text, by which texts are chosen at random in the same way each time."""
    return hashlib.blake2b(text.encode(), digest_size=8).digest()
