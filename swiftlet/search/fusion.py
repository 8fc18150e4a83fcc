"""One score from the scores of the vector index and of the lexical index."""

from typing import TypeVar

import numpy as np

from swiftlet.types import Embeddings

Scores = TypeVar("Scores", Embeddings, np.float32)

_RRF_CONSTANT = 60


def weighted_sum(dense: Scores, lexical: Scores, weight: float) -> Scores:
    """weight · dense + (1 - weight) · lexical, (n,) each or one number each.

    A convex combination (Bruch, Gai, Ingber: "An Analysis of Fusion Functions for Hybrid
    Retrieval"). Both scores have a fixed scale, so the score of a passage does not depend on
    which other passages were found: results can be continued, compared and bounded.
    """
    return weight * dense + (1 - weight) * lexical


def reciprocal_ranks(dense: Embeddings, lexical: Embeddings) -> Embeddings:
    """The sum of 1 / (60 + rank) in both rankings of the same n passages, (n,) each.

    A lexical score of 0 has no rank (Cormack, Clarke, Büttcher: "Reciprocal Rank Fusion").
    """
    found = np.where(lexical > 0, 1 / (_RRF_CONSTANT + _ranks(lexical)), 0)
    return (1 / (_RRF_CONSTANT + _ranks(dense)) + found).astype(np.float32)


def _ranks(scores: Embeddings) -> Embeddings:
    ranks = np.empty(len(scores), dtype=np.float32)
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return ranks
