"""Writes the files of an exported model: graphs, canonical texts and the manifest."""

import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from swiftlet import disk
from swiftlet.encoders.encoder import Encoder, Precision
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.manifest import Manifest, describe_files, write_manifest

SENTENCES = (
    "swiftlet",
    "How do birds find their way in the dark?",
    "Les hirondelles, à l'été 1987, nichèrent près de Besançon : œufs, plumes et déjà l'automne.",
    "On 14 March 2021, 3,141 of 59,265 samples (5.3%) were positive; see table 2-b.",
    "def search(query: str, top_k: int = 10) -> list[Hit]: return sorted(hits)[:top_k]",
)
DECIMALS = 6
_SENTENCE = (
    "Swiftlets nest in caves so dark that eyes are of no use, and find their place on the wall by "
    "the echo of their own clicks. "
)


def write_artefact(
    directory: Path,
    files: Mapping[str, bytes],
    *,
    kind: str,
    dim: int,
    embedding_space: str,
    details: Mapping[str, Any],
) -> Manifest:
    """Write `files` (name -> content) into an empty directory, and then its manifest.

    :raises StorageError: When the file system refuses.
    """
    for name, content in files.items():
        disk.write(directory / name, content)
    manifest = Manifest(
        kind=kind,
        dim=dim,
        embedding_space=embedding_space,
        files=describe_files(directory, [*files]),
        created_by=f"swiftlet {version('swiftlet-retrieval')}",
        details=details,
    )
    write_manifest(directory, manifest)
    return manifest


def canonical_texts(tokenizer: Tokenizer) -> list[str]:
    """A word, a question, accents, digits, code, and a text longer than the encoder reads."""
    repetitions = 2 + tokenizer.max_tokens // tokenizer.count(_SENTENCE)
    return [*SENTENCES, (_SENTENCE * repetitions).strip()]


def canonical_json(texts: list[str], encoders: Mapping[Precision, Encoder]) -> bytes:
    """The file of `texts` and their embeddings by each of `encoders`."""
    embeddings = {
        precision: [
            [round(float(value), DECIMALS) for value in row] for row in encoder.encode(texts)
        ]
        for precision, encoder in encoders.items()
    }
    content = {"texts": texts, "embeddings": embeddings}
    return (json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n").encode()
