"""The embeddings of the latest queries, so that what is asked often is encoded once."""

import sys
from collections import OrderedDict
from threading import Lock

from retrieval.types import Embeddings

_ENTRY_BYTES = 250
"""What an entry takes besides its text and its numbers: the array, and its place in the order."""


class QueryCache:
    """Normalised query to embedding (dim,); the least recently used goes first. Thread-safe.

    It belongs to one encoder: the next one gets a cache of its own.
    """

    def __init__(self, max_bytes: int) -> None:
        """Make a cache that takes up about `max_bytes` at most."""
        self._free_bytes = max_bytes
        self._embeddings: OrderedDict[str, Embeddings] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._embeddings)

    def get(self, query: str) -> Embeddings | None:
        """The embedding of a query, unless it has never been there or has gone."""
        with self._lock:
            embedding = self._embeddings.get(query)
            if embedding is not None:
                self._embeddings.move_to_end(query)
            return embedding

    def put(self, query: str, embedding: Embeddings) -> None:
        """Keep an embedding, which nobody may change any more."""
        embedding.flags.writeable = False
        with self._lock:
            if query in self._embeddings:
                return  # another thread was faster
            self._embeddings[query] = embedding
            self._free_bytes -= _size_bytes(query, embedding)
            while self._free_bytes < 0:
                self._free_bytes += _size_bytes(*self._embeddings.popitem(last=False))


def _size_bytes(query: str, embedding: Embeddings) -> int:
    return sys.getsizeof(query) + embedding.nbytes + _ENTRY_BYTES
