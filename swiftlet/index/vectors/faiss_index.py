"""The engine of FAISS: an index of any factory string, in one file."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from swiftlet import disk
from swiftlet.errors import CorruptIndexError, InvalidArgumentError
from swiftlet.index.vectors.faiss_library import METRICS, faiss
from swiftlet.index.vectors.faiss_search import (
    CopiedRows,
    FaissParameters,
    Lists,
    SelectedRows,
    find_lists,
    kept_parameters,
    most_probes,
    nearest_rows,
    search_parameters,
)
from swiftlet.index.vectors.vector_index import (
    FEW_ROWS,
    Engine,
    Mask,
    RestrictedIndex,
    Rows,
)
from swiftlet.manifest import L2, METRIC
from swiftlet.types import Embeddings

EXACT_UP_TO = 2_000
"""Up to this many passages, a query is compared with every embedding: no other type is faster."""

SCANNED_UP_TO = 2_000_000
"""Up to this many passages, a query is compared with every code: more lists are not faster.

The codes are in one list all the same, because FAISS filters lists only.
"""

_FEWEST_CODED, _MOST_CODED = 18, 8_192
_MOST_LISTS = 65_536
_PCA_ROWS = 65_536
_BOUNDS, _ALLOWED_BYTES = Lock(), 1 << 26
_REFINE_FACTORS = (1, 2, 4, 8, 16)
_MOST_COPIED_ROWS = 32_768
_LARGEST_HALF = 2**14  # of a bound and of the width of a range: half precision ends at 2**16
_COPIED_SHARE = 1 / 32
"""Above `FEW_ROWS`, up to this number and this share of all rows are copied: with so few rows, most
of the nearest lists have none of them."""

# FAISS accepts these and then ends the process or never returns: a number that is zero, and graphs
# with too few neighbours.
_FATAL = re.compile(r"(?:(?<![A-Za-z_])[A-Za-z_]+0+|HNSW1|NSG[1-9])(?![0-9])")


class FaissIndex(Engine):
    """A FAISS index of any factory string, searched on the calling thread."""

    name = "faiss"
    file_name = "index.faiss"
    parameters_type = FaissParameters
    parameters: FaissParameters
    _codes: NDArray[np.uint8] | None
    """The finest codes (size, bytes), where FAISS has them in one array."""

    def __init__(self, index: Any) -> None:
        self._index, self.dim = index, int(index.d)
        self.metric = L2 if index.metric_type == METRICS[L2] else METRIC
        self.refines = isinstance(index, faiss.IndexRefine)
        """Whether candidates are scored again with finer codes."""
        self.finest = faiss.downcast_index(index.refine_index) if self.refines else index
        """FAISS's index with the finest codes."""
        self._parameters_of = kept_parameters(index)
        self.parameters = FaissParameters()
        self._count()

    def _count(self) -> None:
        self.size = int(self._index.ntotal)
        self.most_probes = most_probes(self._index)
        """The number of probes that visits all lists; 1 for an index without lists or graph."""
        index, self._codes = self.finest, None
        if isinstance(index, faiss.IndexFlatCodes) and index.ntotal:
            codes = faiss.rev_swig_ptr(index.codes.data(), index.ntotal * index.code_size)
            self._codes = codes.reshape(-1, index.code_size)

    @classmethod
    def default_factory(cls, num_passages: int, dim: int) -> str:
        """The FAISS factory string for a corpus of this size.

        A small corpus gets an exact index. A larger one gets four-bit product codes of half the
        principal components, three of them a code, in the fast-scan layout; for a large corpus they
        are in inverted lists. The best candidates are scored again with a byte a dimension.
        """
        if num_passages <= EXACT_UP_TO:
            return "Flat"
        # Codes that are too short do not give back every passage; the principal components of
        # wide ones take a table of width · width numbers.
        if not _FEWEST_CODED <= dim <= _MOST_CODED:
            return "SQ8"
        codes = max(1, dim // 6)
        lists = 1
        if num_passages > SCANNED_UP_TO:
            lists = min(int(2 * num_passages**0.5), _MOST_LISTS)
        return f"PCAR{min(dim, 3 * codes)},IVF{lists},PQ{codes}x4fs,Refine(SQ8)"

    @classmethod
    def create(cls, factory: str, dim: int, metric: str = METRIC) -> "FaissIndex":
        """Make an empty index.

        :raises InvalidArgumentError: When FAISS does not understand the factory string.
        """
        if found := _FATAL.search(factory):
            raise InvalidArgumentError(
                f"{factory!r} is no usable FAISS index: {found[0]!r} is too few"
            )
        try:
            return cls(faiss.index_factory(dim, factory, METRICS[metric]))
        except (RuntimeError, MemoryError) as error:
            raise InvalidArgumentError(
                f"{factory!r} is no FAISS index of {dim} dimensions: {_reason(error)}"
            ) from error

    @classmethod
    def load(cls, path: Path) -> "FaissIndex":
        """Map an index file into memory, read-only, as far as its type allows.

        Verify its hash first, since FAISS does not check its input. The file must not be written to
        while the index is in use; it may be removed or replaced.

        :raises CorruptIndexError: When FAISS cannot read it.
        """
        return cls(read_faiss(path))

    @classmethod
    def load_trained(cls, path: Path) -> "FaissIndex":
        """Read an index file into memory, and remove its embeddings.

        :raises CorruptIndexError: As `load`.
        """
        index = _read(path, faiss.IO_FLAG_SKIP_PRECOMPUTE_TABLE)  # what is mapped cannot change
        index.reset()
        return cls(index)

    @staticmethod
    def training_size(num_passages: int) -> int:
        """The number of embeddings that an index of `num_passages` passages is trained on."""
        return min(num_passages, max(65_536, int(2 * num_passages**0.5) * 64))

    @override
    def empty_exact(self) -> "FaissIndex":
        # In half precision, searches are faster, too.
        quantizer = getattr(self.finest, "sq", None)
        bounds = np.empty(0) if quantizer is None else faiss.vector_to_array(quantizer.trained)
        halved = quantizer is not None and np.abs(bounds).max(initial=0) < _LARGEST_HALF
        return self.create("SQfp16" if halved else "Flat", self.dim, self.metric)

    def tuning_grid(self) -> Mapping[str, Sequence[int]]:
        """First the probes, with ample refinement; then the refinement with these probes."""
        grid: dict[str, Sequence[int]] = {}
        if self.most_probes > 1:
            grid["probes"] = _doubling(self.most_probes)
        if self.refines:
            grid["refine_factor"] = _REFINE_FACTORS
        return grid

    @override
    def train(self, embeddings: Embeddings, *, threads: int = 1) -> None:
        faiss.omp_set_num_threads(threads)
        _quieten(self._index)
        try:
            _train_pca(self._index, embeddings)
            self._index.train(embeddings)
        except RuntimeError as error:
            raise InvalidArgumentError(
                f"the index cannot be trained on {len(embeddings)} embeddings: {_reason(error)}"
            ) from error

    def reserve(self, num_rows: int) -> None:
        """Take the memory for the finest codes of `num_rows` rows at once.

        FAISS would take twice as much each time that it is full, while it still has the old one.
        """
        if isinstance(self.finest, faiss.IndexFlatCodes):
            codes = self.finest.codes
            used = codes.size()
            codes.resize(max(used, num_rows * self.finest.code_size))
            codes.resize(used)
            self._count()  # the codes have moved

    @override
    def add(self, embeddings: Embeddings, *, threads: int = 1) -> None:
        faiss.omp_set_num_threads(threads)
        try:
            self._index.add(embeddings)
        except RuntimeError as error:
            raise InvalidArgumentError(
                f"this type of index takes no embeddings: {_reason(error)}"
            ) from error
        self._count()

    @override
    def save(self, path: Path) -> None:
        # Given a path, FAISS would only print a message when the last block cannot be written.
        with disk.storage_errors(path), disk.opened(path) as file:
            faiss.write_index(self._index, faiss.PyCallbackIOWriter(file.write))

    @override
    def search(self, embedding: Embeddings, num_candidates: int) -> tuple[Embeddings, Rows]:
        wanted, given = min(num_candidates, self.size), self.parameters
        if wanted == self.size:
            parameters = self._parameters_of(self.most_probes, 1)
        else:
            probes = min(self.most_probes, int(given.probes * given.growth(wanted)))
            factor = min(given.refine_factor, self.size / wanted)
            parameters = self._parameters_of(probes, factor)
        return self.named(embedding, nearest_rows(self._index, embedding, wanted, parameters))

    def named(
        self,
        embedding: Embeddings,  # noqa: ARG002
        found: tuple[Embeddings, Rows],
    ) -> tuple[Embeddings, Rows]:
        """Scores and rows, best first, of what FAISS has found for a query's embedding."""
        return found

    def selector(self, allowed: Mask) -> Any:
        """What lets FAISS find the `allowed` rows only."""
        return faiss.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))

    @override
    def restricted_to(self, allowed: Mask) -> RestrictedIndex:
        count = np.count_nonzero(allowed)
        if FEW_ROWS < count <= min(_MOST_COPIED_ROWS, self.size * _COPIED_SHARE):
            return CopiedRows(self, allowed)
        if count > FEW_ROWS:
            selector = self.selector(allowed)
            # Where the codes cannot be filtered, the finer codes can be.
            for index in dict.fromkeys((self._index, self.finest)):
                parameters = search_parameters(index, selector, 1, 1)
                try:
                    nearest_rows(index, np.zeros(self.dim, np.float32), 1, parameters)
                except RuntimeError:
                    continue
                return SelectedRows(
                    self,
                    allowed,
                    index,
                    selector,
                    parameters=self.parameters,
                    most_probes=self.most_probes,
                    lists=self.lists,
                    named=self.named,
                )
        return RestrictedIndex(self, allowed)

    @override
    def embeddings(self, rows: Rows) -> Embeddings:
        index = self.finest
        if self._codes is not None:
            # In half the time of `reconstruct_batch`.
            decoded: Embeddings = index.sa_decode(self._codes[rows])
            return decoded
        try:
            if (lists := faiss.try_extract_index_ivf(index)) is not None:
                lists.make_direct_map()
            found: Embeddings = index.reconstruct_batch(np.ascontiguousarray(rows, np.int64))
        except RuntimeError as error:
            raise InvalidArgumentError(
                f"this type of index cannot reconstruct embeddings: {_reason(error)}"
            ) from error
        return found

    @cached_property
    def lists(self) -> Lists | None:
        """The inverted lists, if there are several."""
        index = faiss.downcast_index(self._index.base_index) if self.refines else self._index
        return find_lists(index)


