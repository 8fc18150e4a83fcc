"""A sample of an index's vectors, which tells the space of vectors that were made elsewhere.

It is a file of the index: passage numbers and exact vectors. An encoder that reproduces the vectors
of these passages is of the index's space.
"""

from collections.abc import Iterable, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import numpy as np

from swiftlet.disk import save_array
from swiftlet.index.documents.store import DOCUMENTS_FILE, DocumentStore
from swiftlet.index.vectors.saved_array import read_array
from swiftlet.index.vectors.vector_index import Mask, Rows
from swiftlet.manifest import load_manifest
from swiftlet.types import Embeddings

SPACE_FILE = "space.npy"
SAMPLE_ROWS = 256
_FEWEST_ROWS = 64


def sampled_rows(has_text: Mask) -> Rows:
    """The rows of a sample: evenly spaced, of passages with a text if there are any."""
    rows = np.flatnonzero(has_text if has_text.any() else np.ones(len(has_text), np.bool))
    return rows[np.unique(np.linspace(0, len(rows) - 1, SAMPLE_ROWS).astype(np.int64))]


def space_of(vectors: Embeddings) -> str:
    """The embedding space of vectors that were made elsewhere, by a sample (n, dim) of them."""
    return f"vectors-{sha256(np.ascontiguousarray(vectors, '<f4').tobytes()).hexdigest()}"


def write_sample(directory: Path, rows: Rows, vectors: Embeddings) -> Sequence[str]:
    """Write a sample (n, dim) into an index directory; the names of its files.

    :raises StorageError: When the file system refuses.
    """
    sample = np.empty(len(rows), _fields(vectors.shape[1]))
    sample["row"], sample["embedding"] = rows, vectors
    save_array(directory / SPACE_FILE, sample)
    return [SPACE_FILE]


def merged_sample(
    index: Path, directory: Path, kept: Mask, texts: Iterable[str], vectors: Embeddings
) -> Sequence[str]:
    """Write the sample of `index` for its merged base `directory`; the names of its files.

    Rows that are gone are left out. When few are left, rows of the new base take their place, with
    vectors as precise as the index keeps them.

    :param kept: Which rows of `index` the new base begins with.
    :param texts: Those of the passages of the new base; read only if rows are missing.
    :param vectors: Those of the new base (n, dim).
    """
    rows, exact = read_sample(index, len(kept), vectors.shape[1])
    stay = kept[rows]
    rows, exact = (np.cumsum(kept) - 1)[rows[stay]], exact[stay]
    if len(rows) < min(_FEWEST_ROWS, len(vectors)):
        rows = sampled_rows(np.array([bool(text.strip()) for text in texts], np.bool))
        exact = np.asarray(vectors[rows])
    return write_sample(directory, rows, exact)


def read_sample(index: Path, passages: int, dim: int) -> tuple[Rows, Embeddings]:
    """The passage numbers (n,) and the vectors (n, dim) of an index's sample.

    :param passages: How many the index has.
    :raises CorruptIndexError: When the file is none.
    """
    sample = read_array(index / SPACE_FILE, _fields(dim), passages)
    return sample["row"], np.ascontiguousarray(sample["embedding"])


def space_sample(index: Path) -> tuple[list[str], Embeddings]:
    """Texts of passages (n), as a document encoder reads them, and their exact vectors (n, dim).

    There are none where the index has no such sample, since an encoder is known, or no texts.

    :raises ArtefactError: When the index is damaged.
    """
    manifest = load_manifest(index, "index")
    if SPACE_FILE not in manifest.files:
        return [], np.empty((0, manifest.width), np.float32)
    with closing(DocumentStore(index / DOCUMENTS_FILE)) as store:
        rows, vectors = read_sample(index, store.num_passages, manifest.width)
        found = store.passages(rows.tolist())
    texts = [each.read(manifest.details) for each in found]
    filled = np.array([bool(text.strip()) for text in texts], np.bool)
    return [text for text in texts if text.strip()], vectors[filled]


def _fields(dim: int) -> np.dtype[np.void]:
    return np.dtype([("row", "<i8"), ("embedding", "<f4", (dim,))])
