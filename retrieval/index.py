"""Embeddings to nearest rows: the protocol of vector indexes, and the one that FAISS keeps."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import faiss
import numpy as np
from numpy.typing import NDArray

from retrieval.errors import CorruptIndexError, InvalidArgumentError
from retrieval.publication import storage_errors
from retrieval.types import Embeddings

Rows = NDArray[np.int64]
"""Row numbers (k,) of an index, in the order in which embeddings were added."""


# What FAISS accepts, and then ends the process or never returns: a number that is zero, and graphs
# with too few neighbours.
_FATAL = re.compile(r"(?:[A-Za-z_]+0+|HNSW1|NSG[1-9])(?![0-9])")
_MOST_PARAMETERS = 64
_UNKNOWN = object()


class VectorIndex(Protocol):
    """Finds the rows whose embeddings have the largest inner product with a query's."""

    @property
    def dim(self) -> int:
        """Width of the embeddings."""
        ...

    @property
    def size(self) -> int:
        """How many embeddings have been added."""
        ...

    def train(self, embeddings: Embeddings, *, threads: int = 1) -> None:
        """Learn from a sample (n, dim) what the index needs to code embeddings."""
        ...

    def add(self, embeddings: Embeddings, *, threads: int = 1) -> None:
        """Append embeddings (n, dim) as the next n rows."""
        ...

    def save(self, path: Path) -> None:
        """Write the index to a file."""
        ...

    def search(self, embedding: Embeddings, num_candidates: int) -> tuple[Embeddings, Rows]:
        """Scores (k,) and rows (k,), best first, for one query embedding (dim,).

        k is at most `num_candidates`; with `num_candidates` ≥ `size`, every row comes back. Runs on
        the calling thread alone.
        """
        ...


@dataclass(frozen=True, slots=True)
class SearchEffort:
    """How much of an approximate index one search looks at, found by measurement when building.

    `probes` are the inverted lists visited (for a graph, the breadth of its search);
    `refine_factor` times as many candidates as asked for are scored again with finer codes. Both
    hold for up to `num_candidates`; a search for more visits proportionally more.
    """

    probes: int = 1
    refine_factor: int = 1
    num_candidates: int = 100


class FaissIndex:
    """A FAISS index of any factory string, searched by inner product on the calling thread."""

    def __init__(self, index: Any, effort: SearchEffort | None = None) -> None:
        self._index = index
        self._parameters_of: dict[tuple[int, int, SearchEffort], Any] = {}
        self.effort = effort or SearchEffort()

    @classmethod
    def create(cls, factory: str, dim: int) -> "FaissIndex":
        """Make an empty index.

        :raises InvalidArgumentError: When FAISS does not understand the factory string.
        """
        if found := _FATAL.search(factory):
            raise InvalidArgumentError(
                f"{factory!r} is no usable FAISS index: {found[0]!r} is too few"
            )
        try:
            return cls(faiss.index_factory(dim, factory, faiss.METRIC_INNER_PRODUCT))
        except (RuntimeError, MemoryError) as error:
            raise InvalidArgumentError(
                f"{factory!r} is no FAISS index of {dim} dimensions: {_reason(error)}"
            ) from error

    @classmethod
    def load(cls, path: Path, effort: SearchEffort | None = None) -> "FaissIndex":
        """Map an index file into memory, read only, as far as its type allows.

        Verify its hash first, since FAISS trusts what it reads. The file must not be written to
        while the index is in use; to remove or replace it is fine.

        :raises CorruptIndexError: When FAISS cannot read it.
        """
        try:
            size_bytes = path.stat().st_size
            # A damaged file may claim anything; nothing in it is longer than the whole.
            faiss.set_deserialization_vector_byte_limit(size_bytes)
            faiss.set_deserialization_loop_limit(size_bytes)
            # Without tables that inner products do not need, for which FAISS would allocate more.
            flags = faiss.IO_FLAG_MMAP_IFC | faiss.IO_FLAG_SKIP_PRECOMPUTE_TABLE
            return cls(faiss.read_index(str(path), flags), effort)
        except OSError as error:
            raise CorruptIndexError(f"{path} is no FAISS index: {error.strerror}") from error
        except RuntimeError as error:
            raise CorruptIndexError(f"{path} is no FAISS index: {_reason(error)}") from error

    @property
    def dim(self) -> int:
        """Width of the embeddings."""
        return int(self._index.d)

    @property
    def size(self) -> int:
        """How many embeddings have been added."""
        return int(self._index.ntotal)

    @property
    def most_probes(self) -> int:
        """As many probes as visit everything; 1 where the index is exact and has no such notion."""
        return _most_probes(self._index)

    @property
    def refines(self) -> bool:
        """Whether candidates are scored again with finer codes."""
        return isinstance(self._index, faiss.IndexRefine)

    def train(self, embeddings: Embeddings, *, threads: int = 1) -> None:
        """Learn from a sample (n, dim) what the index needs to code embeddings.

        :raises InvalidArgumentError: When the sample is too small for this index.
        """
        faiss.omp_set_num_threads(threads)
        _quieten(self._index)
        try:
            self._index.train(embeddings)
        except RuntimeError as error:
            raise InvalidArgumentError(
                f"the index cannot be trained on {len(embeddings)} embeddings: {_reason(error)}"
            ) from error

    def add(self, embeddings: Embeddings, *, threads: int = 1) -> None:
        """Append embeddings (n, dim) as the next n rows.

        :raises InvalidArgumentError: When this type of index cannot number its rows itself.
        """
        faiss.omp_set_num_threads(threads)
        try:
            self._index.add(embeddings)
        except RuntimeError as error:
            raise InvalidArgumentError(
                f"this type of index takes no embeddings: {_reason(error)}"
            ) from error

    def save(self, path: Path) -> None:
        """Write the index to a file.

        :raises StorageError: When the file system refuses.
        """
        # Not by its path: FAISS only prints that the last block could not be written.
        with storage_errors(path), path.open("wb") as file:
            faiss.write_index(self._index, faiss.PyCallbackIOWriter(file.write))

    def search(self, embedding: Embeddings, num_candidates: int) -> tuple[Embeddings, Rows]:
        """Scores (k,) and rows (k,), best first, for one query embedding (dim,).

        k is at most `num_candidates`; with `num_candidates` ≥ `size`, every row comes back.
        """
        wanted = min(num_candidates, self.size)
        # Per thread, and FAISS would otherwise start as many as the machine has cores.
        faiss.omp_set_num_threads(1)
        scores, rows = self._index.search(
            embedding[np.newaxis], wanted, params=self._parameters(wanted)
        )
        found = rows[0] >= 0
        return scores[0][found], rows[0][found]

    def embeddings(self, rows: Rows) -> Embeddings:
        """What the index keeps of the embeddings at `rows` (n,), by its finest codes, (n, dim).

        :raises InvalidArgumentError: When this type of index cannot give them back.
        """
        index = self._index
        if isinstance(index, faiss.IndexRefine):
            index = faiss.downcast_index(index.refine_index)
        try:
            if (lists := faiss.try_extract_index_ivf(index)) is not None:
                lists.make_direct_map()
            found: Embeddings = index.reconstruct_batch(np.ascontiguousarray(rows, np.int64))
        except RuntimeError as error:
            raise InvalidArgumentError(
                f"this type of index gives no embeddings back: {_reason(error)}"
            ) from error
        return found

    def _parameters(self, wanted: int) -> Any:
        """Those of a search for so many candidates, which take a while to make."""
        key = wanted, self.size, self.effort
        parameters = self._parameters_of.get(key, _UNKNOWN)
        if parameters is not _UNKNOWN:  # None is what some types take
            return parameters
        if len(self._parameters_of) >= _MOST_PARAMETERS:
            self._parameters_of = {}  # not cleared: another thread may just look into it
        parameters = self._parameters_of[key] = self._make_parameters(wanted)
        return parameters

    def _make_parameters(self, wanted: int) -> Any:
        effort = self.effort
        if wanted == self.size:
            return _search_parameters(self._index, self.most_probes, 1)
        growth = max(1.0, wanted / effort.num_candidates)
        probes = min(self.most_probes, int(effort.probes * growth))
        refine_factor = min(effort.refine_factor, self.size / wanted)
        return _search_parameters(self._index, probes, refine_factor)


