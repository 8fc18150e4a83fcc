"""The best documents in the order of a re-ranker."""

from math import inf
from time import perf_counter

import numpy as np

from swiftlet.encoders.reranker import order_by, score_of
from swiftlet.index.documents.passages import encoder_text
from swiftlet.index.parts import SearchParts
from swiftlet.search.stages.state import SearchState

# Time kept for the answer: at least these seconds, and at least this share of the time left.
_SECONDS_FOR_THE_ANSWER, _SHARE_FOR_THE_ANSWER = 0.002, 0.1


class Rerank:
    """Scores the winning passages of the best documents, as many as the time allows."""

    name = "rerank"
    repeats = False

    def __init__(self, parts: SearchParts) -> None:
        self._store = parts.store

    def run(self, search: SearchState) -> bool:
        """Order the scored documents by both scores; documents without a score follow."""
        asked = search.reranking
        if asked is None:
            return False
        rows = search.documents.rows[: asked.top_n].tolist()
        began, longest = perf_counter(), asked.reranker.seconds
        left = asked.deadline - began
        end = asked.deadline
        if left < inf:
            end -= max(_SECONDS_FOR_THE_ANSWER, _SHARE_FOR_THE_ANSWER * left)
        logits = []
        for passage, title, _ in self._store.passages(rows, include_text=True):
            if began + longest > end:
                break
            text = encoder_text(title, passage.text)
            logits.append(asked.reranker.logit(search.query, text))
            began, longest = (now := perf_counter()), max(longest, now - began)
        both = order_by(search.documents.scores, logits, asked.reranker.weight)
        best_first = np.argsort(-both, kind="stable")
        search.rerank_scores = [score_of(logits[place]) for place in best_first]
        others = np.arange(len(logits), len(search.documents.rows))
        search.documents = search.documents.at(np.concatenate((best_first, others)))
        return True
