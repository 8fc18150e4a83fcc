"""Embeddings of a corpus: made on all cores, or kept from an interrupted build or an index."""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swiftlet import disk
from swiftlet.encoders.encoder import ModelEncoder
from swiftlet.encoders.encoding import encode_batches
from swiftlet.encoders.function import known_as, remembered
from swiftlet.encoders.tokenizer import MOST_WORDS_OF_CORPUS
from swiftlet.errors import ArtefactError, InvalidArgumentError
from swiftlet.index.building.settings import BuildSettings
from swiftlet.index.contents import Contents
from swiftlet.index.document_encoder import WEIGHT
from swiftlet.index.documents.passages import read_texts
from swiftlet.index.documents.writer import Hashes, StoredCorpus, hash_of
from swiftlet.index.vectors.embeddings_file import EmbeddingsFile
from swiftlet.manifest import load_manifest
from swiftlet.processors import available_processors
from swiftlet.progress import Progress, Silence
from swiftlet.types import Document, Embeddings

_STATE_FILE, _HASHES_FILE, _EARLIER_FILE = "build.json", "hashes.u64", "earlier.f32"
_BLOCK_ROWS = 32


class NewCorpus:
    """Documents that are to be split and encoded, with the details of both for a manifest."""

    def __init__(
        self,
        documents: Iterable[Document],
        encoder: ModelEncoder,
        settings: BuildSettings,
        *,
        index: Path | None = None,
    ) -> None:
        """Take documents and their encoder.

        :param index: An index, whose embeddings are kept for the passages that are as before.
        :raises InvalidArgumentError: When a passage would have no tokens of its own.
        """
        self._documents, self._encoder, self._index = documents, encoder, index
        self._threads = settings.threads or available_processors()
        splitter = settings.splitter(encoder)
        encoder.tokenizer.most_words = MOST_WORDS_OF_CORPUS
        self.split = splitter.split
        vectors, weight = encoder.manifest.vectors, encoder.manifest.details.get("weight")
        self.details: dict[str, Any] = {
            "encoder": encoder.manifest.details.get("name", ""),
            "encoder_fingerprint": encoder.manifest.fingerprint,
            "precision": encoder.precision,
            "splitting": {
                "max_tokens": splitter.max_tokens,
                "overlap_tokens": splitter.overlap_tokens,
                "truncate": splitter.truncate,
                "headings": splitter.headings,
            },
            **({"vectors": vectors} if vectors > 1 else {}),
            **({} if weight is None else {WEIGHT: weight}),
            **remembered(encoder),
        }

    def documents(self) -> Iterable[Document]:
        """All documents in order."""
        return self._documents

    def embed(self, corpus: StoredCorpus, file: EmbeddingsFile, progress: Progress) -> None:
        """Complete `file`; an interrupted run may have left a part of it.

        If the run had the same encoder, its embeddings are kept for the passages that did not
        change. The embeddings of the index that is replaced are kept in the same way.

        :raises StorageError: When the file system refuses.
        """
        earlier = EmbeddingsFile(file.path.with_name(_EARLIER_FILE), file.width)
        hashes = self._resume(corpus, file, earlier, progress)
        if self._index is not None:
            with suppress(ArtefactError, InvalidArgumentError):
                hashes = np.concatenate([hashes, _copied(self._index, earlier, self._encoder)])
        first, total = len(file), corpus.num_passages
        texts = corpus.encoder_texts(first)
        if len(hashes):
            rows = _found(hashes, corpus.hashes[first:])
            same = np.count_nonzero(rows >= 0)
            progress.note(
                f"{same:,} of {total - first:,} passages are as before: their embeddings are kept"
            )
            batches = self._completed(rows, earlier.rows(), texts)
        else:
            batches = encode_batches(self._encoder, texts, self._threads)
        disk.remove(earlier.path, missing_ok=True)  # the mapped rows stay
        file.append(batches, progress, "Encoding passages", total)

    def _resume(
        self,
        corpus: StoredCorpus,
        file: EmbeddingsFile,
        earlier: EmbeddingsFile,
        progress: Progress,
    ) -> Hashes:
        """Move the embeddings of a run of another corpus to `earlier`; the hashes of their texts.

        Those of the same corpus stay in `file`.
        """
        disk.remove(earlier.path, missing_ok=True)
        hashes: Hashes = np.empty(0, np.uint64)
        places = file.path.with_name(_STATE_FILE), file.path.with_name(_HASHES_FILE)
        interrupted = _read_state(places[0])
        encoder = known_as(self._encoder, interrupted)
        state = {
            "content": corpus.content_sha256,
            "encoder": encoder.manifest.fingerprint,
            "precision": encoder.precision,
            **remembered(encoder),
        }
        if interrupted == state:
            return hashes
        if interrupted == {**state, "content": interrupted.get("content")}:
            with suppress(OSError):
                hashes = np.fromfile(places[1], np.uint64)[: len(file)]
        if len(hashes) < len(file):
            progress.note(
                "an interrupted build by another encoder or version is discarded "
                f"({len(file):,} embeddings)"
            )
            hashes = hashes[:0]
        elif len(file):
            disk.rename(file.path, earlier.path)
        disk.remove(file.path, missing_ok=True)
        disk.write(places[1], corpus.hashes.data)
        disk.write(places[0], json.dumps(state))
        return hashes

    def _completed(
        self, rows: NDArray[np.int64], earlier: Embeddings, texts: Iterator[str]
    ) -> Iterator[Embeddings]:
        """The embeddings at `rows` of `earlier`, in blocks; for the row -1, its text is encoded."""
        encoded = chain.from_iterable(
            encode_batches(self._encoder, compress(texts, rows < 0), self._threads)
        )
        for start in range(0, len(rows), _BLOCK_ROWS):
            taken = rows[start : start + _BLOCK_ROWS]
            block = earlier[taken]
            for place in np.flatnonzero(taken < 0):
                block[place] = next(encoded)
            yield block


def _found(hashes: Hashes, wanted: Hashes) -> NDArray[np.int64]:
    """The row of each wanted hash among `hashes`, or -1."""
    order = np.argsort(hashes, kind="stable")
    places = np.minimum(np.searchsorted(hashes[order], wanted), len(hashes) - 1)
    rows: NDArray[np.int64] = order[places]
    return np.where(hashes[rows] == wanted, rows, -1)


def _copied(index: Path, file: EmbeddingsFile, encoder: ModelEncoder) -> Hashes:
    """The hashes of the texts of an index, whose embeddings are appended to the file.

    The embeddings are as precise as the index keeps them.

    :raises ArtefactError: When the index is damaged.
    :raises InvalidArgumentError: When its engine does not keep embeddings.
    """
    manifest = load_manifest(index, "index")
    made_by = manifest.details["encoder_fingerprint"], manifest.details["precision"]
    encoder = known_as(encoder, manifest.details)
    if made_by != (encoder.manifest.fingerprint, encoder.precision):
        return np.empty(0, np.uint64)
    contents = Contents(index, manifest)
    hashes = [
        hash_of(text)
        for document in contents.documents()
        for text in read_texts(document, document.passages, manifest.details)
    ]
    if hashes:
        file.append(contents.embeddings(), Silence(), "", len(hashes))
    return np.array(hashes, np.uint64)


def _read_state(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_bytes()))
    except (OSError, TypeError, ValueError):
        return {}
