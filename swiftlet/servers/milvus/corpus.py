"""The documents of a collection of a Milvus server, to be pulled."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import IO

import numpy as np
from typing_extensions import override

from swiftlet.address import Address
from swiftlet.errors import ChangedMeanwhileError
from swiftlet.index.documents.split import SplitDocument
from swiftlet.servers.corpus import ServerCorpus
from swiftlet.servers.milvus import schema
from swiftlet.servers.milvus.collection import Collection, manifest_of
from swiftlet.servers.milvus.expressions import with_values
from swiftlet.servers.milvus.filter_fields import FilterFields
from swiftlet.servers.milvus.rows import Row, read_documents
from swiftlet.types import Document, Embeddings

_BATCH_DOCUMENTS = 100
_ATTEMPTS = 5


class MilvusCorpus(ServerCorpus):
    """The documents of a collection."""

    def __init__(self, address: Address, embeddings: IO[bytes]) -> None:
        self._collection = Collection(address)
        super().__init__(manifest_of(self._collection.description(), address), embeddings)
        self._collection.call("load_collection", slow=True)

    @override
    def facets(self) -> tuple[str, ...]:
        fields = FilterFields.of(self._collection.description()["properties"])
        declared = self.manifest.details.get("facets", ())
        return tuple(each for each in declared if self._collection.has(with_values(each, fields)))

    @override
    def pulled(self) -> Iterator[tuple[SplitDocument, Embeddings]]:
        for page in self._collection.pages(f"{schema.NUMBER} == 0", [schema.DOCUMENT_ID]):
            ids = [row[schema.DOCUMENT_ID] for row in page]
            for start in range(0, len(ids), _BATCH_DOCUMENTS):
                for document, rows in self._read(ids[start : start + _BATCH_DOCUMENTS]):
                    spans = tuple((row[schema.START], row[schema.END]) for row in rows)
                    parts = document.text, document.title, document.metadata, document.sections
                    embeddings = np.array([row[schema.EMBEDDING] for row in rows], np.float32)
                    yield SplitDocument(document.document_id, *parts, spans), embeddings

    def _read(self, document_ids: list[str]) -> Iterable[tuple[Document, list[Row]]]:
        for _ in range(_ATTEMPTS - 1):
            with suppress(ChangedMeanwhileError):
                return read_documents(self._collection, document_ids, [schema.EMBEDDING]).values()
        return read_documents(self._collection, document_ids, [schema.EMBEDDING]).values()