def read_faiss(path: Path) -> Any:
    """FAISS's index in a file, as `FaissIndex.load` reads it."""
    # Inner products need no precomputed tables, which would take more memory.
    return _read(path, faiss.IO_FLAG_MMAP_IFC | faiss.IO_FLAG_SKIP_PRECOMPUTE_TABLE)


def _read(path: Path, flags: int) -> Any:
    # Not above, since it loads FAISS, which `faiss_library` has to do first.
    from swiftlet.corpora.vector_sources.faiss_child import check_parts

    try:
        with bounded_reading(path.stat().st_size):
            index = faiss.read_index(str(path), flags)
        check_parts(index)
    except OSError as error:
        raise CorruptIndexError(f"{path} is no FAISS index: {error.strerror}") from error
    except RuntimeError as error:
        raise CorruptIndexError(f"{path} is no FAISS index: {_reason(error)}") from error
    return index


@contextmanager
def bounded_reading(size_bytes: int) -> Iterator[None]:
    """In the block, no length within a file of FAISS may exceed the size of the file.

    A damaged file may contain any length. Some transforms without a matrix name the size of one, so
    that 64 MiB are always allowed. The bounds are FAISS's own, for all of the process.
    """
    with _BOUNDS:
        before = (
            faiss.get_deserialization_vector_byte_limit(),
            faiss.get_deserialization_loop_limit(),
        )
        faiss.set_deserialization_vector_byte_limit(max(size_bytes, _ALLOWED_BYTES))
        faiss.set_deserialization_loop_limit(size_bytes)
        try:
            yield
        finally:
            faiss.set_deserialization_vector_byte_limit(before[0])
            faiss.set_deserialization_loop_limit(before[1])


