"""Lengths of vectors that were made elsewhere."""

import numpy as np

from swiftlet.index.vectors.vector_index import Mask
from swiftlet.types import Embeddings

_UNIT = 1e-5
"""A vector whose length is as near to 1 is normalised, and stays as it is to the last bit."""


def stretched(vectors: Embeddings, most: float = _UNIT) -> Mask:
    """Which vectors (n, dim) have lengths that differ from 1 by more than `most`."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    found: Mask = np.abs(lengths - 1) > most
    return found


def comparable(vectors: Embeddings, *, normalised: bool) -> Embeddings:
    """Vectors (n, dim) other than zero, with the length 1 if an index wants them `normalised`."""
    if not normalised or not (long := stretched(vectors)).any():
        return vectors
    exact = vectors[long].astype(np.float64)
    exact /= np.abs(exact).max(axis=1, keepdims=True)  # else small numbers have squares of zero
    found = vectors.copy()
    found[long] = exact / np.linalg.norm(exact, axis=1, keepdims=True)
    return found
