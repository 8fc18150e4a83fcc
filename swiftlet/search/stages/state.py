"""A search under way, the stages that work on it, and the index at the moment that they see."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from time import perf_counter
from typing import Protocol

import numpy as np

from swiftlet.encoders.reranker import Reranker
from swiftlet.index.columns.boosts import Boosts, Gains
from swiftlet.index.parts.search_parts import SearchParts, Selection
from swiftlet.index.vectors.dense_scale import DenseScale
from swiftlet.index.vectors.vector_index import (
    FEWEST_HYBRID_CANDIDATES,
    Synonyms,
    WordQuery,
    num_candidates_for,
)
from swiftlet.search.ranking import Ranking
from swiftlet.search.request import Mode, SearchRequest
from swiftlet.types import Context, Embeddings, Hit, SearchResult

_FEWEST_FOR_PAGES = 128
_TOKENS_OF_DOCUMENT = 64  # in a context

MOST_SORTED = 1_000
"""The documents that a search sorts at most, the best ones."""

_SORTED_SHARES: dict[Mode, float] = {"hybrid": 0.75, "dense": 0.75, "lexical": 0.5}
"""Documents with this share of the best one's score answer, too, and are sorted."""

_WIDENING = 4
"""The factor by which the candidates grow while a search is not complete."""

_KEPT_GAINS = 4
"""How many boosts are kept ready: each takes four bytes for a passage."""

_KEPT_ORDERS = 4
"""How many orders by a field are kept ready: each takes four bytes for a passage."""

_KEPT_SELECTIONS = 8
"""How many filters are kept ready: each takes about a byte for a passage, and up to 25 MB more."""


class EmbeddingCache(Protocol):
    """Keeps the embeddings of normalised queries, all from one encoder."""

    def get(self, query: str) -> Embeddings | None:
        """The embedding (dim,) of a normalised query, or None if it is not kept."""
        ...

    def put(self, query: str, embedding: Embeddings) -> None:
        """Keep the embedding (dim,) of a normalised query."""
        ...


@dataclass(frozen=True, slots=True)
class Reranking:
    """Which documents a re-ranker scores: the `top_n` best, until a time of `perf_counter`."""

    reranker: Reranker
    top_n: int
    deadline: float


@dataclass(slots=True)
class SearchState:
    """One search: the request, and the results of the stages so far.

    `mode` and `weight` come from the request, or else from the index. `num_wanted` documents
    are looked for; the first ones, up to the request's offset, are not fetched. More candidates are
    fetched until the first `depth` documents are known. All pass the filter, so they belong to the
    `selection`. `dense` and `lexical` are the passages that each index found, `candidates` the
    passages of both with one score each, and `documents` the best passage of each document. After a
    `reranking`, the first documents are the documents of `rerank_scores`. Dense scores that are no
    cosines have a `scale`. Passages have `gains` by the `boosts`, with which their
    documents are ordered.
    """

    generation: "Generation"
    request: SearchRequest
    mode: Mode
    weight: float
    cache: EmbeddingCache | None
    num_candidates: int
    num_wanted: int
    depth: int
    reranking: Reranking | None = None
    scale: DenseScale | None = None
    boosts: Boosts = ()
    synonyms: Synonyms = field(default_factory=dict)
    gains: Gains | None = None
    selection: Selection = field(init=False)
    cached: bool = False
    token_ids: list[int] | None = None
    embedding: Embeddings = field(init=False)
    lexical_query: WordQuery | None = None
    dense: Ranking = field(init=False)
    lexical: Ranking = field(init=False)
    candidates: Ranking = field(init=False)
    documents: Ranking = field(init=False)
    rerank_scores: list[float] = field(default_factory=list)
    hits: list[Hit] = field(init=False)
    context: Context | None = None

    @property
    def most_gain(self) -> np.float32:
        """The most that a passage gains by boosts."""
        return np.float32(0) if self.gains is None else self.gains.most

    @property
    def least_score(self) -> float:
        """The score that documents have at least; sorted ones have it in relation to the best."""
        asked = self.request
        if asked.sort is None or asked.min_score is not None:
            return asked.least_score
        if not len(scores := self.candidates.scores):
            return -inf
        best, zero = float(scores.max()), 0.0
        if self.mode == "dense" and self.scale is not None:
            zero = self.scale.zero(self.embedding)
        return best - (1 - _SORTED_SHARES[self.mode]) * abs(best - zero)

    @property
    def is_complete(self) -> bool:
        """Whether more candidates would not change the result.

        A document outside the candidates may tie with the last document of the result, and may have
        the smaller id. So the last score must be above all unseen ones.
        """
        highest_unseen = self.candidates.highest_unseen
        if highest_unseen is None or highest_unseen < self.least_score:
            return True
        depth = min(self.depth, self.selection.num_documents)
        scores = self.documents.ordering
        return len(scores) >= depth and bool(scores[depth - 1] > highest_unseen + self.most_gain)


