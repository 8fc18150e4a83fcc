"""Documents with their passages and embeddings as they were made before, such as an index's."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from swiftlet.index.changes.log import Changes
from swiftlet.index.documents.split import SplitDocument, stored_documents
from swiftlet.index.documents.store import DOCUMENTS_FILE
from swiftlet.index.documents.writer import StoredCorpus
from swiftlet.index.vectors import open_index
from swiftlet.index.vectors.embeddings_file import EmbeddingsFile
from swiftlet.index.vectors.vector_index import Mask
from swiftlet.manifest import Manifest
from swiftlet.progress import Progress
from swiftlet.types import Embeddings, Passage

_BLOCK_ROWS = 16_384
_BLOCK_CHANGES = 1_024


class EncodedCorpus(ABC):
    """Documents with their passages and embeddings, which an index is built from.

    `details` say how documents were split and encoded, as in the manifest of an index. `name` is
    what a message calls the corpus.
    """

    details: Mapping[str, Any]
    name: str

    @abstractmethod
    def documents(self) -> Iterator[SplitDocument]:
        """All documents in order."""

    @abstractmethod
    def embeddings(self) -> Iterator[Embeddings]:
        """The embeddings (n, width) of all passages in order, in blocks; after `documents`."""

    def split(self, document: Any) -> Iterator[Passage]:
        """The passages of a `SplitDocument`, in order."""
        for number, span in enumerate(document.passages):
            yield document.passage(number, *span)

    def embed(self, corpus: StoredCorpus, file: EmbeddingsFile, progress: Progress) -> None:
        """Write the embeddings of all passages of `corpus`, which has all `documents`, to `file`.

        :raises StorageError: When the file system refuses.
        """
        file.append(self.embeddings(), progress, "Copying embeddings", corpus.num_passages)


class Contents(EncodedCorpus):
    """An index at one moment: documents of the base that no change touches, then changed ones."""

    name = "the passages"

    def __init__(self, index: Path, manifest: Manifest, last: int | None = None) -> None:
        """Open an index with its changes up to the number `last`; None takes all."""
        self.details = manifest.details
        self._base, self._changes = index, Changes(index, manifest)
        self.last = self._changes.last() if last is None else last
        self._index = open_index(index, manifest)
        self._kept = bytearray()

    @override
    def documents(self) -> Iterator[SplitDocument]:
        touched = {change.document_id for change in self._changes.newest(self.last)}
        self._kept.clear()
        for document in stored_documents(self._base / DOCUMENTS_FILE):
            kept = document.document_id not in touched
            self._kept += bytes([kept]) * len(document.passages)
            if kept:
                yield document
        for change in self._changes.newest(self.last):
            if (new := change.document) is not None:
                fields = new.document_id, new.text, new.title, new.metadata, new.sections
                yield SplitDocument(*fields, change.passages)

    @property
    def kept(self) -> Mask:
        """Which passages of the base no change touches; after `documents`."""
        return np.frombuffer(self._kept, dtype=bool)

    @override
    def embeddings(self) -> Iterator[Embeddings]:
        rows = np.flatnonzero(self.kept)
        for start in range(0, len(rows), _BLOCK_ROWS):
            yield self._index.embeddings(rows[start : start + _BLOCK_ROWS])
        changes = self._changes.newest(self.last)
        while block := [*islice(changes, _BLOCK_CHANGES)]:
            yield np.concatenate([change.embeddings for change in block])
        self._changes.close()
