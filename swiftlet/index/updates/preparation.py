"""Documents to changes of an index: split into passages, and encoded."""

from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import numpy as np

from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.encoders.encoding import encode_texts
from swiftlet.index.changes.log import Change
from swiftlet.index.document_encoder import load_document_encoder
from swiftlet.index.documents.passages import PassageSplitter, encoder_text
from swiftlet.manifest import Manifest
from swiftlet.types import Document


class Preparation:
    """Prepares documents for an index, with its document encoder. Thread-safe."""

    def __init__(self, encoder_directory: Path | None, threads: int | None = None) -> None:
        """Encode with `threads` threads (default: all cores); the encoder is loaded when needed.

        Without an encoder directory, it is the one that the index remembers.
        """
        self._directory, self._threads = encoder_directory, threads
        self._encoder: OnnxEncoder | None = None
        self._loaded_for: object = None
        self._loading = Lock()

    def changes(self, documents: Sequence[Document], manifest: Manifest) -> list[Change]:
        """Changes without numbers that put `documents` into the index of `manifest`.

        :raises ArtefactError: As `encoder`.
        """
        encoder = self.encoder(manifest)
        splitter = PassageSplitter(
            encoder.tokenizer, **manifest.details["splitting"], prompt=encoder.prompt
        )
        split = [[*splitter.split(document)] for document in documents]
        texts = [
            encoder_text(document.title, passage.text)
            for document, passages in zip(documents, split, strict=True)
            for passage in passages
        ]
        embeddings = encode_texts(encoder, texts, self._threads)
        ends = np.cumsum([len(passages) for passages in split])[:-1]
        return [
            Change(0, document.document_id, document, tuple((p.start, p.end) for p in found), rows)
            for document, found, rows in zip(
                documents, split, np.split(embeddings, ends), strict=True
            )
        ]

    def encoder(self, manifest: Manifest) -> OnnxEncoder:
        """The document encoder of the index of `manifest`.

        :raises ArtefactError: When the encoder is damaged, or is another one.
        """
        wanted = encoder_details(manifest)
        with self._loading:
            if self._encoder is None or self._loaded_for != wanted:
                self._encoder = load_document_encoder(manifest.details, self._directory)
                self._loaded_for = wanted
            return self._encoder


def encoder_details(manifest: Manifest) -> tuple[object, ...]:
    """What embeddings depend on: embeddings with equal details fit together."""
    details = manifest.details
    return details["encoder_fingerprint"], details["precision"], details["splitting"]
