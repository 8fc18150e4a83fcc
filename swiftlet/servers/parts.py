"""The parts of an index on a server, as searches use them: what the kinds of servers share."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from sys import maxsize
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from swiftlet.address import Address
from swiftlet.errors import ChangedMeanwhileError, CorruptIndexError, UnknownDocumentError
from swiftlet.index.documents.store import Store
from swiftlet.index.parts import IndexSource, SearchParts
from swiftlet.index.vectors.vector_index import Rows, SearchedRows
from swiftlet.types import Document


class ServerPassages(SearchedRows, Store, ABC):
    """The passages of some documents, or of all: searched and read on the server. Thread-safe."""

    base = None
    changed: Mapping[str, Document | None] = MappingProxyType({})
    size = maxsize
    num_documents = num_passages = 0

    @abstractmethod
    def ids_at(self, rows: Rows) -> list[str]:
        """The ids of the documents at `rows` (k,); empty if one is gone."""

    @abstractmethod
    def find(self, document_id: str) -> Document | None:
        """The document with this id, if there is one."""

    def __getitem__(self, rows: Rows) -> NDArray[np.int32]:
        _, numbers = np.unique(np.array(self.ids_at(rows), dtype=object), return_inverse=True)
        return numbers.astype(np.int32)

    @override
    def has_all(self, asked: int, found: int) -> bool:
        return found < asked

    @override
    def document(self, document_id: str) -> Document:
        if (found := self.find(document_id)) is None:
            raise UnknownDocumentError(document_id)
        return found

    @override
    def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class ServerParts(SearchParts):
    """The parts of an index on a server."""

    address: Address
    dim: int
    store: ServerPassages

    @property
    @override
    def num_rows(self) -> int:
        return self.store.num_passages  # the server hides what is deleted

    @override
    def check(self) -> None:
        if self.dim != self.encoder.dim:
            raise CorruptIndexError(
                f"{self.address} has embeddings of {self.dim} dimensions, but the encoder gives "
                f"{self.encoder.dim}"
            )


class ServerIndex(IndexSource, ABC):
    """The parts of an index on a server as it is now; `refresh` follows it. Not thread-safe."""

    keeps_state = False
    seconds_between_looks = 1.0

    @override
    def close(self) -> None: ...


def gone() -> ChangedMeanwhileError:
    """What is raised when a passage that a search has found is gone."""
    return ChangedMeanwhileError("documents were deleted during the search: search again")
