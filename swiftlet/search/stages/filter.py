"""A filter to the passages that pass it."""

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
