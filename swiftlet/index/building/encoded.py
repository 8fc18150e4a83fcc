"""Corpora that were split and encoded before."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.errors import ArtefactError
from swiftlet.index.document_encoder import document_encoder_of
from swiftlet.index.documents.split import SplitBefore, SplitDocument
from swiftlet.index.documents.writer import StoredCorpus
from swiftlet.index.vectors.embeddings_file import EmbeddingsFile
from swiftlet.progress import Progress
from swiftlet.types import Embeddings


class EncodedCorpus(SplitBefore, ABC):
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

    def copy_embeddings(
        self, corpus: StoredCorpus, file: EmbeddingsFile, progress: Progress
    ) -> None:
        """Write the embeddings of all passages of `corpus`, which has all `documents`, to `file`.

        :raises StorageError: When the file system refuses.
        """
        file.path.unlink(missing_ok=True)
        progress.begin("Copying embeddings", corpus.num_passages)
        for count in file.append(self.embeddings()):
            progress.advance(count)

    def load_encoder(self, directory: Path | None) -> OnnxEncoder:
        """The encoder in `directory`, which must be the one that encoded the corpus; None finds it.

        :raises ArtefactError: When it is another one, or damaged.
        """
        directory = directory or document_encoder_of(self.details)
        encoder = OnnxEncoder.load(directory, precision=self.details["precision"], role="passage")
        if encoder.manifest.fingerprint != self.details["encoder_fingerprint"]:
            raise ArtefactError(
                f"{self.name} were encoded by {self.details['encoder']!r}, and not by {directory}: "
                "name that encoder with --encoder (in Python encoder=)"
            )
        return encoder
