"""Writes the document store: a corpus and the passages that it is cut into."""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from swiftlet.errors import CollectionError, StorageError
from swiftlet.index.documents.numbers import DocumentNumbers
from swiftlet.index.documents.passages import encoder_text
from swiftlet.index.documents.store import SCHEMA, connect_read_only
from swiftlet.progress import Progress
from swiftlet.publication import storage_errors
from swiftlet.types import Document, Passage

_FETCHED_ROWS = 256


class Splitter(Protocol):
    """Gives the passages of a document, such as `PassageSplitter`."""

    def split(self, document: Document) -> Iterable[Passage]:
        """The passages in order, at least one."""
        ...


@dataclass(frozen=True, slots=True)
class StoredCorpus:
    """A written document store.

    `content_sha256` is the hash of the encoder's input, passage by passage: two stores with the
    same hash have the same embeddings.
    """

    path: Path
    num_documents: int
    num_passages: int
    content_sha256: str

    def encoder_texts(self, first_row: int = 0) -> Iterator[str]:
        """The encoder's input for each passage, in row order from `first_row` on."""
        for title, text in self._select(
            "SELECT documents.title, coalesce(passages.text, documents.text) "
            "FROM passages JOIN documents USING (document) WHERE passage >= ? ORDER BY passage",
            first_row,
        ):
            yield encoder_text(title, text)

    def passage_text(self, row: int) -> str:
        """The encoder's input for the passage at `row`."""
        return next(self.encoder_texts(row))

    def metadata(self) -> Iterator[dict[str, Any]]:
        """The metadata of each document, in the order of ids."""
        for (text,) in self._select("SELECT metadata FROM documents ORDER BY document_id"):
            yield json.loads(text)

    def passage_to_document(self) -> DocumentNumbers:
        """The document number of each passage row; documents are numbered in the order of ids."""
        order = np.fromiter(
            (row for (row,) in self._select("SELECT document FROM documents ORDER BY document_id")),
            dtype=np.int32,
            count=self.num_documents,
        )
        numbers = np.empty_like(order)
        numbers[order] = np.arange(self.num_documents, dtype=np.int32)
        documents = np.fromiter(
            (row for (row,) in self._select("SELECT document FROM passages ORDER BY passage")),
            dtype=np.int32,
            count=self.num_passages,
        )
        return numbers[documents]

    def _select(self, statement: str, *parameters: int) -> Iterator[tuple[str, ...]]:
        connection = connect_read_only(self.path)
        try:
            cursor = connection.execute(statement, parameters)
            while rows := cursor.fetchmany(_FETCHED_ROWS):
                yield from rows
        finally:
            connection.close()


def write_documents(
    path: Path, documents: Iterable[Document], splitter: Splitter, progress: Progress
) -> StoredCorpus:
    """Read the whole corpus, split it and store it, so bad input is found before any encoding.

    :raises CollectionError: When there is no document, or two have the same id.
    :raises StorageError: When the file system refuses.
    """
    with storage_errors(path):
        path.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            # The file is only read when it is complete; after a kill it is written again.
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute("PRAGMA synchronous = OFF")
            connection.executescript(SCHEMA)
            connection.execute("BEGIN")
            stored = _write(path, connection, documents, splitter, progress)
            connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        raise StorageError(f"cannot write {path}: {error}") from error
    if not stored.num_documents:
        raise CollectionError("the corpus", "it has no documents")
    return stored


def _write(
    path: Path,
    connection: sqlite3.Connection,
    documents: Iterable[Document],
    splitter: Splitter,
    progress: Progress,
) -> StoredCorpus:
    content = hashlib.sha256()
    row = number = 0
    progress.begin("Reading documents", None)
    for number, document in enumerate(documents, start=1):
        try:
            connection.execute(
                "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?)",
                (
                    number - 1,
                    document.document_id,
                    document.title,
                    json.dumps(document.metadata, ensure_ascii=False),
                    json.dumps(document.sections),
                    document.text,
                ),
            )
        except sqlite3.IntegrityError:
            raise CollectionError(
                "the corpus", f"two documents have the id {document.document_id!r}"
            ) from None
        for index, passage in enumerate(splitter.split(document)):
            text = None if passage.text == document.text else passage.text
            connection.execute(
                "INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?, ?)",
                (row, number - 1, index, passage.start, passage.end, passage.heading, text),
            )
            read = encoder_text(document.title, passage.text).encode()
            content.update(len(read).to_bytes(8, "big"))
            content.update(read)
            row += 1
        progress.advance(1)
    return StoredCorpus(path, number, row, content.hexdigest())
