"""Passage scores to document scores."""

import numpy as np

from swiftlet.index.documents.numbers import NumbersByRow
from swiftlet.index.vectors.vector_index import Rows
from swiftlet.types import Embeddings


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
