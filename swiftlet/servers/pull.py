"""Makes an index directory of what a server has, without encoding anything again."""

from collections.abc import Iterator
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO

import numpy as np
from typing_extensions import override

from swiftlet.address import Address
from swiftlet.arguments import StrPath, address_of, path_of
from swiftlet.encoders.function import CANONICAL
from swiftlet.encoders.opening import EncoderSpec, encoder_place
from swiftlet.errors import InvalidArgumentError
from swiftlet.index.building.build import build_index
from swiftlet.index.building.settings import BuildSettings
from swiftlet.index.contents import EncodedCorpus
from swiftlet.index.documents.split import SplitDocument
from swiftlet.index.server import server_at
from swiftlet.manifest import Manifest
from swiftlet.progress import Progress
from swiftlet.types import Embeddings

_OF_CORPUS = {"encoder", "encoder_fingerprint", "encoder_place", "precision", "splitting"} | {
    CANONICAL
}
_BLOCK_ROWS = 16_384


@dataclass(frozen=True, slots=True)
class Pulled:
    """What a server has: all documents, each with the embeddings (n, dim) of its passages.

    A document has a value of each of the `facets`.
    """

    manifest: Manifest
    facets: tuple[str, ...]
    documents: Iterator[tuple[SplitDocument, Embeddings]]


def pull(
    address: str | Address,
    out: StrPath,
    encoder: EncoderSpec | None = None,
    *,
    overwrite: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Build the index directory `out` from an index on a server, without encoding.

    :param address: An address, as `swiftlet.open` takes it.
    :param encoder: The directory of the document encoder, which measures the recall of the index;
        None takes the one that the collection remembers.
    :param overwrite: Replace an existing index.
    :raises RetrievalError: When the server, the collection, the encoder or the storage is bad.
    """
    address, out = address_of("address", address), path_of("out", out)
    directory = encoder_place(encoder)
    read = server_at(address).corpus
    if read is None:
        raise InvalidArgumentError(f"indexes cannot be pulled from {address.server}")
    pulled: Pulled = read(address)
    language = pulled.manifest.details.get("language")
    settings = BuildSettings(language=language, facets=pulled.facets, threads=threads)
    with TemporaryFile() as file:
        corpus = _Corpus(pulled, file)
        return build_index(corpus, directory, out, settings, overwrite=overwrite, progress=progress)


class _Corpus(EncodedCorpus):
    """What is pulled, to be read once; a file keeps the embeddings meanwhile."""

    name = "the passages"

    def __init__(self, pulled: Pulled, file: IO[bytes]) -> None:
        self._pulled, self._file, details = pulled, file, pulled.manifest.details
        self.details = {name: value for name, value in details.items() if name in _OF_CORPUS}

    @override
    def documents(self) -> Iterator[SplitDocument]:
        for document, embeddings in self._pulled.documents:
            self._file.write(embeddings.tobytes())
            yield document

    @override
    def embeddings(self) -> Iterator[Embeddings]:
        dim = self._pulled.manifest.dim
        self._file.seek(0)
        while content := self._file.read(_BLOCK_ROWS * dim * 4):
            yield np.frombuffer(content, np.float32).reshape(-1, dim)
