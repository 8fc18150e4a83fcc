"""The documents of a collection of a Milvus server, to be pulled."""

from collections.abc import Iterator
from typing import IO

import numpy as np

from swiftlet.address import Address
from swiftlet.errors import ChangedMeanwhileError
from swiftlet.index.documents.split import SplitDocument
from swiftlet.servers.corpus import ServerCorpus
from swiftlet.servers.milvus.collection import Collection, manifest_of
from swiftlet.servers.milvus.expressions import with_values
from swiftlet.servers.milvus.filter_fields import FilterFields
from swiftlet.servers.milvus.parts import read_documents
from swiftlet.servers.milvus.schema import DOCUMENT_ID, EMBEDDING, END, NUMBER, START
from swiftlet.types import Embeddings

_BATCH_DOCUMENTS = 100
_ATTEMPTS = 5


class MilvusCorpus(ServerCorpus):
    """The documents of a collection."""

    def __init__(self, address: Address, embeddings: IO[bytes]) -> None:
        """Connect to the server; `embeddings` is an empty file.

        :raises RetrievalError: When the server or the collection is bad.
        """
        self._collection = Collection(address)
        super().__init__(manifest_of(self._collection.description(), address), embeddings)
        self._collection.call("load_collection", slow=True)

    def facets(self) -> tuple[str, ...]:
        """As `ServerCorpus.facets`."""
        fields = FilterFields.of(self._collection.description()["properties"])
        declared = self.manifest.details.get("facets", ())
        return tuple(each for each in declared if self._collection.has(with_values(each, fields)))

    def pulled(self) -> Iterator[tuple[SplitDocument, Embeddings]]:
        """As `ServerCorpus.pulled`."""
        for page in self._collection.pages(f"{NUMBER} == 0", [DOCUMENT_ID]):
            ids = [row[DOCUMENT_ID] for row in page]
            for start in range(0, len(ids), _BATCH_DOCUMENTS):
                yield from self._read(ids[start : start + _BATCH_DOCUMENTS])

    def _read(self, document_ids: list[str]) -> Iterator[tuple[SplitDocument, Embeddings]]:
        for attempt in range(_ATTEMPTS):
            try:
                found = read_documents(self._collection, document_ids, [EMBEDDING])
                break
            except ChangedMeanwhileError:
                if attempt == _ATTEMPTS - 1:
                    raise
        for document, rows in found.values():
            spans = tuple((row[START], row[END]) for row in rows)
            fields = (
                document.document_id, document.text, document.title, document.metadata,
                document.sections,
            )  # fmt: skip
            embeddings = np.array([row[EMBEDDING] for row in rows], np.float32)
            yield SplitDocument(*fields, spans), embeddings
