"""The parts of an index on this machine."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from swiftlet.errors import CorruptIndexError, FilterError
from swiftlet.index.columns.boosts import Boosts, Gains, check_boosts, gains_of
from swiftlet.index.columns.columns import Columns
from swiftlet.index.columns.facets import check_single_values, facet_values
from swiftlet.index.columns.filters import Filter, check_fields, passing
from swiftlet.index.columns.sorting import FieldOrder
from swiftlet.index.documents.numbers import DocumentNumbers
from swiftlet.index.documents.store import DocumentStore
from swiftlet.index.lexical.index import AllWords, LexicalIndex
from swiftlet.index.parts.search_parts import MOST_FIELDS, Counts, SearchParts, Selection
from swiftlet.index.vectors.vector_index import AllRows, Mask, VectorIndex


@dataclass(frozen=True, slots=True)
class Segment:
    """Documents with columns of their own: of a base, or of the changes since it was built.

    `alive` (documents,) tells which can be found, `owners` (passages,) are the documents of the
    passages, and `ids` gives the documents' ids in order.
    """

    columns: Columns
    alive: Mask
    owners: NDArray[Any]
    ids: Callable[[], Iterable[str]]


@dataclass(frozen=True, kw_only=True)
class LocalParts(SearchParts):
    """The parts of an index on this machine, with columns of the metadata."""

    index: AllRows
    lexical: AllWords | None = None
    columns: Columns | None = None

    @property
    @abstractmethod
    def segments(self) -> Sequence[Segment]:
        """The documents of the base, and those of the changes.

        :raises FilterError: When the index has no columns.
        """

    def passing(self, tree: Filter) -> list[tuple[Columns, Mask]]:
        """For each segment: its columns, and which of its documents pass a filter.

        :raises FilterError: As `selection`.
        """
        segments = self.segments
        check_fields(tree, [each.columns for each in segments])
        return [
            (each.columns, passing(tree, each.columns, len(each.alive)) & each.alive)
            for each in segments
        ]

    @property
    @override
    def counts_values(self) -> bool:
        return self.columns is not None

    @override
    def selection(self, tree: Filter | None) -> Selection:
        everything = Selection(self.index, self.lexical, self.store.num_documents)
        if tree is None:
            return everything
        masks = [mask for _, mask in self.passing(tree)]
        num_documents = sum(int(mask.sum()) for mask in masks)
        if num_documents == everything.num_documents:
            return everything
        owners = (each.owners for each in self.segments)
        allowed = np.concatenate([mask[at] for mask, at in zip(masks, owners, strict=True)])
        return Selection(
            self.index.restricted_to(allowed),
            self.lexical and self.lexical.restricted_to(allowed, tree, self.columns),
            num_documents,
        )

    @override
    def document_ids(self, tree: Filter) -> list[str]:
        found = zip(self.segments, self.passing(tree), strict=True)
        return [name for each, (_, mask) in found for name in compress(each.ids(), mask)]

    @override
    def fields(self) -> tuple[str, ...]:
        found = self.segments if self.columns is not None else ()
        names = {name for each in found for name in islice(each.columns.fields(), MOST_FIELDS)}
        return tuple(sorted(names)[:MOST_FIELDS])

    @override
    def facets(self, fields: Sequence[str], tree: Filter) -> Counts:
        if self.columns is None:
            return {}
        found = self.passing(tree)
        return {field: facet_values(field, found) for field in fields}

    @override
    def check_groups(self, path: str, tree: Filter) -> None:
        check_single_values(path, self.passing(tree))

    @override
    def order(self, sort: str, tree: Filter) -> FieldOrder:
        return FieldOrder(sort, self.passing(tree), [each.owners for each in self.segments])

    @override
    def gains(self, boosts: Boosts, *, is_default: bool) -> Gains | None:
        if is_default and self.columns is None:
            return None
        segments = self.segments
        if not is_default:
            check_boosts(boosts, [each.columns for each in segments])
        found = [
            (gains_of(boosts, each.columns, len(each.alive)) * each.alive)[each.owners]
            for each in segments
        ]
        by_row = np.concatenate(found).astype(np.float32)
        return Gains(by_row, by_row.max(initial=0))


@dataclass(frozen=True, kw_only=True)
class BaseParts(LocalParts):
    """The parts of an index as it was built."""

    index: VectorIndex
    lexical: LexicalIndex | None = None
    passage_to_document: DocumentNumbers
    store: DocumentStore

    @property
    @override
    def num_rows(self) -> int:
        return self.index.size

    @property
    @override
    def segments(self) -> Sequence[Segment]:
        if self.columns is None:
            raise FilterError("the index was built by a Swiftlet without filters: build it again")
        everything = np.ones(self.store.num_documents, np.bool)
        ids = self.store.document_ids
        return [Segment(self.columns, everything, self.passage_to_document, ids)]

    @override
    def check(self) -> None:
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
