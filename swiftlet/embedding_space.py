"""Checks that embeddings are of one embedding space."""

from swiftlet.errors import EmbeddingSpaceMismatch
from swiftlet.manifest import Manifest


def check_embedding_spaces(encoder: Manifest, index: Manifest) -> None:
    """Refuse an encoder of another embedding space: its results would be random.

    :raises EmbeddingSpaceMismatch: When their embedding spaces or dimensions differ, or the encoder
        gives a text several vectors.
    """
    name = f"the query encoder {encoder.details.get('name', '')!r}"
    if encoder.vectors > 1:
        raise EmbeddingSpaceMismatch(
            f"{name} gives a text {encoder.vectors} vectors, which is for documents; a query has "
            "one: name the query encoder that was trained with it"
        )
    check_embedding_space(name, encoder.embedding_space, encoder.dim, index)


def check_embedding_space(name: str, embedding_space: str, dim: int, index: Manifest) -> None:
    """Refuse another embedding space than the index has; `name` is the subject of the error.

    :raises EmbeddingSpaceMismatch: When the embedding spaces or the dimensions differ.
    """
    if (embedding_space, dim) != (index.embedding_space, index.dim):
        raise EmbeddingSpaceMismatch(
            f"{name} is of the embedding space {embedding_space[:12]} with {dim} dimensions, but "
            f"the documents are in {index.embedding_space[:12]} with {index.dim} (by the encoder "
            f"{index.details.get('encoder', index.details.get('name', ''))!r}): name one that is "
            "trained for this space"
        )
