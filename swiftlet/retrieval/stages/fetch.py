"""The best documents to hits, with their texts."""

from swiftlet.retrieval.stages.state import SearchParts, SearchState
from swiftlet.retrieval.types import Hit


class Fetch:
    """Reads the winning passages and their documents' titles and metadata from the store."""

    name = "fetch"
    repeats = False

    def __init__(self, parts: SearchParts) -> None:
        self._store = parts.store

    def run(self, search: SearchState) -> bool:
        """Set the hits."""
        found = self._store.passages(
            search.rows[: search.top_k].tolist(), include_text=search.include_text
        )
        search.hits = [
            Hit(passage.document_id, score, title, passage, metadata)
            for score, (passage, title, metadata) in zip(
                search.scores.tolist(), found, strict=False
            )
        ]
        return True
