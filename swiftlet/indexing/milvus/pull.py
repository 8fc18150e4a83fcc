"""Makes an index directory of a collection, without encoding anything again."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import numpy as np

from swiftlet.indexing.build import BuildSettings, build_index
from swiftlet.indexing.encoded import EncodedCorpus
from swiftlet.indexing.progress import Progress
from swiftlet.indexing.split_documents import SplitDocument
from swiftlet.retrieval.errors import ChangedMeanwhileError
from swiftlet.retrieval.manifest import Manifest
from swiftlet.retrieval.milvus.address import Address
from swiftlet.retrieval.milvus.collection import Collection, manifest_of
from swiftlet.retrieval.milvus.expressions import with_values
from swiftlet.retrieval.milvus.filter_fields import FilterFields
from swiftlet.retrieval.milvus.parts import read_documents
from swiftlet.retrieval.milvus.schema import DOCUMENT_ID, EMBEDDING, END, NUMBER, START
from swiftlet.retrieval.types import Embeddings

_OF_CORPUS = {"encoder", "encoder_fingerprint", "encoder_place", "precision", "splitting"}
_BATCH_DOCUMENTS = 100
_BLOCK_ROWS = 16_384
_ATTEMPTS = 5


def pull(
    address: Address,
    out: Path,
    encoder: Path | None = None,
    *,
    overwrite: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Build the index directory `out` from a collection.

    :param encoder: The directory of the document encoder, which measures the recall of the index;
        None takes the one that the collection remembers.
    :raises RetrievalError: When the server, the collection, the encoder or the storage is bad.
    """
    with TemporaryFile() as file:
        pulled = Pulled(address, file)
        settings = BuildSettings(
            language=pulled.manifest.details.get("language"),
            facets=pulled.facets(),
            threads=threads,
        )
        return build_index(pulled, encoder, out, settings, overwrite=overwrite, progress=progress)


class Pulled(EncodedCorpus):
    """The documents of a collection; their embeddings are kept in a file meanwhile."""

    name = "the passages"

    def __init__(self, address: Address, embeddings: IO[bytes]) -> None:
        """Connect to the server; `embeddings` is an empty file.

        :raises RetrievalError: When the server or the collection is bad.
        """
        self._collection, self._embeddings = Collection(address), embeddings
        self.manifest = manifest_of(self._collection.description(), address)
        details = self.manifest.details.items()
        self.details = {name: value for name, value in details if name in _OF_CORPUS}
        self._collection.call("load_collection", slow=True)

    def facets(self) -> tuple[str, ...]:
        """Those that a document has a value of."""
        fields = FilterFields.of(self._collection.description()["properties"])
        declared = self.manifest.details.get("facets", ())
        return tuple(each for each in declared if self._collection.has(with_values(each, fields)))

    def documents(self) -> Iterator[SplitDocument]:
        """As `EncodedCorpus.documents`."""
        self._embeddings.seek(0)
        self._embeddings.truncate()
        for page in self._collection.pages(f"{NUMBER} == 0", [DOCUMENT_ID]):
            ids = [row[DOCUMENT_ID] for row in page]
            for start in range(0, len(ids), _BATCH_DOCUMENTS):
                yield from self._read(ids[start : start + _BATCH_DOCUMENTS])

    def embeddings(self) -> Iterator[Embeddings]:
        """As `EncodedCorpus.embeddings`."""
        self._embeddings.flush()
        self._embeddings.seek(0)
        while content := self._embeddings.read(_BLOCK_ROWS * self.manifest.dim * 4):
            yield np.frombuffer(content, np.float32).reshape(-1, self.manifest.dim)

    def _read(self, document_ids: list[str]) -> Iterator[SplitDocument]:
        """The documents of a batch, and their embeddings into the file."""
        for attempt in range(_ATTEMPTS):
            try:
                found = read_documents(self._collection, document_ids, [EMBEDDING])
                break
            except ChangedMeanwhileError:
                if attempt == _ATTEMPTS - 1:
                    raise
        for document, rows in found.values():
            for row in rows:
                self._embeddings.write(np.array(row[EMBEDDING], np.float32).tobytes())
            spans = tuple((row[START], row[END]) for row in rows)
            fields = (
                document.document_id, document.text, document.title, document.metadata,
                document.sections,
            )  # fmt: skip
            yield SplitDocument(*fields, spans)