class Stage(Protocol):
    """One step of every search. A stage has no state, so all searches share it."""

    name: str
    """The name in `STAGE_NAMES`, headers, metrics, traces and pages."""

    repeats: bool
    """Whether the stage runs again when a search needs more candidates."""

    def run(self, search: SearchState) -> bool:
        """Do the stage's part of `search`; false when there was nothing to do."""
        ...


class Generation:
    """What all stages of a search see: the index at one moment. Thread-safe."""

    def __init__(self, name: str, parts: SearchParts, stages: Sequence[Stage]) -> None:
        self.name, self.parts, self._stages = name, parts, stages
        self.everything = parts.selection(None)
        self.select = lru_cache(_KEPT_SELECTIONS)(parts.selection)
        """The passages of the documents that pass a filter; the latest selections are kept."""
        self.gains = lru_cache(_KEPT_GAINS)(parts.gains)
        """What passages gain by boosts; the latest ones are kept."""
        self.order = lru_cache(_KEPT_ORDERS)(parts.order)
        """The order of documents by a field; the latest ones are kept."""
        repeating = [number for number, stage in enumerate(stages) if stage.repeats]
        self._repeat_start, self._repeat_end = repeating[0], repeating[-1] + 1

    def search(self, search: SearchState) -> SearchResult:
        """Run the stages, those that repeat until the search is complete."""
        seconds = [0.0] * len(self._stages)
        last = perf_counter()
        position = 0
        while position < len(self._stages):
            had_work = self._stages[position].run(search)
            now = perf_counter()
            if had_work:
                seconds[position] += now - last
            last = now
            position += 1
            if position == self._repeat_end:
                if search.is_complete:
                    # Filters and lexical searches leave fewer documents.
                    search.num_wanted = min(search.num_wanted, len(search.documents.rows))
                else:
                    search.num_candidates *= _WIDENING
                    position = self._repeat_start
        num_reranked = len(search.rerank_scores)
        return SearchResult(
            search.hits, tuple(seconds), search.cached, self.name, num_reranked, search.context
        )


def depth_and_candidates(request: SearchRequest, mode: Mode) -> tuple[int, int]:
    """How many documents the ranking has, and how many passages each index is asked for at first.

    Pages are parts of one ranking. An approximate index finds other passages when it is asked for
    more: the first page has only its own documents, and later ones are parts of the first 128, 256,
    512 and so on. All pages of a sorted result are parts of the same documents.
    """
    fewest = FEWEST_HYBRID_CANDIDATES if mode == "hybrid" else 0
    if request.sort is not None:  # as many as answer, which is found out
        return MOST_SORTED, max(fewest, num_candidates_for(_FEWEST_FOR_PAGES))
    documents = request.top_k
    if request.format == "context":  # of more documents, hardly any passage has room
        documents = min(documents, -(-request.max_tokens // _TOKENS_OF_DOCUMENT))
    depth = request.offset + documents
    if request.offset:
        depth = max(_FEWEST_FOR_PAGES, 1 << (depth - 1).bit_length())
    depth = max(depth, request.rerank or 0)
    return depth, max(fewest, num_candidates_for(depth))
