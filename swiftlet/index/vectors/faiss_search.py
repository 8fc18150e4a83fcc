"""Searches of FAISS indexes of any type, of all rows or of some, each with its parameters."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from swiftlet.index.vectors.faiss_library import faiss
from swiftlet.index.vectors.vector_index import (
    Mask,
    RestrictedIndex,
    Rows,
    SearchParameters,
    VectorIndex,
    scores_by,
)
from swiftlet.manifest import L2, METRIC
from swiftlet.types import Embeddings

Found = tuple[Embeddings, Rows]
"""Scores (k,) and rows (k,), best first."""

_MOST_PARAMETERS = 64
_WIDENING = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FaissParameters(SearchParameters):
    """`probes`: the number of inverted lists to visit; for HNSW, efSearch.

    `refine_factor` · `num_candidates` candidates are scored again with finer codes.
    """

    probes: int = 1
    refine_factor: int = 1


def nearest_rows(
    index: Any, embedding: Embeddings, wanted: int, parameters: Any
) -> tuple[Embeddings, Rows]:
    """Scores (k,) and rows (k,) of an index, best first, for one query embedding (dim,).

    k is at most `wanted`. Runs on the calling thread alone.

    :raises RuntimeError: When this type of index does not take these `parameters`.
    """
    # The setting is per thread. Without it, FAISS starts a thread for each core.
    faiss.omp_set_num_threads(1)
    scores, rows = index.search(embedding[np.newaxis], wanted, params=parameters)
    found = rows[0] >= 0
    best: Embeddings = scores[0][found]
    if index.metric_type == faiss.METRIC_L2:
        best = 0 - best  # not -0
    return best, rows[0][found]


def kept_parameters(index: Any, selector: Any = None) -> Callable[[int, float], Any]:
    """`search_parameters` for probes and a refine factor; kept, because they are slow to make."""
    return lru_cache(_MOST_PARAMETERS)(partial(search_parameters, index, selector))


def search_parameters(index: Any, selector: Any, probes: int, refine_factor: float) -> Any:
    """Per-search parameters for an index and everything wrapped in it; None where it takes none."""
    if isinstance(index, faiss.IndexRefine):
        inner = search_parameters(faiss.downcast_index(index.base_index), selector, probes, 1)
        return faiss.IndexRefineSearchParameters(k_factor=refine_factor, base_index_params=inner)
    if isinstance(index, faiss.IndexPreTransform):
        base = faiss.downcast_index(index.index)
        inner = search_parameters(base, selector, probes, refine_factor)
        return inner and faiss.SearchParametersPreTransform(index_params=inner)
    if isinstance(index, faiss.IndexIVF):
        return faiss.SearchParametersIVF(nprobe=probes, sel=selector)
    if isinstance(index, faiss.IndexHNSW):
        return faiss.SearchParametersHNSW(efSearch=probes, sel=selector)
    return selector and faiss.SearchParameters(sel=selector)


def most_probes(index: Any) -> int:
    """The number of probes that visits all lists; 1 for an index without lists or graph."""
    if isinstance(index, faiss.IndexRefine):
        index = faiss.downcast_index(index.base_index)
    while isinstance(index, faiss.IndexPreTransform):
        index = faiss.downcast_index(index.index)
    if isinstance(index, faiss.IndexHNSW):
        return max(1, int(index.ntotal))
    return int(index.nlist) if isinstance(index, faiss.IndexIVF) else 1


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """Inverted lists: centroids (l, d), numbers of rows (l,), and the list of each row (n,).

    `transform` turns embeddings of queries (q, dim) into the embeddings (q, d) of the lists.
    """

    centroids: Embeddings
    sizes: NDArray[np.int64]
    of_rows: NDArray[np.int32]
    transform: Callable[[Embeddings], Embeddings]
    metric: str = METRIC

    def nearest(self, embedding: Embeddings) -> Rows:
        """The numbers of all lists (l,), the nearest to a query's embedding (dim,) first."""
        query = self.transform(embedding[np.newaxis])[0]
        return np.argsort(-scores_by(self.metric, self.centroids, query))


