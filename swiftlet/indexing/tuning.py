"""Search parameters that find enough of the nearest passages, measured against exact search."""

from dataclasses import replace

import numpy as np

from swiftlet.retrieval.engines.faiss_library import faiss
from swiftlet.retrieval.index import Rows, SearchParameters, VectorIndex
from swiftlet.retrieval.processors import available_processors
from swiftlet.retrieval.stages.state import num_candidates_for
from swiftlet.retrieval.types import Embeddings

TARGET = 0.99
"""The share of queries for which the first ten passages found must have one that is near enough.

docs/results/index-scale.md has what this costs in nDCG@10 and in time.
"""

NEAR = 0.99
"""A passage is near enough if its score is at least this share of the nearest passage's."""

TUNED_CANDIDATES = num_candidates_for(10)
"""The candidates that a search for ten documents fetches."""

_AS_GOOD = 0.001


def exact_rows(embeddings: Embeddings, queries: Embeddings, count: int) -> Rows:
    """The rows (q, count) of `embeddings` (n, dim) nearest to each of `queries` (q, dim).

    Fewer if there are fewer. Runs on all cores.
    """
    faiss.omp_set_num_threads(available_processors())
    wanted = min(count, len(embeddings))
    rows: Rows = faiss.knn(queries, embeddings, wanted, metric=faiss.METRIC_INNER_PRODUCT)[1]
    return rows


def recall(index: VectorIndex, queries: Embeddings, nearest: Rows, num_candidates: int) -> float:
    """The share of each query's `nearest` rows (q, k) among the first k that the index finds."""
    count = nearest.shape[1]
    shares = [
        len(np.intersect1d(index.search(query, num_candidates)[1][:count], expected)) / count
        for query, expected in zip(queries, nearest, strict=True)
    ]
    return float(np.mean(shares))


def near_found(
    index: VectorIndex, embeddings: Embeddings, queries: Embeddings, nearest: Rows
) -> float:
    """The share of `queries` (q, dim) for which the first ten rows found have one near enough.

    Scores are those of `embeddings` (n, dim). `nearest` (q, k) has the nearest row of each first.
    """
    found = []
    for query, expected in zip(queries, nearest[:, 0], strict=True):
        rows = index.search(query, TUNED_CANDIDATES)[1][:10]
        best = float(embeddings[expected] @ query)
        found.append(np.any(embeddings[rows] @ query >= best - (1 - NEAR) * abs(best)))
    return float(np.mean(found))


def tune(
    index: VectorIndex, embeddings: Embeddings, queries: Embeddings, nearest: Rows
) -> SearchParameters:
    """Give `index` the fastest parameters that find rows near enough for `queries` (q, dim).

    Each parameter of the tuning grid in turn gets the first value that reaches the target, while
    later parameters have their most thorough value. If no value reaches it, because the codes are
    coarse, it gets the first one that is as good as the last. `near_found` describes the arguments.
    """
    grid = index.tuning_grid()
    thorough = {name: values[-1] for name, values in grid.items()}
    best = index.parameters_type(num_candidates=TUNED_CANDIDATES, **thorough)
    for name, values in grid.items():
        shares: list[float] = []
        for value in values:
            index.parameters = replace(best, **{name: value})
            shares.append(near_found(index, embeddings, queries, nearest))
            if shares[-1] >= TARGET:
                break
        least = TARGET if shares[-1] >= TARGET else shares[-1] - _AS_GOOD
        first = next(place for place, each in enumerate(shares) if each >= least)
        best = replace(best, **{name: values[first]})
    index.parameters = best
    return best