def _doubling(most: int) -> list[int]:
    """1, 2, 3, 4, 6, 8, 12 … up to `most`."""
    values = []
    value = 1
    while value < most:
        values.append(value)
        if value > 1 and value * 3 // 2 < most:
            values.append(value * 3 // 2)
        value *= 2
    return [*values, most]


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


def _train_pca(index: Any, embeddings: Embeddings) -> None:
    """Train a PCA around zero: FAISS subtracts the mean, which changes inner products.

    With each embedding, its negative is trained on, so that the mean is zero.
    """
    if isinstance(index, faiss.IndexRefine):
        _train_pca(faiss.downcast_index(index.base_index), embeddings)
    elif isinstance(index, faiss.IndexPreTransform):
        transform = faiss.downcast_VectorTransform(index.chain.at(0))
        if isinstance(transform, faiss.PCAMatrix) and not transform.is_trained:
            some = embeddings[:: len(embeddings) // _PCA_ROWS + 1]
            transform.train(np.concatenate([some, -some]))


def _reason(error: Exception) -> str:
    """The message of FAISS without the place in its source code."""
    text = re.sub(r"\s+", " ", str(error))
    text = re.sub(r"^Error in .*? at \S+:\d+: ", "", text)
    return re.sub(r"^Error: '.*?' failed: ", "", text).strip()[:200]
