"""Whether an encoder is of an index's space: by its name, or by trying it on the index's texts."""

from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from swiftlet.encoders.encoder import ModelEncoder
from swiftlet.encoders.function import FunctionEncoder
from swiftlet.errors import EmbeddingSpaceMismatch
from swiftlet.index.documents.store import DOCUMENTS_FILE, DocumentStore
from swiftlet.index.space_sample import SPACE_FILE, space_sample
from swiftlet.index.vectors import open_index
from swiftlet.manifest import Manifest, check_embedding_space
from swiftlet.types import Embeddings

MEAN_COSINE, LEAST_COSINE = 0.99, 0.95
"""An encoder is of a space if the cosines of its embeddings with an index's are at least these.

An int8 model reaches them; wrong poolings and shorter texts do not (docs/results/acceptance.md).
"""

_SAMPLE, _SPREAD, _LONGEST = 256, 16, 16
_NEARLY = 0.8


def of_index(encoder: ModelEncoder, index: Path | None, manifest: Manifest) -> ModelEncoder:
    """The encoder as an index knows it: by the name of then, and with lengths where they count.

    An encoder that is neither is tried on a sample of the index's passages: if it reproduces their
    embeddings, its `embedding_space` becomes the one of the index.

    :param index: The directory; None if a server holds the index, which has no sample.
    :raises EmbeddingSpaceMismatch: When it does not reproduce them, or has another dimension.
    """
    if isinstance(encoder, FunctionEncoder):
        encoder = encoder.known_as(manifest.details)
        encoder.normalises = manifest.normalised
    name = f"the encoder {encoder.manifest.details.get('name', '')!r}"
    if encoder.embedding_space == manifest.embedding_space or encoder.manifest.vectors > 1:
        return encoder
    texts, expected = list[str](), np.empty((0, 0), np.float32)
    if index is not None and encoder.dim == manifest.dim and manifest.vectors == 1:
        texts, expected = _sample(index, manifest)
    if not texts:
        check_embedding_space(name, encoder.embedding_space, encoder.dim, manifest)
    by = manifest.details.get("encoder", "")
    made_by = f" (by the encoder {by!r})" if by else ""  # of adopted vectors it is not known
    check_reproduces(encoder, texts, expected, f"the index{made_by}")
    encoder = encoder.reading("query")
    encoder.embedding_space = manifest.embedding_space
    return encoder


def check_reproduces(
    encoder: ModelEncoder, texts: list[str], expected: Embeddings, made_by: str
) -> None:
    """Refuse an encoder whose embeddings of passages are not those that are `expected` (n, dim).

    :param made_by: What has the passages, as a message calls it.
    :raises EmbeddingSpaceMismatch: When their cosines are too small.
    """
    found = encoder.reading("passage").encode(texts)
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
    cosines = np.einsum("ij,ij->i", found, expected) / lengths
    # `not >=`: NaN is refused, too.
    if not (cosines.mean() >= MEAN_COSINE and cosines.min() >= LEAST_COSINE):
        raise EmbeddingSpaceMismatch(
            f"the encoder {encoder.manifest.details.get('name', '')!r} is not of the embedding "
            f"space of {made_by}: of {len(texts)} passages, its embeddings and those that "
            f"are there have a mean cosine of {cosines.mean():.3f}, where {MEAN_COSINE} is "
            f"expected, and a lowest one of {cosines.min():.3f}, where {LEAST_COSINE} is expected; "
            f"{_reason(cosines, texts)}"
        )


def _reason(cosines: NDArray[np.float32], texts: list[str]) -> str:
    """What is likely wrong with an encoder that does not reproduce the passages' embeddings."""
    order = np.argsort([len(text) for text in texts])
    short = cosines[order[: len(order) // 2]].mean()
    if short >= MEAN_COSINE:
        return "only long passages differ: it reads more or fewer of their tokens (max_tokens)"
    if cosines.mean() >= _NEARLY:
        return (
            "it is near: perhaps the prompt before passages is missing or another one, or it reads "
            "fewer tokens, is of a coarser precision, or was trained for the queries of this space"
        )
    return "it is another model, or pools its tokens in another way"


def _sample(index: Path, manifest: Manifest) -> tuple[list[str], Embeddings]:
    """Texts (n) of passages with their vectors (n, dim): spread over the index, and long ones."""
    if SPACE_FILE in manifest.files:
        texts, vectors = space_sample(index)
    else:
        total = manifest.details.get("num_passages", 0)
        rows = np.unique(np.linspace(0, max(0, total - 1), min(total, _SAMPLE)).astype(np.int64))
        with closing(DocumentStore(index / DOCUMENTS_FILE)) as store:
            found = store.passages(rows.tolist())
        texts = [each.read(manifest.details) for each in found]
        vectors = open_index(index, manifest).embeddings(rows)
    return some_of(texts, vectors)


def some_of(texts: list[str], vectors: Embeddings) -> tuple[list[str], Embeddings]:
    """Some of the texts (n) with their vectors (n, dim): spread over all, and the longest ones."""
    spread = np.linspace(0, len(texts) - 1, min(len(texts), _SPREAD)).astype(np.int64)
    longest = np.argsort([-len(text) for text in texts], kind="stable")[:_LONGEST]
    taken = np.unique(np.concatenate([spread, longest])) if texts else spread[:0]
    kept = [row for row in taken.tolist() if texts[row].strip()]
    return [texts[row] for row in kept], np.asarray(vectors)[kept]
