"""An embedding to the best documents."""

import numpy as np

from swiftlet.retrieval.aggregation import best_passages
from swiftlet.retrieval.stages.state import Ranking, SearchParts, SearchState

_UNKNOWN_SCORE = np.float32(np.inf)


class SearchIndex:
    """Finds the nearest passages in the vector index."""

    name = "search"
    repeats = True

    def __init__(self, parts: SearchParts) -> None:
        self._index = parts.index

    def run(self, search: SearchState) -> bool:
        """Set the candidates and the highest score that an unseen passage may have."""
        scores, rows = self._index.search(search.embedding, search.num_candidates)
        search.candidates = Ranking(scores, rows)
        if search.num_candidates >= self._index.size:
            search.highest_unseen_score = None
        else:
            search.highest_unseen_score = scores[-1] if len(scores) else _UNKNOWN_SCORE
        return True


class Aggregate:
    """Reduces passages to documents: a document's score is that of its best passage (maxP)."""

    name = "aggregate"
    repeats = True

    def __init__(self, parts: SearchParts) -> None:
        self._passage_to_document = parts.passage_to_document

    def run(self, search: SearchState) -> bool:
        """Set the best passage of each document."""
        found = search.candidates
        search.documents = Ranking(
            *best_passages(found.scores, found.rows, self._passage_to_document)
        )
        return True
