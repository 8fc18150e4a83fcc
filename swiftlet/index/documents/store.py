"""The document store: a SQLite file, written once by indexing, then only read."""

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from swiftlet.database import (
    checked_texts,
    connect_read_only,
    parse_metadata,
    parse_sections,
)
from swiftlet.errors import CorruptIndexError, RetrievalError, UnknownDocumentError
from swiftlet.index.documents.passages import encoder_text, reads_headings
from swiftlet.types import Document, Passage

DOCUMENTS_FILE = "documents.sqlite"

SCHEMA = """
CREATE TABLE documents (
    document INTEGER PRIMARY KEY,
    document_id TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    metadata TEXT NOT NULL,
    sections TEXT NOT NULL,
    text TEXT NOT NULL
);
-- text is NULL where the passage is its whole document
CREATE TABLE passages (
    passage INTEGER PRIMARY KEY,
    document INTEGER NOT NULL,
    number INTEGER NOT NULL,
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    heading TEXT NOT NULL,
    text TEXT
);
"""
# Long texts are the last columns: SQLite reads all pages of a long text to reach a column after it.

# One statement looks up all rows, in their order.
_PASSAGES = """
SELECT document_id, title, metadata, number, start, end, {heading}, {text}
FROM json_each(?) AS wanted
LEFT JOIN passages ON passages.passage = wanted.value
LEFT JOIN documents USING (document)
"""
_TEXTS = {True: "coalesce(passages.text, documents.text)", False: "''"}
_TITLES_AT_ONCE = 4096


class StoredPassage(NamedTuple):
    """A passage with the title and the metadata of its document."""

    passage: Passage
    title: str
    metadata: Mapping[str, object]

    def read(self, details: Mapping[str, Any]) -> str:
        """What the encoder of its index has read, by the details of the index's manifest."""
        heading = self.passage.heading if reads_headings(details) else ""
        return encoder_text(self.title, self.passage.text, heading)


class Store(Protocol):
    """Gives the documents and passages of an index. Thread-safe."""

    num_documents: int
    num_passages: int

    @property
    def base(self) -> "DocumentStore | None":
        """The documents as the index was built; None if another machine holds them."""
        ...

    @property
    def changed(self) -> Mapping[str, Document | None]:
        """By their ids, the documents that differ from `base`; None where one is deleted."""
        ...

    def passages(self, rows: Sequence[int], *, include_text: bool = True) -> list[StoredPassage]:
        """The passages at `rows`, in that order; their text is empty without `include_text`."""
        ...

    def document(self, document_id: str) -> Document:
        """The document with this id.

        :raises UnknownDocumentError: When there is none.
        """
        ...

    def titles(self, count: int) -> dict[str, str]:
        """The titles of at most `count` documents by their ids, from all parts of the corpus."""
        ...

    def close(self) -> None:
        """Close what it has opened; later reads are refused."""
        ...


