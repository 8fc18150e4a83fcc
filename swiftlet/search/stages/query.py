"""Before the indexes are searched: the filter, and the query's embedding."""

from functools import lru_cache

from swiftlet.index.parts import SearchParts
from swiftlet.search.stages.state import SearchState

_KEPT_SELECTIONS = 8
"""How many filters are kept ready: each takes about a byte for a passage, and up to 25 MB more."""


class Filter:
    """Selects the passages of the documents that pass the filter, and keeps the latest selections.

    docs/results/filters.md has the time of a first search and of those that follow.
    """

    name = "filter"
    repeats = False

    def __init__(self, parts: SearchParts) -> None:
        self._all = parts.selection(None)
        self._select = lru_cache(_KEPT_SELECTIONS)(parts.selection)

    def run(self, search: SearchState) -> bool:
        """Set the selection."""
        asked = search.request.filter
        search.selection = self._all if asked is None else self._select(asked)
        return asked is not None


class Tokenise:
    """Looks the query up in the cache; a query that is not there becomes token ids."""

    name = "tokenise"
    repeats = False

    def __init__(self, parts: SearchParts) -> None:
        self._encoder = parts.encoder

    def run(self, search: SearchState) -> bool:
        """Set `embedding` from the cache, or `token_ids`; a lexical search needs neither."""
        if search.mode == "lexical":
            return False
        if search.cache is not None:
            embedding = search.cache.get(search.request.query)
            if embedding is not None:
                search.embedding = embedding
                search.cached = True
                return False
        search.token_ids = self._encoder.tokenise(search.request.query)
        return True


class Encode:
    """Turns the token ids into the query's embedding, and puts it into the cache."""

    name = "encode"
    repeats = False

    def __init__(self, parts: SearchParts) -> None:
        self._encoder = parts.encoder

    def run(self, search: SearchState) -> bool:
        """Set `embedding`, unless it came from the cache or is not needed."""
        if search.token_ids is None:
            return False
        search.embedding = self._encoder.embed(search.token_ids)
        if search.cache is not None:
            search.cache.put(search.request.query, search.embedding)
        return True
