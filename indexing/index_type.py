"""Which FAISS index suits a corpus, and how hard a search must look to find what is there."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from retrieval.index import FaissIndex, Rows, SearchEffort
from retrieval.searcher import num_candidates_for
from retrieval.types import Embeddings

EXACT_UP_TO = 2_000
"""Passages up to which comparing a query with every embedding takes no longer than to be clever."""

SCANNED_UP_TO = 250_000
"""Passages up to which comparing it with every code takes no longer than with lists of them."""

TARGET_RECALL = 0.995
"""recall@10 that the search effort is raised to; what it costs is in docs/results/index.md."""

TUNED_CANDIDATES = num_candidates_for(10)
"""Candidates that a search for ten documents fetches."""

_TRAINING_POINTS_PER_LIST = 39  # what FAISS asks for
_MOST_LISTS = 65_536
_REFINE_FACTORS = (1, 2, 4, 8, 16)
_EXACT_BLOCK = 65_536


def default_factory(num_passages: int, dim: int) -> str:
    """The FAISS factory string for a corpus of this size.

    Exact for a small corpus; above, four-bit product codes in the fast-scan layout, in a large
    corpus in inverted lists, and the best candidates are scored again in half precision. Eight bits
    a number instead would confuse near neighbours, which no effort in a search makes good.
    """
    if num_passages <= EXACT_UP_TO:
        return "Flat"
    subquantisers = next(count for count in range(dim // 2, 0, -1) if dim % count == 0)
    codes = f"PQ{subquantisers}x4fs,Refine(SQfp16)"
    if num_passages <= SCANNED_UP_TO:
        return codes
    lists = min(int(4 * num_passages**0.5), num_passages // _TRAINING_POINTS_PER_LIST, _MOST_LISTS)
    return f"IVF{lists},{codes}"


def training_size(num_passages: int) -> int:
    """How many embeddings an index of this many passages is trained on."""
    return min(num_passages, max(65_536, int(4 * num_passages**0.5) * 64))


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


def recall(index: FaissIndex, queries: Embeddings, nearest: Rows, num_candidates: int) -> float:
    """The share of each query's `nearest` rows (q, k) among the first k that the index finds."""
    count = nearest.shape[1]
    shares = [
        len(np.intersect1d(index.search(query, num_candidates)[1][:count], expected)) / count
        for query, expected in zip(queries, nearest, strict=True)
    ]
    return float(np.mean(shares))


@dataclass(frozen=True, slots=True)
class _Tuning:
    index: FaissIndex
    queries: Embeddings
    nearest: Rows

    def reaches(self, effort: SearchEffort) -> bool:
        self.index.effort = effort
        found = recall(self.index, self.queries, self.nearest, TUNED_CANDIDATES)
        return found >= TARGET_RECALL


def tune(index: FaissIndex, queries: Embeddings, nearest: Rows) -> SearchEffort:
    """The least effort with which `index` finds the `nearest` rows (q, k) of `queries` (q, dim).

    First the fewest probes with ample refinement, then the least refinement with those probes;
    where the target recall is out of reach, all effort that the index allows.
    """
    tuning = _Tuning(index, queries, nearest)
    most = _REFINE_FACTORS[-1] if index.refines else 1
    effort = SearchEffort(index.most_probes, most, TUNED_CANDIDATES)
    for probes in _doubling(index.most_probes):
        candidate = replace(effort, probes=probes)
        if tuning.reaches(candidate):
            effort = candidate
            break
    if index.refines:
        for refine_factor in _REFINE_FACTORS:
            candidate = replace(effort, refine_factor=refine_factor)
            if tuning.reaches(candidate):
                effort = candidate
                break
    index.effort = effort
    return effort


def _doubling(most: int) -> Iterator[int]:
    """1, 1.5, 2, 3, 4, 6, 8 … up to `most`, as whole numbers."""
    value = 1
    while value < most:
        yield value
        if value > 1 and value * 3 // 2 < most:
            yield value * 3 // 2
        value *= 2
    yield most