class DocumentStore:
    """Reads documents and passages. Thread-safe: each read uses a connection of its own."""

    changed: Mapping[str, Document | None] = MappingProxyType({})

    def __init__(self, path: Path, *, readers: int = 1) -> None:
        """Open the store at `path` with one connection for each of `readers`.

        With more readers at once, the file is opened again. If the directory was removed or
        replaced in the meantime, they take turns.

        :raises CorruptIndexError: When it is no document store.
        """
        self._path = path
        # One for each concurrent read, not for each thread: the threads may change.
        self._idle: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        self._closed = False
        try:
            self._status = path.stat()
            connection = connect_read_only(path)
            self._idle.put(connection)
            self.num_documents = _count(connection, "documents")
            self.num_passages = _count(connection, "passages")
            self._statements = _passage_statements(connection)
            while self._idle.qsize() < readers:
                self._idle.put(connect_read_only(path))
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise CorruptIndexError(f"{path} is no document store: {error}") from error

    def passages(self, rows: Sequence[int], *, include_text: bool = True) -> list[StoredPassage]:
        """The passages at `rows`, in that order; their text is empty without `include_text`.

        :raises CorruptIndexError: When the store has no such row.
        :raises RetrievalError: When the store is closed.
        """
        statement = self._statements[include_text]
        with self._connection() as connection:
            records = connection.execute(statement, (f"[{','.join(map(str, rows))}]",)).fetchall()
        found = []
        for row, record in zip(rows, records, strict=True):
            document_id, title, metadata, number, start, end, heading, text = record
            if document_id is None:
                raise CorruptIndexError(f"{self._path} has no passage {row}")
            checked_texts(self._path, document_id, title, metadata, heading, text)
            passage = Passage(f"{document_id}#{number}", document_id, text, start, end, heading)
            found.append(StoredPassage(passage, title, parse_metadata(metadata, self._path)))
        return found

    def document(self, document_id: str) -> Document:
        """The document with this id.

        :raises UnknownDocumentError: When there is none.
        :raises RetrievalError: When the store is closed.
        """
        if not isinstance(document_id, str):  # SQLite would compare a number as a text
            raise UnknownDocumentError(document_id)
        try:
            with self._connection() as connection:
                record = connection.execute(
                    "SELECT title, metadata, sections, text FROM documents WHERE document_id = ?",
                    (document_id,),
                ).fetchone()
        except UnicodeEncodeError:  # a lone surrogate, which no stored id can hold
            record = None
        if record is None:
            raise UnknownDocumentError(document_id)
        title, metadata, sections, text = record
        checked_texts(self._path, *record)
        return Document(
            document_id=document_id,
            text=text,
            title=title,
            metadata=parse_metadata(metadata, self._path),
            sections=parse_sections(sections, self._path),
        )

    def titles(self, count: int) -> dict[str, str]:
        """The titles of at most `count` documents by their ids, from all parts of the corpus."""
        step = -(-self.num_documents // count)
        numbers = json.dumps([*range(0, self.num_documents, step or 1)])
        with self._connection() as connection:
            return dict(
                connection.execute(
                    "SELECT document_id, title FROM json_each(?) AS wanted "
                    "JOIN documents ON document = wanted.value",
                    (numbers,),
                )
            )

    def all_titles(self) -> Iterator[list[tuple[str, str]]]:
        """The ids and titles of all documents with a title, in lists of at most thousands."""
        for start in range(0, self.num_documents, _TITLES_AT_ONCE):
            with self._connection() as connection:
                found = connection.execute(
                    "SELECT document_id, title FROM documents "
                    "WHERE document >= ? AND document < ? AND title <> ''",
                    (start, start + _TITLES_AT_ONCE),
                ).fetchall()
            yield found

    @property
    def base(self) -> "DocumentStore":
        """The store of the base, which is this one."""
        return self

    def document_ids(self) -> list[str]:
        """The ids of all documents, in order."""
        with self._connection() as connection:
            found = connection.execute("SELECT document_id FROM documents ORDER BY document_id")
            return [document_id for (document_id,) in found]

    def values(self, field: str) -> Iterator[tuple[str, Any, str]]:
        """The id of each document, its value of a field of the metadata, and the name of its file.

        The value is None where there is none, and the file is the id where no other is named.
        """
        with self._connection() as connection:
            yield from connection.execute(
                "SELECT document_id, json_extract(metadata, ?), "
                "coalesce(json_extract(metadata, '$.file'), document_id) FROM documents",
                (f"$.{field}",),
            )

    def number_of(self, document_id: str) -> int | None:
        """The place of the document with this id in the corpus, from 0; None if there is none."""
        return self._place("document_id = ?", document_id)

    def number_before(self, document_id: str) -> int | None:
        """The place of the document with the largest id below this one; None if there is none."""
        return self._place("document_id < ? ORDER BY document_id DESC LIMIT 1", document_id)

    def _place(self, condition: str, document_id: str) -> int | None:
        try:
            with self._connection() as connection:
                found = connection.execute(
                    f"SELECT document FROM documents WHERE {condition}",  # noqa: S608
                    (document_id,),
                ).fetchone()
        except UnicodeEncodeError:
            return None
        return found and int(found[0])

    def close(self) -> None:
        """Close all connections; no search may be running. Later reads are refused."""
        self._closed = True
        while not self._idle.empty():
            self._idle.get().close()

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = self._idle.get_nowait()
        except Empty:
            if self._closed:
                raise RetrievalError(
                    f"{self._path.parent} is closed: search before close(), or open it again"
                ) from None
            connection = self._another()
        try:
            yield connection
        except sqlite3.DatabaseError as error:
            raise CorruptIndexError(f"{self._path} cannot be read: {error}") from error
        finally:
            self._idle.put(connection)

    def _another(self) -> sqlite3.Connection:
        """A new connection, or one that becomes idle if the path leads to another file now."""
        with suppress(sqlite3.Error, OSError):
            connection = connect_read_only(self._path)
            if os.path.samestat(self._path.stat(), self._status):
                return connection
            connection.close()
        return self._idle.get()


def _passage_statements(connection: sqlite3.Connection) -> dict[bool, str]:
    """What looks passages up, with and without their texts; earlier stores have no headings."""
    columns = connection.execute("SELECT name FROM pragma_table_info('passages')").fetchall()
    heading = "heading" if ("heading",) in columns else "''"
    return {key: _PASSAGES.format(heading=heading, text=text) for key, text in _TEXTS.items()}


def _count(connection: sqlite3.Connection, table: str) -> int:
    (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608
    return int(count)
