"""The parts of an open index that a search uses."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, islice
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from swiftlet.encoders.encoder import Encoder
from swiftlet.errors import CorruptIndexError, FilterError, InvalidArgumentError
from swiftlet.index.columns.boosts import Boosts, Gains, check_boosts, gains_of
from swiftlet.index.columns.columns import Columns, Value
from swiftlet.index.columns.facets import check_single_values, facet_values
from swiftlet.index.columns.filters import Filter, check_fields, passing
from swiftlet.index.documents.passages import DocumentNumbers, NumbersByRow
from swiftlet.index.documents.store import DocumentStore, Store
from swiftlet.index.lexical.index import LexicalIndex
from swiftlet.index.vectors.vector_index import Mask, SearchedRows, SearchedWords, VectorIndex
from swiftlet.manifest import Manifest

if TYPE_CHECKING:
    from swiftlet.index.changes.joint import JointIndex, JointLexical

Counts = Mapping[str, list[tuple[Value, int]]]
"""For each field of the metadata: its values, and the number of documents with each."""

MOST_FIELDS = 100
"""The fields that `SearchParts.fields` gives at most."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The passages that a search may find, and the number of their documents or more."""

    index: SearchedRows
    lexical: SearchedWords | None
    num_documents: int


@dataclass(frozen=True, kw_only=True)
class SearchParts(ABC):
    """The parts of an index at one moment, and what the metadata of its documents tells."""

    encoder: Encoder
    index: SearchedRows
    passage_to_document: NumbersByRow
    store: Store
    lexical: SearchedWords | None = None

    num_changed_rows = 0
    """Passages that have been put since the index was built."""

    waiting_seconds = 0.0
    """About how long a search waits for another machine."""

    @property
    def counts_values(self) -> bool:
        """Whether `facets` counts the values of fields."""
        return False

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """Passages, with those that are deleted or replaced."""

    @abstractmethod
    def check(self) -> None:
        """Refuse parts that do not belong together.

        :raises CorruptIndexError: When they do not.
        """

    @abstractmethod
    def selection(self, tree: Filter | None) -> Selection:
        """The passages of the documents that pass a filter, or of all documents.

        :raises FilterError: When the filter names a field, or a kind of values, that no document
            has; or when the index has no metadata.
        """

    @abstractmethod
    def document_ids(self, tree: Filter) -> list[str]:
        """The ids of the documents that pass a filter.

        :raises FilterError: As `selection`.
        """

    @abstractmethod
    def fields(self) -> tuple[str, ...]:
        """The fields of the metadata that a filter can name, at most 100, in order."""

    @abstractmethod
    def facets(self, fields: Sequence[str], tree: Filter) -> Counts:
        """The most frequent values of each field among the documents that pass a filter.

        :raises FilterError: As `selection`.
        """

    @abstractmethod
    def check_groups(self, path: str, tree: Filter) -> None:
        """Refuse a field by which the documents that pass a filter cannot be grouped.

        :raises GroupingError: When none has the field, or one has several values of it.
        :raises FilterError: As `selection`.
        """

    def gains(self, boosts: Boosts, *, is_default: bool) -> Gains | None:  # noqa: ARG002
        """What passages gain by boosts; None where the index knows nothing of the metadata.

        :param is_default: Whether the index asks for them, and not a search.
        :raises InvalidArgumentError: When a search asks for boosts that this index cannot give.
        """
        if is_default:
            return None
        raise InvalidArgumentError(
            "a boost is given, but the index is on a server, which knows no boosts: leave it out, "
            "or make an index on this machine by swiftlet pull ADDRESS --out INDEX"
        )


class IndexSource(Protocol):
    """An index that a searcher follows. Not thread-safe."""

    @property
    def keeps_state(self) -> bool:
        """Whether the state can be searched after a failure of `refresh`."""
        ...

    @property
    def seconds_between_looks(self) -> float:
        """How often a service calls `refresh`."""
        ...

    @property
    def state(self) -> tuple[SearchParts, Manifest, int, str]:
        """The parts, the manifest, the number of the last change, and a name of all three."""
        ...

    def refresh(self) -> bool:
        """Take in what has changed; whether the `state` is new.

        :raises RetrievalError: When it cannot be read; the state stays as it was.
        """
        ...

    def close(self) -> None:
        """Close what only `refresh` needs; the parts stay open as long as they are used."""
        ...


@dataclass(frozen=True)
class FixedIndex:
    """An index that does not change."""

    parts: SearchParts
    manifest: Manifest
    keeps_state: bool = True
    seconds_between_looks: float = inf

    @property
    def state(self) -> tuple[SearchParts, Manifest, int, str]:
        """As `IndexSource.state`."""
        return self.parts, self.manifest, 0, self.manifest.short_fingerprint

    def refresh(self) -> bool:
        """As `IndexSource.refresh`."""
        return False

    def close(self) -> None:
        """As `IndexSource.close`."""


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

    index: "VectorIndex | JointIndex"
    lexical: "LexicalIndex | JointLexical | None" = None
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
    def counts_values(self) -> bool:
        """As `SearchParts.counts_values`; an early index has no columns."""
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
    def num_rows(self) -> int:
        """As `SearchParts.num_rows`; nothing is deleted."""
        return self.index.size

    @property
    @override
    def segments(self) -> Sequence[Segment]:
        if self.columns is None:
            raise FilterError("the index was built by a Swiftlet without filters: build it again")
        everything = np.ones(self.store.num_documents, np.bool)
        ids = self.store.document_ids
        return [Segment(self.columns, everything, self.passage_to_document, ids)]

    def check(self) -> None:
        """As `SearchParts.check`.

        :raises CorruptIndexError: When they do not hold the same passages, or their embeddings and
            the encoder's embeddings differ in dimensions.
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
