"""Encodes passages on all cores into a file from which an interrupted build resumes."""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from swiftlet.indexing.document_writer import StoredCorpus
from swiftlet.indexing.progress import Progress
from swiftlet.retrieval.encoder import Encoder, OnnxEncoder
from swiftlet.retrieval.encoding import encode_batches
from swiftlet.retrieval.publication import storage_errors
from swiftlet.retrieval.types import Embeddings

_BATCHES_PER_FLUSH = 16
_STATE_FILE = "build.json"


class EmbeddingsFile:
    """Embeddings (n, width) as raw little-endian float32 rows, appended in order."""

    def __init__(self, path: Path, width: int) -> None:
        self.path = path
        self.width = width

    def __len__(self) -> int:
        """The number of complete rows in the file."""
        try:
            return self.path.stat().st_size // (4 * self.width)
        except FileNotFoundError:
            return 0

    def append(self, batches: Iterable[Embeddings]) -> Iterator[int]:
        """Append each batch (n, width), and yield its number of rows.

        :raises StorageError: When the file system refuses.
        """
        with storage_errors(self.path), self.path.open("ab") as file:
            file.truncate(len(self) * 4 * self.width)
            for number, batch in enumerate(batches, start=1):
                file.write(batch.astype("<f4", copy=False).tobytes())
                if number % _BATCHES_PER_FLUSH == 0:
                    file.flush()
                    os.fsync(file.fileno())
                yield len(batch)

    def rows(self) -> Embeddings:
        """All embeddings (n, width), mapped from the file."""
        return np.memmap(self.path, dtype="<f4", mode="r", shape=(len(self), self.width))


def encode_to_file(
    encoder: Encoder,
    texts: Iterable[str],
    file: EmbeddingsFile,
    *,
    total: int,
    threads: int,
    progress: Progress,
) -> None:
    """Append the embeddings of `texts`, which the file does not have yet, up to `total` rows.

    :raises StorageError: When the file system refuses.
    """
    progress.begin("Encoding passages", total, done=len(file))
    for count in file.append(encode_batches(encoder, texts, threads)):
        progress.advance(count)


def encode_corpus(
    corpus: StoredCorpus,
    file: EmbeddingsFile,
    progress: Progress,
    *,
    encoder: OnnxEncoder,
    threads: int,
) -> None:
    """Complete `file`; an earlier run with the same texts and encoder may have left a part of it.

    :raises StorageError: When the file system refuses.
    """
    state = {
        "content": corpus.content_sha256,
        "encoder": encoder.manifest.fingerprint,
        "precision": encoder.precision,
    }
    state_path = file.path.with_name(_STATE_FILE)
    if _read_state(state_path) != state:
        if len(file):
            progress.note(
                "an interrupted build of another corpus, splitting or encoder is discarded "
                f"({len(file):,} embeddings)"
            )
        file.path.unlink(missing_ok=True)
        state_path.write_text(json.dumps(state))
    encode_to_file(
        encoder,
        corpus.encoder_texts(first_row=len(file)),
        file,
        total=corpus.num_passages,
        threads=threads,
        progress=progress,
    )


def _read_state(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
