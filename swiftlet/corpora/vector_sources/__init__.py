"""Vectors that were made elsewhere: one module for each kind of place that has them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swiftlet.arguments import StrPath, path_of
from swiftlet.corpora.fields import Fields
from swiftlet.corpora.lines import COMPRESSED_SUFFIXES, read_errors
from swiftlet.corpora.rows import Corpus
from swiftlet.corpora.tables import ARROW, PARQUET, is_saved_dataset
from swiftlet.corpora.vector_sources.arrays import ARRAY_SUFFIXES, of_array, open_arrays
from swiftlet.corpora.vector_sources.columns import open_lines, open_table
from swiftlet.corpora.vector_sources.faiss_file import FAISS_SUFFIXES, is_faiss, open_faiss
from swiftlet.corpora.vector_sources.pairing import with_ids, with_texts
from swiftlet.corpora.vector_sources.source import Source
from swiftlet.errors import CollectionError

LINES = (".jsonl", ".ndjson")


def open_vectors(
    place: StrPath | NDArray[Any],
    *,
    texts: Corpus | None = None,
    fields: Fields | None = None,
    vector_field: str | None = None,
    ids: StrPath | Sequence[Any] | None = None,
) -> Source:
    """The vectors of a file, a folder or an address, and their rows.

    Every row has a field "id" or the fields that its table has; in an export of Swiftlet,
    "metadata" is read from JSON.

    :param texts: A corpus with the documents. They are paired by id where the rows have ids, and
        by their order where the vectors are alone.
    :param fields: Names of the fields of `texts`, or of the table itself if there are none.
    :param vector_field: The column with the vectors, if there are several.
    :param ids: A file with the id of each vector, one a line or an array of NumPy; or the ids.
    :raises CollectionError: When `place` is not recognised or damaged, or has no vectors.
    :raises MissingExtraError: When a package that reads it is not installed.
    """
    own_fields = fields if texts is None else None
    if isinstance(place, np.ndarray):
        source = of_array(place, "the array")
    else:
        source = _open(path_of("place", place), vector_field, own_fields)
    if ids is not None:
        is_path = not isinstance(ids, Sequence) or isinstance(ids, str)
        source = with_ids(source, path_of("ids", ids) if is_path else ids)  # type: ignore[arg-type]
    return source if texts is None else with_texts(source, texts, fields)


def _open(path: Path, vector_field: str | None, fields: Fields | None) -> Source:
    with read_errors(path):
        if not path.exists():
            raise CollectionError(path, "there is no such file or folder")
        is_folder = path.is_dir()
    suffixes = [suffix.lower() for suffix in path.suffixes]
    kept = [suffix for suffix in suffixes[-2:] if suffix not in COMPRESSED_SUFFIXES]
    suffix = kept[-1] if kept else ""
    if suffix in ARRAY_SUFFIXES:
        return open_arrays(path, vector_field)
    if suffix in (PARQUET, ARROW) or (is_folder and is_saved_dataset(path)):
        return open_table(path, vector_field, fields)
    if suffix in LINES:
        return open_lines(path, vector_field, fields)
    if not is_folder:
        with read_errors(path), path.open("rb") as file:
            if is_faiss(file.read(4)) or suffix in FAISS_SUFFIXES:
                return open_faiss(path)
    kinds = ", ".join((*ARRAY_SUFFIXES, PARQUET, ARROW, *LINES, *FAISS_SUFFIXES))
    raise CollectionError(
        path, f"no vectors are recognised: {kinds} or a saved dataset is expected"
    )