def _search_parameters(index: Any, probes: int, refine_factor: float) -> Any:
    """Per-search parameters for an index and everything wrapped in it; None where it takes none."""
    if isinstance(index, faiss.IndexRefine):
        inner = _search_parameters(faiss.downcast_index(index.base_index), probes, 1)
        return faiss.IndexRefineSearchParameters(k_factor=refine_factor, base_index_params=inner)
    if isinstance(index, faiss.IndexPreTransform):
        inner = _search_parameters(faiss.downcast_index(index.index), probes, refine_factor)
        return inner and faiss.SearchParametersPreTransform(index_params=inner)
    if isinstance(index, faiss.IndexIVF):
        return faiss.SearchParametersIVF(nprobe=probes)
    if isinstance(index, faiss.IndexHNSW):
        return faiss.SearchParametersHNSW(efSearch=probes)
    return None


def _most_probes(index: Any) -> int:
    if isinstance(index, faiss.IndexRefine):
        return _most_probes(faiss.downcast_index(index.base_index))
    if isinstance(index, faiss.IndexPreTransform):
        return _most_probes(faiss.downcast_index(index.index))
    if isinstance(index, faiss.IndexIVF):
        return int(index.nlist)
    if isinstance(index, faiss.IndexHNSW):
        return max(1, int(index.ntotal))
    return 1


def _quieten(index: Any) -> None:
    """Keep FAISS from printing advice on the number of training points to the terminal."""
    if isinstance(index, faiss.IndexRefine):
        _quieten(faiss.downcast_index(index.base_index))
        _quieten(faiss.downcast_index(index.refine_index))
    elif isinstance(index, faiss.IndexPreTransform):
        _quieten(faiss.downcast_index(index.index))
    if isinstance(index, faiss.IndexIVF):
        index.cp.min_points_per_centroid = 1
    if hasattr(index, "pq"):
        index.pq.cp.min_points_per_centroid = 1


def _reason(error: Exception) -> str:
    """What FAISS says, without the place in its source that it says first."""
    text = re.sub(r"\s+", " ", str(error))
    text = re.sub(r"^Error in .*? at \S+:\d+: ", "", text)
    return re.sub(r"^Error: '.*?' failed: ", "", text).strip()[:200]
