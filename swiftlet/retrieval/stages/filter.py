"""A filter to the passages that pass it."""

from functools import lru_cache, partial

from swiftlet.retrieval.metadata.filters import Filter as Tree
from swiftlet.retrieval.stages.state import SearchParts, SearchState, Selection

_KEPT_SELECTIONS = 8
"""How many filters are kept ready: each takes about a byte for a passage, and up to 25 MB more."""


class Filter:
    """Selects the passages of the documents that pass the filter, and keeps the latest selections.

    docs/results/filters.md has the time of a first search and of those that follow.
    """

    name = "filter"
    repeats = False

    def __init__(self, parts: SearchParts) -> None:
        self._all = Selection(parts.index, parts.lexical, parts.store.num_documents)
        # A method would make a cycle, which keeps the files of a replaced index mapped.
        self._select = lru_cache(_KEPT_SELECTIONS)(partial(_select, parts))

    def run(self, search: SearchState) -> bool:
        """Set the selection; no more documents are wanted than it has."""
        found = None if search.filter is None else self._select(search.filter)
        search.selection = found or self._all
        search.num_wanted = min(search.num_wanted, search.selection.num_documents)
        return search.filter is not None


def _select(parts: SearchParts, tree: Tree) -> Selection | None:
    """The passages of the documents that pass the filter; None if all documents do."""
    allowed, num_documents = parts.passing(tree)
    if num_documents == parts.store.num_documents:
        return None
    return Selection(
        parts.index.restricted_to(allowed),
        parts.lexical and parts.lexical.restricted_to(allowed, tree, parts.columns),
        num_documents,
    )
