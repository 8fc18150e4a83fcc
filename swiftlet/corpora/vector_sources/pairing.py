"""Gives vectors the rows that stand elsewhere: ids in a file, documents of a corpus."""

import json
import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swiftlet.corpora.fields import ID_FIELDS, Fields
from swiftlet.corpora.identifiers import SeenIds, check_id
from swiftlet.corpora.lines import parse_lines, read_errors
from swiftlet.corpora.rows import Corpus, documents_of
from swiftlet.corpora.vector_sources.arrays import NPY, NPZ, mapped
from swiftlet.corpora.vector_sources.source import Row, Source, bad_row, check_regular
from swiftlet.corpora.vectors import VectorBlock
from swiftlet.errors import CollectionError, shown
from swiftlet.types import Document

logger = logging.getLogger(__name__)

_ROW_IDS = (*ID_FIELDS, "passage_id")


def with_ids(source: Source, ids: Path | Sequence[Any]) -> Source:
    """The vectors of a source with the ids of a file: one a line, or an array of NumPy.

    :raises CollectionError: When an id is bad or comes twice, or there are more or fewer of them
        than vectors.
    """
    name = f"{ids}" if isinstance(ids, Path) else "the ids"
    found: Any = _ids_of(ids) if isinstance(ids, Path) else [*ids]
    if source.num_rows not in (None, len(found)):
        raise CollectionError(
            name, f"there are {len(found):,} ids for {source.num_rows:,} vectors in {source.name}"
        )
    if isinstance(found, np.ndarray):
        with read_errors(name, ValueError, SystemError):  # texts that are no Unicode
            found = np.char.decode(found, "utf-8") if found.dtype.kind == "S" else found
            found = found.tolist()
    seen = SeenIds()
    for row, given in enumerate(found):
        with read_errors(f"{name}: row {row + 1:,}"):
            found[row] = check_id(given, "id")
        if not seen.add(found[row]):
            raise bad_row(name, row, f"the id {shown(found[row])} came before")

    def rows(block: VectorBlock, first: int) -> list[Row]:
        part = found[first : first + len(block.embeddings)]
        return [{**row, "id": each} for row, each in zip(block.rows, part, strict=True)]

    return source.with_rows(rows)


def _ids_of(path: Path) -> "list[str] | NDArray[Any]":
    check_regular(path)
    if path.suffix.lower() == NPY:
        array = mapped(path)
        if array.ndim != 1 or array.dtype.kind not in "iuUS":
            raise CollectionError(
                path,
                f"there is an array {array.shape} of {array.dtype} where ids (n,) are expected",
            )
        return array
    if path.suffix.lower() == NPZ:
        raise CollectionError(path, "a file with an id a line, or an array as .npy, is expected")
    return [line for _, line in parse_lines(path, lambda line: line)]


def with_texts(
    source: Source,
    texts: Corpus,
    fields: Fields | None,
    note: Callable[[str], None] | None = None,
) -> Source:
    """The vectors of a source with the documents of a corpus.

    Rows that have ids take the document with this id; rows that are only numbered take the
    document in the same place of the corpus.

    :param note: Takes a sentence about documents whose id no row has, or about texts of the rows
        that are replaced; None gives it to the log.
    :raises CollectionError: As `documents_of`; when there are more or fewer documents than vectors,
        or a row has an id that no document has.
    """

    def read(first: int) -> Iterator[VectorBlock]:
        if source.numbered:
            yield from _by_place(source, texts, fields, first)
        else:
            yield from _by_id(source, texts, fields, first, note or logger.warning)

    return replace(source, read=read, numbered=False)


def _by_place(
    source: Source, texts: Corpus, fields: Fields | None, first: int
) -> Iterator[VectorBlock]:
    documents = documents_of(texts, fields=fields, can_skip=False)
    found = sum(1 for _ in islice(documents, first))
    for block in source.read(first):
        some = [_row_of(each) for each in islice(documents, len(block.embeddings))]
        found += len(some)
        if len(some) < len(block.embeddings):
            break
        yield replace(block, rows=some)
    found += sum(1 for _ in documents)
    if found != source.num_rows:
        raise CollectionError(
            source.name, f"there are {source.num_rows:,} vectors for {found:,} documents"
        )


def _by_id(
    source: Source,
    texts: Corpus,
    fields: Fields | None,
    first: int,
    note: Callable[[str], None],
) -> Iterator[VectorBlock]:
    """Documents lie in a database of SQLite meanwhile, which grows into a file without a name."""
    with closing(sqlite3.connect("")) as database:
        database.execute("CREATE TABLE texts (id TEXT PRIMARY KEY, row TEXT) WITHOUT ROWID")
        written = (
            (each.document_id, json.dumps(_row_of(each), ensure_ascii=False))
            for each in documents_of(texts, fields=fields, can_skip=False)
        )
        database.executemany("INSERT INTO texts VALUES (?, ?)", written)
        left = database.execute("SELECT count(*) FROM texts").fetchone()[0] - first
        replaced = False
        for block in source.read(first):
            rows = []
            for number, row in enumerate(block.rows, first):
                if not _id_of(row):
                    raise bad_row(
                        source.name,
                        number,
                        "there is no id to pair it with a text: --ids (in Python ids=…) gives a "
                        "file with the ids",
                    )
                found = database.execute("SELECT row FROM texts WHERE id = ?", [_id_of(row)])
                text = found.fetchone()
                if text is None:
                    raise bad_row(
                        source.name, number, f"no document has the id {shown(_id_of(row))}"
                    )
                rest = {name: row[name] for name in row if name not in ID_FIELDS}
                replaced |= bool(rest.get("text"))
                rows.append({**rest, **json.loads(text[0])})
            left -= len(rows)
            yield replace(block, rows=rows)
            first += len(rows)
        if replaced:
            note("the texts of the rows are replaced by those of the corpus")
        if left > 0:
            note(f"{left:,} of the texts are left out: no vector has their ids")


def _id_of(row: Row) -> str:
    return str(next((row[name] for name in _ROW_IDS if name in row), ""))


def _row_of(document: Document) -> dict[str, Any]:
    row = {"id": document.document_id, "title": document.title, "text": document.text}
    return {**row, "metadata": dict(document.metadata)}
