"""Points of the unit sphere in clusters, as embeddings of a language are."""

import numpy as np

from swiftlet.types import Embeddings

DIM = 32


def clustered(count: int, seed: int, num_clusters: int = 40, noise: float = 0.6) -> Embeddings:
    centres = np.random.default_rng(0).normal(size=(num_clusters, DIM))
    random = np.random.default_rng(seed)
    members = centres[random.integers(num_clusters, size=count)]
    points = members + noise * random.normal(size=(count, DIM))
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
