"""Passages with their scores: their order, the fusion of two scores, the best of a document."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from swiftlet.index.documents.numbers import DocumentNumbers, NumbersByRow
from swiftlet.index.vectors.vector_index import Rows
from swiftlet.types import Embeddings


@dataclass(frozen=True, slots=True)
class Ranking:
    """Passages and their scores, best first: `scores` (k,) and `rows` (k,) of the index.

    A stage replaces both together, so no row keeps the score of another one. No passage outside the
    ranking has a score above `highest_unseen`; it is None when there is no other passage. With
    `boosted` scores (k,), these are what makes the best the first.
    """

    scores: Embeddings
    rows: Rows
    highest_unseen: np.float32 | None = None
    boosted: Embeddings | None = None

    def __post_init__(self) -> None:
        if len(self.scores) != len(self.rows):
            raise ValueError(f"{len(self.scores)} scores do not fit {len(self.rows)} rows")

    def at(self, places: NDArray[np.integer] | NDArray[np.bool]) -> "Ranking":
        """The passages at `places`: numbers in their new order, or a mask (k,) of those to keep."""
        boosted = None if self.boosted is None else self.boosted[places]
        return Ranking(self.scores[places], self.rows[places], self.highest_unseen, boosted)

    @property
    def ordering(self) -> Embeddings:
        """The scores (k,) that the passages are ordered by."""
        return self.scores if self.boosted is None else self.boosted


def best_passages(
    scores: Embeddings, rows: Rows, passage_to_document: NumbersByRow
) -> tuple[Embeddings, Rows]:
    """The best passage of each document (maxP): scores (d,) and rows (d,), best document first.

    `scores` (k,) and `rows` (k,) are passages in any order. Among equal passages of a document, the
    smallest row wins; among equal documents, the smallest id.
    """
    documents = passage_to_document[rows]
    order = np.lexsort((rows, -scores, documents))
    documents = documents[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = documents[1:] != documents[:-1]
    best = order[first]
    # Documents are in ascending order here, and a stable sort keeps it among equal scores.
    best = best[np.argsort(-scores[best], kind="stable")]
    return scores[best], rows[best]


def score_of_last(scores: Embeddings, documents: DocumentNumbers, count: int) -> np.float32:
    """The score that the `count` best documents of passages have at least, by maxP.

    `scores` (k,) and `documents` (k,) are in any order. Minus infinity if there are fewer.
    """
    order, seen = np.argsort(-scores), set[float]()
    for place, document in enumerate(documents[order].tolist()):
        seen.add(document)
        if len(seen) == count:
            last: np.float32 = scores[order[place]]
            return last
    return np.float32(-np.inf)


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
