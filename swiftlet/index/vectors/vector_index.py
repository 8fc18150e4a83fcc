"""The interface of vector indexes: everything that Swiftlet needs of an index engine."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from swiftlet.manifest import L2, METRIC
from swiftlet.types import Embeddings, Span

Rows = NDArray[np.int64]
"""Row numbers (k,) of an index, in the order in which embeddings were added."""

Mask = NDArray[np.bool]
"""Whether each row of an index, or each document, belongs to a selection, (n,)."""

FEW_ROWS = 2_048
"""Up to this many rows, a query is compared with each: no search of an index is faster."""

FEWEST_HYBRID_CANDIDATES = 100
"""With fewer from each index, a tenth and more of the hybrid searches need a second round."""

_BLOCK_ROWS = 4_096

# Most results match a query with more than one passage, and one search for more passages costs less
# than a second search.
_PASSAGES_PER_DOCUMENT = 4
_FEWEST_CANDIDATES = 40


def scores_by(metric: str, embeddings: Embeddings, query: Embeddings) -> Embeddings:
    """The scores (n,) of embeddings (n, dim) for the embedding (dim,) of a query.

    They are inner products, or squared distances with a minus, so that larger ones are better.
    """
    # Unlike a product of matrices, on the calling thread alone.
    if metric != L2:
        scores: Embeddings = np.einsum("ij,j->i", embeddings, query)
        return scores
    differences = embeddings - query
    distances: Embeddings = np.einsum("ij,ij->i", differences, differences)
    return 0 - distances  # not -0


def num_candidates_for(top_k: int) -> int:
    """The number of passages that a search for `top_k` documents fetches at first."""
    return max(_FEWEST_CANDIDATES, _PASSAGES_PER_DOCUMENT * top_k)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchParameters:
    """How thorough the searches of an index are; a build measures which parameters suffice.

    They hold for up to `num_candidates`; a search for more candidates visits proportionally more.
    An engine with parameters of its own has a subclass.
    """

    num_candidates: int = 100

    def growth(self, num_candidates: int) -> float:
        """How many times as much a search for `num_candidates` candidates visits, at least 1.

        A hybrid search fetches more candidates than a dense search, to have more to fuse. Up to
        `FEWEST_HYBRID_CANDIDATES`, this makes no search larger: the ten nearest need no more.
        """
        return max(1.0, num_candidates / max(self.num_candidates, FEWEST_HYBRID_CANDIDATES))


class SearchedRows(Protocol):
    """Rows that can be searched: of a vector index, some of them, or of several."""

    size: int
    """How many rows there are."""

    @abstractmethod
    def search(self, embedding: Embeddings, num_candidates: int) -> tuple[Embeddings, Rows]:
        """Scores (k,) and rows (k,), best first, for one query embedding (dim,).

        k is at most `num_candidates`; with `num_candidates` ≥ `size`, every row comes back. Runs on
        the calling thread alone.
        """
        ...

    @abstractmethod
    def scores(self, embedding: Embeddings, rows: Rows) -> Embeddings:
        """The scores (n,) at `rows` (n,), which are ascending, for one query embedding (dim,).

        :raises InvalidArgumentError: When this type of index does not keep embeddings.
        """
        ...

    def has_all(self, asked: int, found: int) -> bool:  # noqa: ARG002
        """Whether every row was found, if `found` rows came back for `asked` candidates."""
        return asked >= self.size


class AllRows(SearchedRows, Protocol):
    """All rows of an index, some of which can be searched alone."""

    @abstractmethod
    def restricted_to(self, allowed: Mask) -> SearchedRows:
        """The `allowed` rows (size,) of this index, prepared for many searches."""
        ...


Synonyms = Mapping[str, Sequence[str]]
"""The words that stand for a word, both as they are indexed."""

NO_SYNONYMS: Synonyms = MappingProxyType({})


class WordQuery(Protocol):
    """The words of a query, to be searched."""

    @abstractmethod
    def search(self, num_candidates: int) -> tuple[Embeddings, Rows]:
        """Scores (k,) and rows (k,), best first; k is at most `num_candidates`.

        Rows that share no searched word with the query are left out.
        """
        ...

    @abstractmethod
    def scores(self, rows: Rows) -> Embeddings:
        """The scores (n,) of the passages at `rows` (n,), which are ascending, at least one."""
        ...

    @abstractmethod
    def highlights(self, text: str) -> tuple[Span, ...]:
        """The spans of the searched words in a text, in order; of word pieces, none."""
        ...


class SearchedWords(Protocol):
    """The words of passages: of all, of some, or of several indexes."""

    size: int
    """The passages that can be found."""

    def has_all(self, asked: int, found: int) -> bool:
        """Whether every passage was found, if `found` came back for `asked` candidates."""
        return found < asked or asked >= self.size

    def parse(
        self, text: str, *, exact: bool = False, synonyms: Synonyms = NO_SYNONYMS
    ) -> WordQuery:
        """The words of a query. Indexes on servers correct no typing errors, and know no synonyms.

        :param exact: Correct no typing error.
        :param synonyms: The words that stand for a word, both as they are indexed.
        """
        ...


class VectorIndex(AllRows, ABC):
    """Finds the passages that are nearest to a query's embedding by a metric."""

    metric: str = METRIC
    """How embeddings are compared, as a manifest says it."""

    file_name: str
    """The name of the index's file in an index directory."""

    parameters_type: type[SearchParameters] = SearchParameters

    parameters: SearchParameters
    """The parameters of every search; may be replaced at any time."""

    dim: int
    """Width of a query's embedding."""

    @property
    def files(self) -> tuple[str, ...]:
        """The names of all files that `save` writes."""
        return (self.file_name,)

    def training_size(self, num_passages: int) -> int:
        """The number of embeddings that an index of `num_passages` passages is trained on."""
        return num_passages

    def train(self, embeddings: Embeddings, *, threads: int = 1) -> None:
        """Learn from a sample (n, dim) how to code embeddings, if the index codes them.

        :raises InvalidArgumentError: When the sample is too small for this index.
        """

    def reserve(self, num_rows: int) -> None:
        """Prepare for `num_rows` rows in all, so that adding them takes less memory."""

    @abstractmethod
    def add(self, embeddings: Embeddings, *, threads: int = 1) -> None:
        """Append embeddings (n, dim) as the next n rows.

        :raises InvalidArgumentError: When this type of index cannot number its rows.
        """

    @abstractmethod
    def save(self, path: Path) -> None:
        """Write the index to a file.

        :raises StorageError: When the file system refuses.
        """

    @abstractmethod
    def embeddings(self, rows: Rows) -> Embeddings:
        """The embeddings (n, dim) at `rows` (n,), as precisely as the index keeps them.

        :raises InvalidArgumentError: When this type of index does not keep them.
        """

    @abstractmethod
    def empty_exact(self) -> "VectorIndex":
        """An exact index without rows, whose embeddings are as precise as those here."""

    @override
    def scores(self, embedding: Embeddings, rows: Rows) -> Embeddings:
        return scores_by(self.metric, self.embeddings(rows), embedding)

    @override
    def restricted_to(self, allowed: Mask) -> SearchedRows:
        return RestrictedIndex(self, allowed)

    def tuning_grid(self) -> Mapping[str, Sequence[int]]:
        """The values to try for each search parameter, from the fastest to the most thorough.

        Parameters are tuned in this order. An exact index has none.
        """
        return {}


