"""A cache of the latest queries' embeddings, so that frequent queries are encoded once."""

import sys
from collections import OrderedDict
from threading import Lock

from swiftlet.types import Embeddings

_ENTRY_BYTES = 250
"""The bytes of an entry besides its text and its numbers: the array and its place in the order."""


class QueryCache:
    """Normalised query to embedding (dim,); evicts the least recently used. Thread-safe.

    A cache belongs to one encoder: after a reload there is a new cache.
    """

    def __init__(self, max_bytes: int) -> None:
        """Make a cache that takes up about `max_bytes` at most."""
        self._free_bytes = max_bytes
        self._embeddings: OrderedDict[str, Embeddings] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._embeddings)

    def get(self, query: str) -> Embeddings | None:
        """The embedding of a query, or None if it is not in the cache."""
        with self._lock:
            embedding = self._embeddings.get(query)
            if embedding is not None:
                self._embeddings.move_to_end(query)
            return embedding

    def put(self, query: str, embedding: Embeddings) -> None:
        """Keep an embedding, which becomes read-only."""
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
