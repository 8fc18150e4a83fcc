"""Writes the changes of an index: the SQLite file that `swiftlet.index.changes.log` reads."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from swiftlet.errors import ReadOnlyStorageError, StorageError
from swiftlet.index.changes.log import (
    CHANGES_FILE,
    FORMAT,
    Change,
    Row,
    check_base,
    checksum,
    is_read_only,
)
from swiftlet.publication import storage_errors

_SCHEMA = """
CREATE TABLE base (content TEXT NOT NULL, format INTEGER NOT NULL);
-- The columns after checksum are NULL where the document is deleted. Embeddings are float32 rows,
-- little-endian, one for each passage.
CREATE TABLE changes (
    change INTEGER PRIMARY KEY,
    document_id TEXT NOT NULL,
    checksum BLOB NOT NULL,
    passages TEXT,
    title TEXT,
    metadata TEXT,
    sections TEXT,
    embeddings BLOB,
    text TEXT
);
"""


class ChangesWriter:
    """Appends to the changes of one base. Not thread-safe."""

    def __init__(self, directory: Path, content: str) -> None:
        """Write beside the base with this `content`; the file is made by the first change."""
        self._path, self._content = directory / CHANGES_FILE, content
        self._connection: sqlite3.Connection | None = None

    def append(self, changes: Sequence[Change]) -> None:
        """Write all changes or none; they are on the disk when this returns.

        :raises StorageError: When the file system refuses.
        :raises CorruptIndexError: When the file belongs to another base.
        """
        with self._errors():
            connection = self._opened()
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.executemany(
                    "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    [_row(change, self._content) for change in changes],
                )
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            if not self._path.exists():
                make_changes(self._path.parent, self._content)
            connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            try:
                check_base(connection, self._path, self._content)
                connection.execute("PRAGMA synchronous = FULL")
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            kind = ReadOnlyStorageError if is_read_only(error) else StorageError
            raise kind(f"cannot write {self._path}: {error}") from error


def make_changes(directory: Path, content: str) -> None:
    """Make the file of no changes of the base with this `content`, completely or not at all.

    An emptied file is refused: it has lost changes.

    :raises StorageError: When the file system refuses.
    """
    path, made = directory / CHANGES_FILE, directory / f".{CHANGES_FILE}.partial"
    with storage_errors(path):
        made.write_bytes(b"")  # there may be one of a writer that was killed
        with closing(sqlite3.connect(made)) as connection:
            connection.executescript(f"PRAGMA journal_mode = WAL; BEGIN; {_SCHEMA}")
            connection.execute("INSERT INTO base VALUES (?, ?)", (content, FORMAT))
            connection.commit()
        # SQLite would take a removed file's log for the log of this file.
        path.with_name(f"{CHANGES_FILE}-wal").unlink(missing_ok=True)
        made.replace(path)


def _row(change: Change, content: str) -> Row:
    """The row of a change in the file of the base with this `content`."""
    document = change.document
    values: Sequence[str | bytes | None] = [None] * 6
    if document is not None:
        values = [
            json.dumps(change.passages),
            document.title,
            json.dumps(document.metadata, ensure_ascii=False),
            json.dumps(document.sections),
            change.embeddings.astype("<f4", copy=False).tobytes(),
            document.text,
        ]
    found = checksum(content, change.number, change.document_id, *values)
    return (change.number, change.document_id, found, *values)
