"""Makes an index directory of what a server has, without encoding anything again."""

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import numpy as np

from swiftlet.address import Address
from swiftlet.index.building.build import build_index
from swiftlet.index.building.settings import BuildSettings
from swiftlet.index.contents import EncodedCorpus
from swiftlet.index.documents.split import SplitDocument
from swiftlet.manifest import Manifest
from swiftlet.progress import Progress
from swiftlet.servers.writing import corpus_at
from swiftlet.types import Embeddings

_OF_CORPUS = {"encoder", "encoder_fingerprint", "encoder_place", "precision", "splitting"}
_BLOCK_ROWS = 16_384


def pull(
    address: Address,
    out: Path,
    encoder: Path | None = None,
    *,
    overwrite: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """`swiftlet.pull`, whose arguments are checked.

    :raises RetrievalError: When the server, the collection, the encoder or the storage is bad.
    """
    corpus = corpus_at(address)
    with TemporaryFile() as file:
        pulled = corpus(address, file)
        settings = BuildSettings(
            language=pulled.manifest.details.get("language"),
            facets=pulled.facets(),
            threads=threads,
        )
        return build_index(pulled, encoder, out, settings, overwrite=overwrite, progress=progress)


class ServerCorpus(EncodedCorpus):
    """The documents of a collection; their embeddings are kept in a file meanwhile."""

    name = "the passages"

    def __init__(self, manifest: Manifest, embeddings: IO[bytes]) -> None:
        self.manifest, self._embeddings = manifest, embeddings
        self.details = {
            name: value for name, value in manifest.details.items() if name in _OF_CORPUS
        }

    @abstractmethod
    def facets(self) -> tuple[str, ...]:
        """Those that a document has a value of."""

    @abstractmethod
    def pulled(self) -> Iterator[tuple[SplitDocument, Embeddings]]:
        """All documents, each with the embeddings (n, dim) of its passages."""

    def documents(self) -> Iterator[SplitDocument]:
        """As `EncodedCorpus.documents`."""
        self._embeddings.seek(0)
        self._embeddings.truncate()
        for document, embeddings in self.pulled():
            self._embeddings.write(embeddings.tobytes())
            yield document

    def embeddings(self) -> Iterator[Embeddings]:
        """As `EncodedCorpus.embeddings`."""
        self._embeddings.flush()
        self._embeddings.seek(0)
        while content := self._embeddings.read(_BLOCK_ROWS * self.manifest.dim * 4):
            yield np.frombuffer(content, np.float32).reshape(-1, self.manifest.dim)
