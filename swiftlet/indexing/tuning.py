"""Search parameters that reach a target recall, measured against exact search."""

from dataclasses import replace

import numpy as np

from swiftlet.retrieval.index import Rows, SearchParameters, VectorIndex
from swiftlet.retrieval.stages.state import num_candidates_for
from swiftlet.retrieval.types import Embeddings

TARGET_RECALL = 0.995
"""The recall@10 that search parameters are tuned to; docs/results/index.md has the cost."""

TUNED_CANDIDATES = num_candidates_for(10)
"""The candidates that a search for ten documents fetches."""

_AS_GOOD = 0.001
_EXACT_BLOCK = 65_536


def exact_rows(embeddings: Embeddings, queries: Embeddings, count: int) -> Rows:
    """The rows (q, count) of `embeddings` (n, dim) nearest to each of `queries` (q, dim)."""
    scores = np.empty((len(queries), 0), dtype=np.float32)
    rows = np.empty((len(queries), 0), dtype=np.int64)
    for start in range(0, len(embeddings), _EXACT_BLOCK):
        block = queries @ embeddings[start : start + _EXACT_BLOCK].T
        scores = np.concatenate((scores, block), axis=1)
        numbers = np.arange(start, start + block.shape[1], dtype=np.int64)
        rows = np.concatenate((rows, np.broadcast_to(numbers, block.shape)), axis=1)
        kept = np.argpartition(-scores, min(count, scores.shape[1]) - 1, axis=1)[:, :count]
        scores = np.take_along_axis(scores, kept, axis=1)
        rows = np.take_along_axis(rows, kept, axis=1)
    return np.take_along_axis(rows, np.argsort(-scores, axis=1, kind="stable"), axis=1)


def recall(index: VectorIndex, queries: Embeddings, nearest: Rows, num_candidates: int) -> float:
    """The share of each query's `nearest` rows (q, k) among the first k that the index finds."""
    count = nearest.shape[1]
    shares = [
        len(np.intersect1d(index.search(query, num_candidates)[1][:count], expected)) / count
        for query, expected in zip(queries, nearest, strict=True)
    ]
    return float(np.mean(shares))


def tune(index: VectorIndex, queries: Embeddings, nearest: Rows) -> SearchParameters:
    """Give `index` the fastest parameters that find the `nearest` (q, k) of `queries` (q, dim).

    Each parameter of the tuning grid in turn gets the first value that reaches the target recall,
    while later parameters have their most thorough value. If no value reaches it, because passages
    have the same text or the codes are coarse, it gets the first one that is as good as the last.
    """
    grid = index.tuning_grid()
    thorough = {name: values[-1] for name, values in grid.items()}
    best = index.parameters_type(num_candidates=TUNED_CANDIDATES, **thorough)
    for name, values in grid.items():
        recalls: list[float] = []
        for value in values:
            index.parameters = replace(best, **{name: value})
            recalls.append(recall(index, queries, nearest, TUNED_CANDIDATES))
            if recalls[-1] >= TARGET_RECALL:
                break
        least = TARGET_RECALL if recalls[-1] >= TARGET_RECALL else recalls[-1] - _AS_GOOD
        first = next(place for place, each in enumerate(recalls) if each >= least)
        best = replace(best, **{name: values[first]})
    index.parameters = best
    return best
