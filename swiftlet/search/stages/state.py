"""A search under way, and the protocol of the stages that work on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from swiftlet.encoders.reranker import Reranker
from swiftlet.index.columns.filters import Filter
from swiftlet.index.parts import SearchParts, Selection
from swiftlet.index.vectors.vector_index import FEWEST_HYBRID_CANDIDATES, Rows, WordQuery
from swiftlet.search.modes import Fusion, Highlighting, Mode
from swiftlet.text import CheckedQuery
from swiftlet.types import Embeddings, Hit

# Most results match a query with more than one passage, and one search for more passages costs less
# than a second search.
_PASSAGES_PER_DOCUMENT = 4
_FEWEST_CANDIDATES = 40
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
class Ranking:
    """Passages and their scores, best first: `scores` (k,) and `rows` (k,) of the index.

    A stage replaces both together, so no row keeps the score of another one. No passage outside the
    ranking has a score above `highest_unseen`; it is None when there is no other passage.
    """

    scores: Embeddings
    rows: Rows
    highest_unseen: np.float32 | None = None

    def __post_init__(self) -> None:
        if len(self.scores) != len(self.rows):
            raise ValueError(f"{len(self.scores)} scores do not fit {len(self.rows)} rows")

    def at(self, places: NDArray[np.integer] | NDArray[np.bool]) -> "Ranking":
        """The passages at `places`: numbers in their new order, or a mask (k,) of those to keep."""
        return Ranking(self.scores[places], self.rows[places], self.highest_unseen)


@dataclass(frozen=True, slots=True)
class Reranking:
    """Which documents a re-ranker scores: the `top_n` best, until a time of `perf_counter`."""

    reranker: Reranker
    top_n: int
    deadline: float


@dataclass(slots=True)
class SearchState:
    """One search: the request, and the results of the stages so far.

    `num_wanted` documents are looked for; the first `offset` of them are not fetched, and none has
    a score below `min_score`. More candidates are fetched until the first `depth` documents are
    known. All pass the `filter`, so they belong to the `selection`.
    `options` has values for stages that take some, by the name of the stage.
    `dense` and `lexical` are the passages that each index found, `candidates` the passages of both
    with one score each, and `documents` the best passage of each document. After a `reranking`,
    the documents with `rerank_scores` come first.
    """

    query: CheckedQuery
    filter: Filter | None
    offset: int
    min_score: float
    include_text: bool
    highlight: Highlighting | None
    mode: Mode
    fusion: Fusion
    weight: float
    cache: EmbeddingCache | None
    options: Mapping[str, Any]
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
        if highest_unseen is None or highest_unseen < self.min_score:
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


def num_candidates_for(top_k: int, mode: Mode = "dense") -> int:
    """The number of passages that a search for `top_k` documents fetches at first."""
    fewest = FEWEST_HYBRID_CANDIDATES if mode == "hybrid" else _FEWEST_CANDIDATES
    return max(fewest, _PASSAGES_PER_DOCUMENT * top_k)
