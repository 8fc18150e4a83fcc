"""Searches of FAISS indexes of any type, each with parameters of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from swiftlet.index.vectors.faiss_library import faiss
from swiftlet.index.vectors.vector_index import Rows, SearchParameters
from swiftlet.types import Embeddings

_MOST_PARAMETERS = 64


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
    return scores[0][found], rows[0][found]


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
        return most_probes(faiss.downcast_index(index.base_index))
    if isinstance(index, faiss.IndexPreTransform):
        return most_probes(faiss.downcast_index(index.index))
    if isinstance(index, faiss.IndexIVF):
        return int(index.nlist)
    if isinstance(index, faiss.IndexHNSW):
        return max(1, int(index.ntotal))
    return 1