class Engine(VectorIndex):
    """A vector index that can be made and opened.

    An engine is a subclass in a module of its own; `engines.engine_of` finds it by its name.
    """

    name: str
    """The name of the engine in manifests."""

    @classmethod
    @abstractmethod
    def default_factory(cls, num_passages: int, dim: int) -> str:
        """The factory string that suits a corpus of this size."""

    @classmethod
    @abstractmethod
    def create(cls, factory: str, dim: int, metric: str = METRIC) -> Self:
        """Make an empty index of the type that the `factory` string describes.

        :raises InvalidArgumentError: When the engine does not understand the factory string, or
            does not have the metric.
        """

    @classmethod
    @abstractmethod
    def load(cls, path: Path) -> Self:
        """Open an index file, read only, with default search parameters.

        :raises CorruptIndexError: When the engine cannot read it.
        """

    @classmethod
    def load_trained(cls, path: Path) -> Self | None:  # noqa: ARG003
        """An empty index that codes embeddings as the one in a file; None trains a new one.

        :raises CorruptIndexError: As `load`.
        """
        return None

    @override
    def empty_exact(self) -> Self:
        return self.create(self.default_factory(0, self.dim), self.dim, self.metric)


class RestrictedIndex(SearchedRows):
    """Some rows of a vector index, searched without the other rows. Thread-safe."""

    def __init__(self, index: VectorIndex, allowed: Mask) -> None:
        """Restrict `index` to the `allowed` rows (size,)."""
        self.size = int(np.count_nonzero(allowed))
        self._whole, self._allowed = index, allowed
        self._rows: Rows | None = None
        if self.size <= FEW_ROWS:
            self._rows = np.flatnonzero(allowed)
            self._embeddings = index.embeddings(self._rows)

    @override
    def search(self, embedding: Embeddings, num_candidates: int) -> tuple[Embeddings, Rows]:
        # The query is compared with every row. A subclass may be faster.
        if self._rows is not None:
            rows = self._rows
            scores = scores_by(self._whole.metric, self._embeddings, embedding)
        else:
            rows = np.flatnonzero(self._allowed)
            blocks = np.split(rows, range(_BLOCK_ROWS, self.size, _BLOCK_ROWS))
            scores = np.concatenate([self._whole.scores(embedding, block) for block in blocks])
        if num_candidates < self.size:
            best = np.argpartition(-scores, num_candidates)[:num_candidates]
            rows, scores = rows[best], scores[best]
        best_first = np.argsort(-scores, kind="stable")
        return scores[best_first], rows[best_first]

    @override
    def scores(self, embedding: Embeddings, rows: Rows) -> Embeddings:
        return self._whole.scores(embedding, rows)
