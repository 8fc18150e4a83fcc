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
        asked = slice(search.offset, search.num_wanted)
        scores = search.documents.scores[asked].tolist()
        rows = search.documents.rows[asked].tolist()
        found = self._store.passages(rows, include_text=search.include_text)
        search.hits = [
            Hit(passage.document_id, score, title, passage, metadata)
            for score, (passage, title, metadata) in zip(scores, found, strict=True)
        ]
        return True
