"""The parts of an open index that a search uses."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

from swiftlet.encoders.encoder import Encoder
from swiftlet.errors import InvalidArgumentError
from swiftlet.index.columns.boosts import Boosts, Gains
from swiftlet.index.columns.columns import Value
from swiftlet.index.columns.filters import Filter
from swiftlet.index.columns.sorting import FieldOrder
from swiftlet.index.documents.numbers import NumbersByRow
from swiftlet.index.documents.store import Store
from swiftlet.index.vectors.vector_index import SearchedRows, SearchedWords
from swiftlet.manifest import Manifest

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

    def order(self, sort: str, tree: Filter) -> FieldOrder:  # noqa: ARG002
        """The order of the documents that pass a filter by a field, "modified:desc".

        :raises SortError: When their values have no common order.
        :raises UnknownFieldError: When none has a value of it.
        :raises InvalidArgumentError: When the index knows nothing of the metadata.
        """
        raise InvalidArgumentError(
            "sort is given, but the index is on a server, which sorts by score alone: leave it "
            "out, or make an index on this machine by swiftlet pull ADDRESS --out INDEX"
        )

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
        """The parts and the manifest, without a change."""
        return self.parts, self.manifest, 0, self.manifest.short_fingerprint

    def refresh(self) -> bool:
        """There is nothing new."""
        return False

    def close(self) -> None:
        """Nothing is open."""
