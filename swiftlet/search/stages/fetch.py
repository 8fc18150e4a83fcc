"""The best documents to hits, with their texts."""

from swiftlet.index.parts import SearchParts
from swiftlet.search.stages.state import SearchState
from swiftlet.types import Hit


class Fetch:
    """Reads the winning passages and their documents' titles and metadata from the store."""

    name = "fetch"
    repeats = False

    def __init__(self, parts: SearchParts) -> None:
        self._store = parts.store

    def run(self, search: SearchState) -> bool:
        """Set the hits."""
        asked = slice(search.request.offset, search.num_wanted)
        scores = search.documents.scores[asked].tolist()
        rows = search.documents.rows[asked].tolist()
        found = self._store.passages(rows, include_text=search.request.include_text)
        new = search.rerank_scores[asked]
        search.hits = [
            Hit(passage.document_id, score, title, passage, metadata, rerank_score=rerank_score)
            for score, rerank_score, (passage, title, metadata) in zip(
                scores, [*new, *[None] * (len(rows) - len(new))], found, strict=True
            )
        ]
        return True
