"""Search parameters that find enough of the nearest passages, measured against exact search."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain

import numpy as np

from swiftlet.index.vectors.faiss_library import METRICS, faiss
from swiftlet.index.vectors.multi_vector import best_rows, best_scores
from swiftlet.index.vectors.vector_index import (
    Rows,
    SearchParameters,
    VectorIndex,
    num_candidates_for,
)
from swiftlet.manifest import METRIC
from swiftlet.processors import available_processors
from swiftlet.types import Embeddings

TARGET = 0.99
"""The share of the first ten passages found that must be near enough.

docs/results/index-scale.md has what this costs in nDCG@10 and in time.
"""

NEAR = 0.99
"""A passage is near enough if its score is at least this share of the tenth nearest passage's."""

TUNED_CANDIDATES = num_candidates_for(10)
"""The candidates that a search for ten documents fetches."""

_AS_GOOD = 0.001


def exact_rows(
    embeddings: Embeddings, queries: Embeddings, count: int, metric: str = METRIC
) -> Rows:
    """The rows (q, count) of `embeddings` nearest to each of `queries` (q, dim).

    Embeddings are (n, dim), or have several vectors each: (n, vectors · dim). Fewer rows if there
    are fewer. Runs on all cores.
    """
    faiss.omp_set_num_threads(available_processors())
    dim = queries.shape[1]
    vectors = embeddings.shape[1] // dim
    wanted = min(count, len(embeddings))
    rows: Rows = faiss.knn(
        queries,
        embeddings.reshape(-1, dim),
        wanted * vectors,
        metric=METRICS[metric],
    )[1]
    return np.stack([best_rows(each, vectors)[0][:wanted] for each in rows])


def found_rows(index: VectorIndex, queries: Embeddings, num_candidates: int) -> list[Rows]:
    """The rows that the index finds for each of `queries` (q, dim), by all cores."""

    def rows(some: Embeddings) -> list[Rows]:
        return [index.search(query, num_candidates)[1] for query in some]

    threads = available_processors()
    with ThreadPoolExecutor(threads) as pool:
        return [*chain.from_iterable(pool.map(rows, np.array_split(queries, threads)))]


def recall(found: Iterable[Rows], nearest: Rows) -> float:
    """The share of each query's `nearest` rows (q, k) among the first k that an index found."""
    count = nearest.shape[1]
    shares = [
        len(np.intersect1d(rows[:count], expected)) / count
        for rows, expected in zip(found, nearest, strict=True)
    ]
    return float(np.mean(shares))


def near_recall(
    index: VectorIndex,
    embeddings: Embeddings,
    queries: Embeddings,
    nearest: Rows,
    rows_found: Sequence[Rows] | None = None,
) -> float:
    """The share of the first ten rows found that are near enough: recall@10 within 1%.

    So a row counts if a row with the same embedding is among the nearest. Scores come from
    `embeddings` for `queries`, as in `exact_rows`. `nearest` (q, at least 10) has the nearest rows
    of each query in order; fewer if there are fewer. `rows_found` is what the index finds, if that
    is known already.
    """
    expected = nearest[:, :10]
    each, found = rows_found or found_rows(index, queries, TUNED_CANDIDATES), 0
    for query, last, rows in zip(queries, expected[:, -1], each, strict=True):
        least = float(best_scores(embeddings[[last]], query, index.metric)[0])
        scores = best_scores(embeddings[rows[: expected.shape[1]]], query, index.metric)
        near = scores >= least - (1 - NEAR) * abs(least)
        found += int(np.count_nonzero(near))
    return found / expected.size


def tune(
    index: VectorIndex, embeddings: Embeddings, queries: Embeddings, nearest: Rows
) -> SearchParameters:
    """Give `index` the fastest parameters that find rows near enough to `queries` (q, dim).

    Each parameter of the tuning grid in turn gets the first value that reaches the target, while
    later parameters have their most thorough value. If no value reaches it, because the codes are
    coarse, it gets the first one that is as good as the last. Arguments: as `near_recall`.
    """
    grid = index.tuning_grid()
    thorough = {name: values[-1] for name, values in grid.items()}
    best = index.parameters_type(num_candidates=TUNED_CANDIDATES, **thorough)
    for name, values in grid.items():
        shares: list[float] = []
        for value in values:
            index.parameters = replace(best, **{name: value})
            shares.append(near_recall(index, embeddings, queries, nearest))
            if shares[-1] >= TARGET:
                break
        least = TARGET if shares[-1] >= TARGET else shares[-1] - _AS_GOOD
        first = next(place for place, each in enumerate(shares) if each >= least)
        best = replace(best, **{name: values[first]})
    index.parameters = best
    return best
