"""Index directories of vectors that were made elsewhere, by any metric and without an encoder."""

import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from swiftlet.index.vectors.dense_scale import measured_scale
from swiftlet.index.vectors.faiss_index import FaissIndex
from swiftlet.manifest import describe_files, read_manifest, write_manifest
from swiftlet.types import Embeddings


def with_vectors(
    index: Path,
    out: Path,
    vectors: Embeddings,
    *,
    metric: str = "inner_product",
    normalised: bool = False,
    factory: str = "Flat",
) -> Path:
    """A copy of an index with these vectors (n, dim) for its n passages, and without an encoder."""
    shutil.copytree(index, out)
    made = FaissIndex.create(factory, vectors.shape[1], metric)
    made.train(vectors)
    made.add(np.ascontiguousarray(vectors, np.float32))
    made.save(out / made.file_name)
    manifest = read_manifest(out)
    details = {
        **manifest.details,
        "encoder": "",
        "encoder_fingerprint": "",
        "factory": factory,
        "search_effort": asdict(made.parameters),
    }
    if metric == "l2" or not normalised:
        details["dense_scale"] = measured_scale(vectors)
    changed = replace(
        manifest,
        dim=made.dim,
        metric=metric,
        normalised=normalised,
        embedding_space=f"vectors-{made.dim}",
        details=details,
        files={**manifest.files, **describe_files(out, [made.file_name])},
    )
    write_manifest(out, changed)
    return out