def find_lists(index: Any) -> Lists | None:
    """The inverted lists, if there are several."""
    transform: Callable[[Embeddings], Embeddings] = np.asarray
    if isinstance(index, faiss.IndexPreTransform):
        transform, index = partial(_transformed, index), faiss.downcast_index(index.index)
    if not isinstance(index, faiss.IndexIVF) or index.nlist == 1:
        return None
    sizes = np.array([index.get_list_size(number) for number in range(index.nlist)])
    of_rows = np.empty(index.ntotal, dtype=np.int32)
    for number in np.flatnonzero(sizes).tolist():
        rows = index.invlists.get_ids(number)
        of_rows[faiss.rev_swig_ptr(rows, int(sizes[number]))] = number
        index.invlists.release_ids(number, rows)
    metric = L2 if index.metric_type == faiss.METRIC_L2 else METRIC
    return Lists(index.quantizer.reconstruct_n(0, index.nlist), sizes, of_rows, transform, metric)


def _transformed(index: Any, embeddings: Embeddings) -> Embeddings:
    for place in range(index.chain.size()):
        embeddings = faiss.downcast_VectorTransform(index.chain.at(place)).apply(embeddings)
    return embeddings


class CopiedRows(RestrictedIndex):
    """Rows that are copied to an exact index, which is smaller and faster in half precision."""

    def __init__(self, whole: VectorIndex, allowed: Mask) -> None:
        super().__init__(whole, allowed)
        self._copied_rows = np.flatnonzero(allowed)
        self._copy = whole.empty_exact()
        self._copy.add(whole.embeddings(self._copied_rows))

    @override
    def search(self, embedding: Embeddings, num_candidates: int) -> tuple[Embeddings, Rows]:
        scores, places = self._copy.search(embedding, num_candidates)
        return scores, self._copied_rows[places]


class SelectedRows(RestrictedIndex):
    """Rows that FAISS selects while it searches."""

    def __init__(
        self,
        whole: VectorIndex,
        allowed: Mask,
        index: Any,
        selector: Any,
        *,
        parameters: FaissParameters,
        most_probes: int,
        lists: Lists | None,
        named: Callable[[Embeddings, Found], Found],
    ) -> None:
        """Search `index`, the FAISS index of `whole` or of its finest codes, by the `selector`.

        :param named: Makes scores and rows of `whole` of what FAISS finds for an embedding.
        """
        super().__init__(whole, allowed)
        self._named, self._index, self._most_probes = named, index, most_probes
        self._parameters_of = kept_parameters(index, selector)
        self._given, self._lists = parameters, lists
        if self._lists is not None:
            self._counts = np.bincount(
                self._lists.of_rows[allowed], minlength=len(self._lists.centroids)
            )

    @override
    def search(self, embedding: Embeddings, num_candidates: int) -> tuple[Embeddings, Rows]:
        # More lists are visited until there are enough rows.
        if num_candidates >= self.size:
            return super().search(embedding, num_candidates)
        growth = self._given.growth(num_candidates)
        probes = self._probes(embedding, min(self._most_probes, int(self._given.probes * growth)))
        while True:
            refine_factor = min(self._given.refine_factor, self.size / num_candidates)
            parameters = self._parameters_of(probes, refine_factor)
            found = nearest_rows(self._index, embedding, num_candidates, parameters)
            found = self._named(embedding, found)
            if len(found[1]) == num_candidates:
                return found
            if probes == self._most_probes:
                return super().search(embedding, num_candidates)
            probes = min(self._most_probes, probes * _WIDENING)

    def _probes(self, embedding: Embeddings, probes: int) -> int:
        """So many lists that they have the share of these rows that `probes` lists have of all.

        The nearest lists may have few of these rows, or none.
        """
        if self._lists is None or probes == self._most_probes:
            return probes
        nearest = self._lists.nearest(embedding)
        share = self._lists.sizes[nearest[:probes]].sum() / len(self._lists.of_rows)
        visited = np.cumsum(self._counts[nearest])
        return min(self._most_probes, int(np.searchsorted(visited, share * self.size)) + 1)
