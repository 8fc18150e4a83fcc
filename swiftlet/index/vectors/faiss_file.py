"""A FAISS file that was made elsewhere, served as it is."""

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from swiftlet import disk
from swiftlet.errors import CorruptIndexError
from swiftlet.index.vectors.faiss_index import FaissIndex, read_faiss
from swiftlet.index.vectors.faiss_library import faiss
from swiftlet.index.vectors.faiss_search import Lists
from swiftlet.index.vectors.saved_array import read_array
from swiftlet.index.vectors.vector_index import Mask, RestrictedIndex, Rows
from swiftlet.types import Embeddings

ROWS_FILE = "rows.npy"
"""Beside the index: the place (n,) of each passage in FAISS's file, or its id there."""

_EXACT = {
    "IndexFlat", "IndexFlatIP", "IndexFlatL2", "IndexHNSWFlat", "IndexIVFFlat", "IndexPQ",
    "IndexIVFPQ", "IndexScalarQuantizer", "IndexIVFScalarQuantizer", "IndexRefine",
    "IndexRefineFlat",
}  # fmt: skip
"""Types whose scores are those of the embeddings that they give back."""

_SPREAD = 8
"""Ids up to this many times the number of rows are selected by a bit each."""


class FaissFile(FaissIndex):
    """A FAISS index of any type whose file another program wrote, and which stays as it is.

    Passages have numbers of their own, since the file may number its rows in any way. Where the
    type's scores are not the inner products with the embeddings that it gives back, the candidates
    are scored again with these, so that a passage has one score in every search.
    """

    name = "faiss-file"
    _has_map = False

    def __init__(self, index: Any) -> None:
        """Take FAISS's index; passage k is its row k."""
        self._outer = index  # SWIG frees it with its last name, and what is in it
        index = _mended(_without_ids(index))
        super().__init__(index)
        self._file: Path | None = None
        inner = _innermost(index)
        self._scores_again = index is not inner or type(inner).__name__ not in _EXACT
        self._places: Rows | None = None

    def _place(self, places: Rows) -> None:
        """Take where the passages are; None of `_places` stands for their own numbers."""
        if np.array_equal(places, np.arange(len(places))):
            return
        self._places = places
        self._order = np.argsort(places, kind="stable")
        self._sorted = places[self._order]
        lists = faiss.try_extract_index_ivf(self._index)
        if lists is not None and self._sorted[-1] >= self.size:
            lists.set_direct_map_type(faiss.DirectMap.Hashtable)
            self._has_map = True

    @classmethod
    @override
    def load(cls, path: Path) -> "FaissFile":
        found = cls(read_faiss(path))
        found.take(path, read_array(path.with_name(ROWS_FILE), np.dtype("<i8")))
        return found

    @classmethod
    def open_as_it_is(cls, path: Path, order: Rows) -> "FaissFile":
        """The index of a file; passage k is its row `order[k]`, as `row_places` orders rows.

        :raises CorruptIndexError: When FAISS cannot read it, or `order` has other rows.
        """
        found = cls(read_faiss(path))
        found.take(path, found.row_places()[order])
        return found

    def take(self, path: Path, places: Rows) -> None:
        """Take the file that this index was read from, and where its passages are.

        :raises CorruptIndexError: When there are other rows.
        """
        if not np.array_equal(np.sort(places), self.row_places()):
            raise CorruptIndexError(f"{path} has other rows than passages: make it again")
        self._file = path
        self._place(places)

    def row_places(self) -> Rows:
        """Where FAISS has its rows: their numbers, or the ascending ids of inverted lists."""
        lists = _innermost(self._index)
        if self.refines or not isinstance(lists, faiss.IndexIVF):
            return np.arange(self.size)
        parts = [np.empty(0, np.int64)]
        for number in range(lists.nlist):
            if count := lists.get_list_size(number):
                ids = lists.invlists.get_ids(number)
                parts.append(faiss.rev_swig_ptr(ids, int(count)).astype(np.int64))
                lists.invlists.release_ids(number, ids)
        places: Rows = np.sort(np.concatenate(parts))
        return places

    @property
    def kind(self) -> str:
        """The names of FAISS's types, from the outside in."""
        return " of ".join(_kinds(self._index))

    @property
    def has_codes_only(self) -> bool:
        """Whether the embeddings are coded, and not kept beside their codes."""
        return not self.refines and "Flat" not in self.kind.rpartition(" ")[2]

    @override
    def save(self, path: Path) -> None:
        if self._file is None:
            super().save(path)
        else:
            with disk.storage_errors(path):
                disk.copy(self._file, path)
        places = np.arange(self.size) if self._places is None else self._places
        disk.save_array(path.with_name(ROWS_FILE), places.astype(np.int64))

    @override
    def search(self, embedding: Embeddings, num_candidates: int) -> tuple[Embeddings, Rows]:
        found = super().search(embedding, num_candidates)
        if num_candidates >= self.size > len(found[1]):  # a graph may not reach some rows
            return self._everything.search(embedding, num_candidates)
        return found

    @override
    def named(
        self, embedding: Embeddings, found: tuple[Embeddings, Rows]
    ) -> tuple[Embeddings, Rows]:
        scores, rows = found
        if self._places is not None:
            rows = self._order[np.searchsorted(self._sorted, rows)]
        if self._scores_again and len(rows):
            rows = np.sort(rows)
            scores = self.scores(embedding, rows)
            best = np.argsort(-scores, kind="stable")
            scores, rows = scores[best], rows[best]
        return scores, rows

    @override
    def selector(self, allowed: Mask) -> Any:
        if self._places is None:
            return super().selector(allowed)
        places = self._places[allowed]
        if self._sorted[-1] >= _SPREAD * self.size:
            return faiss.IDSelectorBatch(places)
        bits = np.zeros(int(self._sorted[-1]) + 1, np.bool)
        bits[places] = True
        return super().selector(bits)

    @override
    def embeddings(self, rows: Rows) -> Embeddings:
        if self._places is None:
            return super().embeddings(rows)
        if not self._has_map:
            return super().embeddings(self._places[rows])
        found: Embeddings = self._index.reconstruct_batch(self._places[rows])
        return found

    @cached_property
    @override
    def lists(self) -> Lists | None:
        return super().lists if self._places is None else None

    @property
    @override
    def files(self) -> tuple[str, ...]:
        return self.file_name, ROWS_FILE

    @cached_property
    def _everything(self) -> RestrictedIndex:
        return RestrictedIndex(self, np.ones(self.size, np.bool))


def _without_ids(index: Any) -> Any:
    """The index below the ids that `IndexIDMap` gives its rows."""
    while isinstance(index, faiss.IndexIDMap):
        index = faiss.downcast_index(index.index)
    return index


def _mended(index: Any) -> Any:
    """The index, which can give its embeddings back also after it was read from a file.

    FAISS 1.15 then leaves a pointer of this type empty, and would end the process.
    """
    lists = faiss.try_extract_index_ivf(index)
    lists = lists and faiss.downcast_index(lists)
    if isinstance(lists, faiss.IndexIVFPQFastScan) and lists.fine_quantizer is None:
        lists.fine_quantizer = lists.pq
    return index


def _innermost(index: Any) -> Any:
    while isinstance(index, faiss.IndexPreTransform):
        index = faiss.downcast_index(index.index)
    return index


def _kinds(index: Any) -> list[str]:
    name = type(index).__name__.removeprefix("Index")
    if isinstance(index, faiss.IndexPreTransform):
        return [name, *_kinds(faiss.downcast_index(index.index))]
    if isinstance(index, faiss.IndexRefine):
        return [name, *_kinds(faiss.downcast_index(index.base_index))]
    return [name]
