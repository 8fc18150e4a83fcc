"""The documents of a server's index, which a pull reads."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import IO

import numpy as np
from typing_extensions import override

from swiftlet.index.contents import EncodedCorpus
from swiftlet.index.documents.split import SplitDocument
from swiftlet.manifest import Manifest
from swiftlet.types import Embeddings

_OF_CORPUS = {"encoder", "encoder_fingerprint", "encoder_place", "precision", "splitting"}
_BLOCK_ROWS = 16_384


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

    @override
    def documents(self) -> Iterator[SplitDocument]:
        self._embeddings.seek(0)
        self._embeddings.truncate()
        for document, embeddings in self.pulled():
            self._embeddings.write(embeddings.tobytes())
            yield document

    @override
    def embeddings(self) -> Iterator[Embeddings]:
        self._embeddings.flush()
        self._embeddings.seek(0)
        while content := self._embeddings.read(_BLOCK_ROWS * self.manifest.dim * 4):
            yield np.frombuffer(content, np.float32).reshape(-1, self.manifest.dim)
