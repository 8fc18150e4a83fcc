"""A fixed scale for scores that are no cosines, so that they can be fused with scores of words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from swiftlet.manifest import L2, METRIC, Manifest
from swiftlet.types import Embeddings

_MEASURED_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class DenseScale:
    """Makes of a score what would be a cosine if all passages had the same length.

    It is of the length of passages, and of the query's own. So it does not depend on which passages
    were found, and keeps their order. docs/results/metrics.md has the measurements that chose it.
    """

    metric: str
    squared: float
    """The mean squared length of the passages' embeddings."""

    length: float
    """Their mean length."""

    def of(self, scores: Embeddings, query: Embeddings) -> Embeddings:
        """The scores (n,) for a query's embedding (dim,), on the scale of cosines."""
        length = float(np.linalg.norm(query)) or 1.0
        if self.metric == L2:
            return (scores + np.float32(length**2 + self.squared)) / np.float32(
                2 * length * self.length
            )
        return scores / np.float32(length * self.length)

    def zero(self, query: Embeddings) -> float:
        """The score for a query's embedding (dim,) that is 0 on the scale of cosines."""
        return -(float(np.linalg.norm(query)) ** 2 + self.squared) if self.metric == L2 else 0.0


def dense_scale_of(manifest: Manifest) -> DenseScale | None:
    """The scale of an index, or None if its scores are cosines."""
    if manifest.normalised and manifest.metric == METRIC:
        return None
    details: Mapping[str, Any] = manifest.details
    return DenseScale(manifest.metric, *details.get("dense_scale", (1.0, 1.0)))


def measured_scale(embeddings: Embeddings) -> list[float]:
    """The detail `dense_scale` of an index with these embeddings (n, dim)."""
    some = np.asarray(embeddings[:: len(embeddings) // _MEASURED_ROWS + 1], np.float64)
    squares = np.einsum("ij,ij->i", some, some)
    return [float(squares.mean()), float(np.sqrt(squares).mean())]
