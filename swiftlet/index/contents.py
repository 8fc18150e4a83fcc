"""What an index contains at one moment: its documents with their passages, and the embeddings."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from swiftlet.index.changes.log import Changes
from swiftlet.index.directory import DOCUMENTS_FILE
from swiftlet.index.documents.split import SplitBefore, SplitDocument, stored_documents
from swiftlet.index.vectors import open_index
from swiftlet.manifest import Manifest
from swiftlet.types import Embeddings

_BLOCK_ROWS = 16_384
_BLOCK_CHANGES = 1_024


class Contents(SplitBefore):
    """The documents of a base that no change up to `last` touches, and then the changed ones."""

    def __init__(self, index: Path, manifest: Manifest, last: int) -> None:
        self._base, self._last = index, last
        self._changes = Changes(index, manifest)
        self._index = open_index(index, manifest.details)
        self._kept = bytearray()

    def documents(self) -> Iterator[SplitDocument]:
        """All documents in order."""
        touched = {change.document_id for change in self._changes.newest(self._last)}
        self._kept.clear()
        for document in stored_documents(self._base / DOCUMENTS_FILE):
            kept = document.document_id not in touched
            self._kept += bytes([kept]) * len(document.passages)
            if kept:
                yield document
        for change in self._changes.newest(self._last):
            if (new := change.document) is not None:
                fields = new.document_id, new.text, new.title, new.metadata, new.sections
                yield SplitDocument(*fields, change.passages)

    def embeddings(self) -> Iterator[Embeddings]:
        """The embeddings (n, width) of all passages in order, in blocks; after `documents`."""
        rows = np.flatnonzero(np.frombuffer(self._kept, dtype=bool))
        for start in range(0, len(rows), _BLOCK_ROWS):
            yield self._index.embeddings(rows[start : start + _BLOCK_ROWS])
        changes = self._changes.newest(self._last)
        while block := [*islice(changes, _BLOCK_CHANGES)]:
            yield np.concatenate([change.embeddings for change in block])
        self._changes.close()
