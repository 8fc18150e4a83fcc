"""An index on a server, as searches use it and follow it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from typing_extensions import override

from swiftlet.address import Address
from swiftlet.encoders.encoder import Encoder
from swiftlet.errors import CorruptIndexError, FilterError, shown
from swiftlet.index.columns.facets import check_values, values_of
from swiftlet.index.columns.filters import Filter, first_without_values, unknown_field
from swiftlet.index.lexical.analysis import analysis_in
from swiftlet.index.parts.search_parts import Counts, IndexSource, SearchParts, Selection
from swiftlet.manifest import Manifest
from swiftlet.servers.passages import ServerPassages


@dataclass(frozen=True, kw_only=True)
class ServerParts(SearchParts):
    """The parts of an index on a server."""

    address: Address
    manifest: Manifest
    store: ServerPassages
    lexical: ServerPassages | None
    waiting_seconds: float

    @property
    @override
    def counts_values(self) -> bool:
        return self.store.counts_values

    @property
    @override
    def num_rows(self) -> int:
        return self.store.num_passages  # the server hides what is deleted

    @override
    def check(self) -> None:
        if (dim := self.manifest.dim) != self.encoder.dim:
            raise CorruptIndexError(
                f"{self.address} has embeddings of {dim} dimensions, but the encoder gives "
                f"{self.encoder.dim}"
            )

    @override
    def selection(self, tree: Filter | None) -> Selection:
        passages = self.store
        where = passages.everything if tree is None else self._where(tree)
        num_documents, size = passages.sizes(where)
        if tree is None:
            return Selection(passages, self.lexical, num_documents)
        some = passages.restricted_to(where, size)
        return Selection(some, self.lexical and some, num_documents)

    @override
    def document_ids(self, tree: Filter) -> list[str]:
        return self.store.document_ids(self._where(tree))

    @override
    def fields(self) -> tuple[str, ...]:
        return self.store.fields()

    @override
    def facets(self, fields: Sequence[str], tree: Filter) -> Counts:
        return self.store.facets(fields, self._where(tree)) if self.counts_values else {}

    @override
    def check_groups(self, path: str, tree: Filter) -> None:
        where, exists = self._where(tree), self.store.exists(values_of(path))
        several = exists and self.store.has_several(path, where)
        check_values(path, exists=exists, several=several)

    def _where(self, tree: Filter) -> Any:
        exists = cache(self.store.exists)
        if (condition := first_without_values(tree, exists)) is None:
            return self.store.where_of(tree)
        if names := self.fields():
            raise unknown_field(condition, names)
        raise FilterError(
            f"the filter names {shown(condition.path)}, but no document has this field"
        )


class ServerIndex(IndexSource, ABC):
    """The parts of an index on a server as it is now; `refresh` follows it. Not thread-safe."""

    keeps_state = False
    seconds_between_looks = 1.0

    def __init__(self, address: Address, encoder: Encoder) -> None:
        """Open the index at an address, to be searched with an encoder.

        :raises IndexServerError: When the server does not answer.
        :raises InvalidArgumentError: When there is no such index, or not one of Swiftlet.
        """
        self.address, self._encoder = address, encoder
        self._open(self._look())

    @property
    @override
    def state(self) -> tuple[SearchParts, Manifest, int, str]:
        passages = self._parts.store
        name = f"{self.manifest.short_fingerprint}.{passages.version}"
        return self._parts, self.manifest, passages.change, name

    @override
    def refresh(self) -> bool:
        if (seen := self._look()) == self._seen:
            return False
        self._open(seen)
        return True

    @abstractmethod
    def _look(self) -> Any:
        """What changes when the index does."""

    @abstractmethod
    def _opened(self, seen: Any) -> tuple[Manifest, ServerPassages, int | None]:
        """The manifest, the passages, and how many of these words were counted in, if any."""

    def _open(self, seen: Any) -> None:
        manifest, passages, counted = self._opened(seen)
        if counted is not None:
            passages.use_words(analysis_in(manifest.details), counted)
        self._parts = ServerParts(
            encoder=self._encoder,
            index=passages,
            passage_to_document=passages,
            store=passages,
            lexical=None if counted is None else passages,
            address=self.address,
            manifest=manifest,
            waiting_seconds=passages.waiting_seconds,
        )
        self.manifest, self._seen = manifest, seen

    @override
    def close(self) -> None: ...
