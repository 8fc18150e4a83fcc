"""Encodes passages on all cores into a file from which an interrupted build resumes."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.encoders.encoding import encode_batches
from swiftlet.index.building.earlier import Hashes, earlier_embeddings, hashes_of
from swiftlet.index.documents.writer import StoredCorpus
from swiftlet.index.vectors.embeddings_file import EmbeddingsFile
from swiftlet.progress import Progress
from swiftlet.types import Embeddings

_STATE_FILE, _HASHES_FILE, _EARLIER_FILE = "build.json", "hashes.u64", "earlier.f32"


def encode_corpus(
    corpus: StoredCorpus,
    file: EmbeddingsFile,
    progress: Progress,
    *,
    encoder: OnnxEncoder,
    threads: int,
    index: Path | None = None,
) -> None:
    """Complete `file`; an interrupted run may have left a part of it.

    If the run had the same encoder, its embeddings are kept for the passages that did not change.

    :param index: An index, whose embeddings are kept in the same way.
    :raises StorageError: When the file system refuses.
    """
    state = {
        "content": corpus.content_sha256,
        "encoder": encoder.manifest.fingerprint,
        "precision": encoder.precision,
    }
    folder = file.path.parent
    before = EmbeddingsFile(folder / _EARLIER_FILE, encoder.width)
    before.path.unlink(missing_ok=True)
    hashes: Hashes = np.empty(0, np.uint64)
    interrupted = _read_state(folder / _STATE_FILE)
    if interrupted != state:
        if interrupted == {**state, "content": interrupted.get("content")}:
            hashes = _read_hashes(folder / _HASHES_FILE)[: len(file)]
        if len(hashes) < len(file):
            progress.note(
                "an interrupted build by another encoder or version is discarded "
                f"({len(file):,} embeddings)"
            )
            hashes = hashes[:0]
        elif len(file):
            file.path.replace(before.path)
        file.path.unlink(missing_ok=True)
        hashes_of(corpus.encoder_texts()).tofile(folder / _HASHES_FILE)
        (folder / _STATE_FILE).write_text(json.dumps(state))
    first, total = len(file), corpus.num_passages
    earlier = earlier_embeddings(before, hashes, index, encoder)
    if earlier is None:
        batches = encode_batches(encoder, corpus.encoder_texts(first), threads)
    else:
        same, batches = earlier.complete(corpus, first, encoder, threads)
        progress.note(
            f"{same:,} of {total - first:,} passages are as before: their embeddings are kept"
        )
    append_all(batches, file, total=total, progress=progress)


def append_all(
    batches: Iterable[Embeddings], file: EmbeddingsFile, *, total: int, progress: Progress
) -> None:
    """Append the embeddings that the file does not have yet, up to `total` rows.

    :raises StorageError: When the file system refuses.
    """
    progress.begin("Encoding passages", total, done=len(file))
    for count in file.append(batches):
        progress.advance(count)


def _read_state(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_bytes()))
    except (OSError, TypeError, ValueError):
        return {}


def _read_hashes(path: Path) -> Hashes:
    try:
        return np.fromfile(path, np.uint64)
    except OSError:
        return np.empty(0, np.uint64)
