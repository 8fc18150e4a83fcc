"""A search under way, and the protocol of the stages that work on it."""

from dataclasses import dataclass, field
from typing import Protocol

from swiftlet.encoders.reranker import Reranker
from swiftlet.index.parts import SearchParts, Selection
from swiftlet.index.vectors.vector_index import (
    FEWEST_HYBRID_CANDIDATES,
    WordQuery,
    num_candidates_for,
)
from swiftlet.search.ranking import Ranking
from swiftlet.search.request import Mode, SearchRequest
from swiftlet.types import Embeddings, Hit

_FEWEST_FOR_PAGES = 128


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
    `reranking`, the first documents are the documents of `rerank_scores`.
    """

    request: SearchRequest
    mode: Mode
    weight: float
    cache: EmbeddingCache | None
    num_candidates: int
    num_wanted: int
    depth: int
    reranking: Reranking | None = None
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

    @property
    def is_complete(self) -> bool:
        """Whether more candidates would not change the result.

        A document outside the candidates may tie with the last document of the result, and may have
        the smaller id. So the last score must be above all unseen ones.
        """
        highest_unseen = self.candidates.highest_unseen
        if highest_unseen is None or highest_unseen < self.request.least_score:
            return True
        depth = min(self.depth, self.selection.num_documents)
        scores = self.documents.scores
        return len(scores) >= depth and bool(scores[depth - 1] > highest_unseen)


class Stage(Protocol):
    """One step of every search. A stage holds its parts and no state of a search: thread-safe."""

    name: str
    """The name in `STAGE_NAMES`, headers, metrics, traces and pages."""

    repeats: bool
    """Whether the stage runs again when a search needs more candidates."""

    def __init__(self, parts: SearchParts) -> None: ...

    def run(self, search: SearchState) -> bool:
        """Do the stage's part of `search`; false when there was nothing to do."""
        ...


def depth_of(offset: int, top_k: int) -> int:
    """How many documents the ranking of a page has, so that pages are parts of one ranking.

    An approximate index finds other passages when it is asked for more. The first page has only its
    own documents, and later ones are parts of the first 128, 256, 512 and so on.
    """
    depth = offset + top_k
    return max(_FEWEST_FOR_PAGES, 1 << (depth - 1).bit_length()) if offset else depth


def candidates_of(depth: int, mode: Mode) -> int:
    """The passages that a search for `depth` documents asks each index for at first."""
    fewest = FEWEST_HYBRID_CANDIDATES if mode == "hybrid" else 0
    return max(fewest, num_candidates_for(depth))
