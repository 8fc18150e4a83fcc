"""Vectors that were made elsewhere: one module for each kind of place that has them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swiftlet.arguments import StrPath, path_of
from swiftlet.corpora.fields import Fields
from swiftlet.corpora.lines import COMPRESSED_SUFFIXES, read_errors
from swiftlet.corpora.records import EMBEDDING
from swiftlet.corpora.rows import Corpus, check_there
from swiftlet.corpora.tables import ARROW, PARQUET, is_saved_dataset
from swiftlet.corpora.vector_sources.arrays import (
    ARRAY_SUFFIXES,
    ids_beside,
    of_array,
    open_arrays,
)
from swiftlet.corpora.vector_sources.chroma import is_chroma, open_chroma
from swiftlet.corpora.vector_sources.columns import open_lines, open_table
from swiftlet.corpora.vector_sources.elastic import open_elastic
from swiftlet.corpora.vector_sources.faiss_file import FAISS_SUFFIXES, has_faiss_head, open_faiss
from swiftlet.corpora.vector_sources.lance import is_lance, open_lance
from swiftlet.corpora.vector_sources.milvus import open_milvus
from swiftlet.corpora.vector_sources.pairing import with_ids, with_texts
from swiftlet.corpora.vector_sources.pgvector import open_pgvector
from swiftlet.corpora.vector_sources.place import Place, parse_place
from swiftlet.corpora.vector_sources.qdrant import is_qdrant, open_qdrant
from swiftlet.corpora.vector_sources.source import Source, check_regular
from swiftlet.corpora.vector_sources.txtai import is_txtai, open_txtai
from swiftlet.errors import CollectionError, shown

Reader = Callable[[Place, str | None, Fields | None], Source]

_PICKLE = "index.pkl"
_SERVERS: dict[str, Reader] = {
    "elasticsearch": open_elastic,
    "milvus": open_milvus,
    "opensearch": open_elastic,
    "postgresql": open_pgvector,
    "qdrant": open_qdrant,
}
_FILES: dict[str, Reader] = {
    **dict.fromkeys(ARRAY_SUFFIXES, open_arrays),
    **dict.fromkeys((PARQUET, ARROW), open_table),
    **dict.fromkeys((".jsonl", ".ndjson"), open_lines),
    ".db": open_milvus,
}
_FOLDERS: list[tuple[Callable[[Path], bool], Reader]] = [
    (is_saved_dataset, open_table),
    (is_chroma, open_chroma),
    (is_lance, open_lance),
    (is_txtai, open_txtai),
]

_ENDINGS = ", ".join(sorted({*_FILES, *FAISS_SUFFIXES}))


def open_vectors(
    place: StrPath | NDArray[Any],
    *,
    texts: Corpus | None = None,
    fields: Fields | None = None,
    vector_field: str | None = None,
    ids: StrPath | Sequence[Any] | None = None,
    note: Callable[[str], None] | None = None,
) -> Source:
    """The vectors of a file, a folder or an address, and their rows.

    Every row has a field "id" or the fields that its table has; in an export of Swiftlet,
    "metadata" is read from JSON.

    :param texts: A corpus with the documents. They are paired by id where the rows have ids, and
        by their order where the vectors are alone.
    :param fields: Names of the fields of `texts`, or of the table itself if there are none.
    :param vector_field: The column with the vectors, if there are several.
    :param ids: A file with the id of each vector, one a line or an array of NumPy; or the ids.
    :param note: Takes a sentence about texts that no vector takes; None gives it to the log.
    :raises CollectionError: When `place` is not recognised or damaged, or has no vectors; when
        there is no file of `texts`.
    :raises MissingExtraError: When a package that reads it is not installed.
    """
    if texts is not None:
        check_there(texts)
    own_fields = fields if texts is None else None
    if isinstance(place, np.ndarray):
        source = of_array(place, "the array")
    else:
        source = _open(parse_place(place), vector_field, own_fields)
        beside = ids_beside(parse_place(place).folder, source.num_rows)
        if beside is not None and ids is None and note is not None:
            note(
                f"the array {shown(beside)} is not used: if it has the ids, save it as an .npy "
                "file, and name it by --ids (in Python ids=…)"
            )
    if ids is not None:
        is_path = not isinstance(ids, Sequence) or isinstance(ids, str)
        source = with_ids(source, path_of("ids", ids) if is_path else ids)  # type: ignore[arg-type]
    return source if texts is None else with_texts(source, texts, fields, note)


def rows_with_vectors(
    places: Iterable[StrPath], vector_field: str, fields: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """The rows of files, each with its vector as "embedding", as a corpus to put into an index.

    :param fields: Of `Fields`, for the names of the rows' fields.
    :raises CollectionError: As `open_vectors`.
    """
    names = {name: value for name, value in fields.items() if name in Fields.__slots__}
    for place in places:
        columns = Fields(**names) if names else None
        for block in open_vectors(place, vector_field=vector_field, fields=columns).blocks():
            for row, vector in zip(block.rows, block.embeddings, strict=True):
                yield {**row, EMBEDDING: vector}


def _open(place: Place, vector_field: str | None, fields: Fields | None) -> Source:
    if place.scheme:
        read = _SERVERS.get(place.scheme)
        expected = f"one of {', '.join(f'{each}://' for each in _SERVERS)}"
    else:
        read, expected = _reader_of(place.folder)
    if read is None:
        raise CollectionError(place.name, f"no vectors are recognised: {expected} is expected")
    return read(place, vector_field, fields)


def _reader_of(path: Path) -> tuple[Reader | None, str]:
    """What reads a file or folder, and what it should be."""
    with read_errors(path):
        if not path.exists():
            raise CollectionError(path, "there is no such file or folder")
        check_regular(path)
        if (path / _PICKLE).is_file():
            raise CollectionError(
                path,
                f"{_PICKLE} is a pickle, which may run any program when it is read: adopt "
                f"{path / 'index.faiss'} with the texts in its order, as docs/coming-from.md shows",
            )
        if is_qdrant(path):
            raise CollectionError(
                path,
                "Qdrant's local mode keeps points as pickles, which may run any program when they "
                "are read: copy them to a server, as docs/coming-from.md shows, and adopt "
                "qdrant://HOST:6333/COLLECTION",
            )
        if path.suffix.lower() in {".pkl", ".pickle"}:
            raise CollectionError(
                path,
                "a pickle may run any program when it is read: adopt the vectors beside it, or "
                "write its own with numpy.save; docs/coming-from.md has examples",
            )
        suffixes = [suffix.lower() for suffix in path.suffixes]
        kept = [suffix for suffix in suffixes[-2:] if suffix not in COMPRESSED_SUFFIXES]
        if kept and kept[-1] in _FILES:
            return _FILES[kept[-1]], ""
        if path.is_dir():
            read = next((read for is_kind, read in _FOLDERS if is_kind(path)), None)
            return read, "a saved dataset, or a folder of Chroma, LanceDB or txtai"
        is_faiss = path.suffix.lower() in FAISS_SUFFIXES or has_faiss_head(path)
        return open_faiss if is_faiss else None, f"a file that ends in {_ENDINGS}"
