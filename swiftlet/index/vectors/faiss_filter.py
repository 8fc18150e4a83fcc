"""Some rows of a FAISS index, searched without the other rows."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from swiftlet.index.vectors.faiss_library import faiss
from swiftlet.index.vectors.faiss_search import FaissParameters, kept_parameters, nearest_rows
from swiftlet.index.vectors.vector_index import Mask, RestrictedIndex, Rows, VectorIndex
from swiftlet.types import Embeddings

_WIDENING = 4


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """Inverted lists: centroids (l, d), numbers of rows (l,), and the list of each row (n,).

    `transform` turns embeddings of queries (q, dim) into the embeddings (q, d) of the lists.
    """

    centroids: Embeddings
    sizes: NDArray[np.int64]
    of_rows: NDArray[np.int32]
    transform: Callable[[Embeddings], Embeddings]

    def nearest(self, embedding: Embeddings) -> Rows:
        """The numbers of all lists (l,), the nearest to a query's embedding (dim,) first."""
        query = self.transform(embedding[np.newaxis])[0]
        return np.argsort(-np.einsum("ij,j->i", self.centroids, query))


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
    return Lists(index.quantizer.reconstruct_n(0, index.nlist), sizes, of_rows, transform)


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
    ) -> None:
        """Search `index`, the FAISS index of `whole` or of its finest codes, by the `selector`."""
        super().__init__(whole, allowed)
        self._index, self._most_probes = index, most_probes
        self._parameters_of = kept_parameters(index, selector)
        self._given, self._lists = parameters, lists
        if self._lists is not None:
            self._counts = np.bincount(
                self._lists.of_rows[allowed], minlength=len(self._lists.centroids)
            )

    def search(self, embedding: Embeddings, num_candidates: int) -> tuple[Embeddings, Rows]:
        """As `RestrictedIndex.search`; more lists are visited until there are enough rows."""
        if num_candidates >= self.size:
            return super().search(embedding, num_candidates)
        growth = self._given.growth(num_candidates)
        probes = self._probes(embedding, min(self._most_probes, int(self._given.probes * growth)))
        while True:
            refine_factor = min(self._given.refine_factor, self.size / num_candidates)
            parameters = self._parameters_of(probes, refine_factor)
            found = nearest_rows(self._index, embedding, num_candidates, parameters)
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
