"""Encodes passages on all cores into a file from which an interrupted build resumes."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from swiftlet.indexing.document_writer import StoredCorpus
from swiftlet.indexing.earlier import earlier_embeddings
from swiftlet.indexing.embeddings_file import EmbeddingsFile
from swiftlet.indexing.progress import Progress
from swiftlet.retrieval.encoder import OnnxEncoder
from swiftlet.retrieval.encoding import encode_batches
from swiftlet.retrieval.types import Embeddings

_STATE_FILE, _EARLIER_FILE = "build.json", "earlier.f32"


def encode_corpus(
    corpus: StoredCorpus,
    file: EmbeddingsFile,
    progress: Progress,
    *,
    encoder: OnnxEncoder,
    threads: int,
    index: Path | None = None,
) -> None:
    """Complete `file`; an earlier run with the same texts and encoder may have left a part of it.

    :param index: An index. If the same encoder made it, passages that did not change keep their
        embeddings from it.
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
    first, total = len(file), corpus.num_passages
    copied = EmbeddingsFile(file.path.with_name(_EARLIER_FILE), encoder.width)
    earlier = None if index is None else earlier_embeddings(index, encoder, copied)
    if earlier is None:
        batches = encode_batches(encoder, corpus.encoder_texts(first), threads)
    else:
        same, batches = earlier.complete(corpus, first, encoder, threads)
        progress.note(
            f"{same:,} of {total - first:,} passages are as in {index}: their embeddings are kept"
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


def _read_state(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
