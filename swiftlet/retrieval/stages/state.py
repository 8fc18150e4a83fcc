"""A search under way, and the protocol of the stages that work on it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import compress
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from swiftlet.retrieval.aggregation import DocumentNumbers, NumbersByRow
from swiftlet.retrieval.documents import DocumentStore
from swiftlet.retrieval.encoder import Encoder
from swiftlet.retrieval.errors import CorruptIndexError, FilterError
from swiftlet.retrieval.index import (
    FEWEST_HYBRID_CANDIDATES,
    Mask,
    Restrictable,
    Rows,
    SearchedRows,
    VectorIndex,
)
from swiftlet.retrieval.lexical.index import LexicalIndex, LexicalQuery
from swiftlet.retrieval.metadata.columns import Columns
from swiftlet.retrieval.metadata.filters import Filter, check_fields, passing
from swiftlet.retrieval.modes import Fusion, Highlighting, Mode
from swiftlet.retrieval.reranker import Reranker
from swiftlet.retrieval.text import CheckedQuery
from swiftlet.retrieval.types import Embeddings, Hit

if TYPE_CHECKING:
    from swiftlet.retrieval.changes.joint import JointLexical, JointQuery, JointStore

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
class Selection:
    """The passages that a search may find, and the number of their documents."""

    index: SearchedRows
    lexical: "LexicalIndex | JointLexical | None"
    num_documents: int


@dataclass(frozen=True)
class SearchParts(ABC):
    """The parts of an open index that the stages use."""

    encoder: Encoder
    index: Restrictable
    lexical: "LexicalIndex | JointLexical | None"
    columns: Columns | None
    passage_to_document: NumbersByRow
    store: "DocumentStore | JointStore"

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """Passages, with those that are deleted or replaced."""

    @abstractmethod
    def passing(self, tree: Filter) -> tuple[Mask, int]:
        """The passages of the documents that pass a filter, and the number of these documents.

        :raises FilterError: As `check_fields`, or when the index has no columns.
        """

    @abstractmethod
    def passing_documents(self, tree: Filter) -> list[tuple[Columns, Mask]]:
        """For each part with columns of its own: these, and which of its documents pass a filter.

        :raises FilterError: As `passing`.
        """

    @abstractmethod
    def document_ids(self, tree: Filter) -> list[str]:
        """The ids of the documents that pass a filter.

        :raises FilterError: As `passing`.
        """


@dataclass(frozen=True)
class BaseParts(SearchParts):
    """The parts of an index as it was built."""

    index: VectorIndex
    lexical: LexicalIndex | None
    passage_to_document: DocumentNumbers
    store: DocumentStore

    @property
    def num_rows(self) -> int:
        """As `SearchParts.num_rows`; nothing is deleted."""
        return self.index.size

    def passing(self, tree: Filter) -> tuple[Mask, int]:
        """As `SearchParts.passing`."""
        ((_, documents),) = self.passing_documents(tree)
        return documents[self.passage_to_document], int(documents.sum())

    def passing_documents(self, tree: Filter) -> list[tuple[Columns, Mask]]:
        """As `SearchParts.passing_documents`."""
        columns = self.checked_columns()
        check_fields(tree, [columns])
        return [(columns, passing(tree, columns, self.store.num_documents))]

    def document_ids(self, tree: Filter) -> list[str]:
        """As `SearchParts.document_ids`."""
        ((_, documents),) = self.passing_documents(tree)
        return [*compress(self.store.document_ids(), documents)]

    def check(self) -> None:
        """Refuse parts that do not belong together.

        :raises CorruptIndexError: When they do not hold the same passages, or their embeddings and
            those of the encoder differ in dimensions.
        """
        store, index, lexical = self.store, self.index, self.lexical
        words = store.num_passages if lexical is None else lexical.size
        counts = index.size, len(self.passage_to_document), store.num_passages, words
        if len(set(counts)) != 1 or index.dim != self.encoder.dim:
            raise CorruptIndexError(
                "the parts of the index do not belong together: "
                f"{counts[0]} embeddings of {index.dim} dimensions, {counts[1]} passages in the "
                f"map, {counts[2]} in the store and {counts[3]} in the lexical index, for an "
                f"encoder of {self.encoder.dim} dimensions"
            )

    def checked_columns(self) -> Columns:
        """The columns of the index.

        :raises InvalidArgumentError: When it has none.
        """
        if self.columns is None:
            raise FilterError("the index was built by a Swiftlet without filters: build it again")
        return self.columns


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
    `dense` and `lexical` are the passages that each index found, `candidates` those of both with
    one score each, and `documents` the best passage of each document. After a `reranking`, the
    first documents are those of `rerank_scores`.
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
    lexical_query: "LexicalQuery | JointQuery | None" = None
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
