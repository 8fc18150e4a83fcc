"""The changes of an index since its base was built: a SQLite file in the index directory.

A writer appends to it; any number of processes read it meanwhile. Without the file there are no
changes. Each change has the next number, and replaces or deletes one document.
"""

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

import numpy as np

from swiftlet import disk
from swiftlet.database import (
    check_schema,
    checked_texts,
    damage,
    parse_metadata,
    parse_sections,
)
from swiftlet.errors import (
    CorruptIndexError,
    ReadOnlyStorageError,
    StorageError,
    UnfinishedWriteError,
)
from swiftlet.index.changes.last import (
    LAST_FILE,
    LastChange,
    check_is_own_file,
    read_last,
    way_out,
)
from swiftlet.manifest import Manifest
from swiftlet.publication import replace_file
from swiftlet.types import Document, Embeddings, Span

CHANGES_FILE = "changes.sqlite"

FIRST_CHANGE = "change"
"""The detail of a manifest with the number of the last change that the base contains."""

FORMAT = 1
"""The format of the file; docs/artefacts.md describes it."""

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

_NEWEST = "change IN (SELECT max(change) FROM changes WHERE change <= ? GROUP BY document_id)"

_WAL_VERSIONS = slice(18, 20)
"""Bytes of a SQLite file: both are 2 where changes go to a write-ahead log."""

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One document as it is after a change; `document` is None where it is deleted.

    `passages` are the spans of its passages, `embeddings` (n, dim) theirs.
    """

    number: int
    document_id: str
    document: Document | None
    passages: tuple[Span, ...]
    embeddings: Embeddings
    checksum: bytes = field(default=b"", compare=False)
    """The checksum of its row, when it was read."""


class Changes:
    """Reads the changes of one base; from one thread at a time."""

    def __init__(self, directory: Path, manifest: Manifest) -> None:
        """Nothing is opened before the first read; the index may not have changes yet."""
        self.path = directory / CHANGES_FILE
        self.first: int = manifest.details.get(FIRST_CHANGE, 0)
        self._width = manifest.width
        self._content = manifest.content
        self._connection: sqlite3.Connection | None = None
        self._version = -1

    def after(self, number: int) -> Iterator[Change]:
        """The changes after the one with this number, in order.

        :raises CorruptIndexError: When the file is damaged, or belongs to another base.
        :raises StorageError: When the file cannot be opened.
        """
        for expected, change in enumerate(self._select("change > ?", number), start=number + 1):
            if change.number != expected:
                raise self._lacks(f"change {expected}")
            yield change

    def at(self, number: int) -> Change:
        """The change with this number; errors as `after`."""
        found = next(self._select("change = ?", number), None)
        if found is None:
            raise self._lacks(f"change {number}")
        return found

    def newest(self, last: int) -> Iterator[Change]:
        """The last change of each document, of those up to `last`, in order; errors as `after`."""
        (count,) = self._one("SELECT count(*) FROM changes WHERE change <= ?", last) or (0,)
        if count < min(last, self.last()) - self.first:
            raise self._lacks("some change")
        return self._select(_NEWEST, last)

    def count(self) -> int:
        """The number of changes, each of which is read and verified; errors as `after`."""
        return sum(1 for _ in self.after(self.first))

    def last(self) -> int:
        """The number of the last change, or the base's number without one. Errors as `after`."""
        (last,) = self._one("SELECT max(change) FROM changes") or (None,)
        return self.first if last is None else int(last)

    def is_newer(self) -> bool:
        """Whether the file has been written to since the last call; the first call says yes."""
        found = self._one("PRAGMA data_version")
        if found is None:
            return False
        before, self._version = self._version, int(found[0])
        return before != self._version

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._connection is not None:
            self._connection.close()
            self._connection, self._version = None, -1

    def _select(self, condition: str, number: int) -> Iterator[Change]:
        with self._errors():
            last = read_last(self.path.parent, self._content)
        connection = self._opened()
        if last is not None and last.number > self.first:
            query = "SELECT checksum FROM changes WHERE change = ?"
            if (found := self._one(query, last.number)) is None:
                raise self._lacks(f"change {last.number}, which was written")
            if found != (last.checksum,):
                raise CorruptIndexError(
                    f"{self.path} has been altered: change {last.number} is not the one that was "
                    f"written; {way_out(self.path.parent)}"
                )
        if connection is None:
            return
        with self._errors():
            rows = connection.execute(
                f"SELECT * FROM changes WHERE {condition} ORDER BY change",  # noqa: S608
                (number,),
            )
            for row in rows:
                yield self.change_of(row)

    def _one(self, query: str, *values: int) -> Row | None:
        """The first row that a query gives; None if there is none, or no file."""
        connection = self._opened()
        if connection is None:
            return None
        with self._errors():
            row: Row | None = connection.execute(query, values).fetchone()
        return row

    def _lacks(self, what: str) -> CorruptIndexError:
        return CorruptIndexError(
            f"{self.path} is damaged: it lacks {what}; {way_out(self.path.parent)}"
        )

    def _opened(self) -> sqlite3.Connection | None:
        """The open file, or None when there is none; a writer makes it with its base."""
        if self._connection is not None:
            return self._connection
        if not check_is_own_file(self.path):
            return None
        with self._errors():
            connection = connect_changes(self.path)
            try:
                check_base(connection, self.path, self._content)
            except BaseException:
                connection.close()
                raise
        self._connection = connection
        return connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            if error_code(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR):
                raise CorruptIndexError(
                    f"{self.path} cannot be read: {error}; if the disk is full, free 32 KiB, which "
                    "SQLite needs to read it"
                ) from error
            raise CorruptIndexError(
                f"{self.path} is damaged: {error}; {way_out(self.path.parent)}"
            ) from error
        except OSError as error:
            place = error.filename or self.path.parent
            raise CorruptIndexError(f"{place} cannot be read: {error.strerror}") from error

    def change_of(self, row: Row) -> Change:
        """The change that a row has.

        :raises CorruptIndexError: When the row has been altered.
        """
        number, document_id, found, *content = row
        if found != checksum(self._content, number, document_id, *content):
            raise CorruptIndexError(
                f"{self.path} has been altered: change {number} does not match its checksum; "
                f"{way_out(self.path.parent)}"
            )
        passages, title, metadata, sections, embeddings, text = content
        if passages is None:
            empty = np.empty((0, self._width), dtype=np.float32)
            return Change(number, document_id, None, (), empty, found)
        with damage(self.path):
            checked_texts(self.path, document_id, text, title, metadata, sections)
            parsed = parse_metadata(metadata, self.path), parse_sections(sections, self.path)
            rows = np.frombuffer(embeddings, dtype="<f4").reshape(-1, self._width)
            spans = tuple((int(start), int(end)) for start, end in json.loads(passages))
            if len(spans) != len(rows):
                raise ValueError(
                    f"change {number} has {len(rows)} embeddings for {len(spans)} spans"
                )
        document = Document(document_id, text, title, *parsed)
        return Change(number, document_id, document, spans, rows, found)


class ChangesWriter:
    """Appends to the changes of one base. Not thread-safe."""

    def __init__(self, directory: Path, content: str) -> None:
        """Write beside the base with this `content`; the first change makes the files."""
        self._directory, self._content = directory, content
        self._path = directory / CHANGES_FILE
        self._connection: sqlite3.Connection | None = None
        self._last: IO[bytes] | None = None
        """`LAST_FILE`, while the connection is open."""

    def append(self, changes: Sequence[Change]) -> None:
        """Write all changes or none; they are on the disk when this returns.

        After an error, the files are opened again by the next call.

        :raises StorageError: When the file system refuses.
        :raises UnfinishedWriteError: When it refuses so late that the changes may be written.
        :raises CorruptIndexError: When the file is damaged, or belongs to another base.
        """
        rows = [_row(change, self._content) for change in changes]
        number, _, found, *_ = rows[-1]
        try:
            with disk.storage_errors(self._path), write_errors(self._path):
                connection = self._connection or self._open()
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany(
                    "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows
                )
                self._commit(connection)
                self._note(LastChange(number, found))
        except BaseException:
            # SQLite may have opened the file for reading only, and would leave it so.
            self.close()
            raise

    def close(self) -> None:
        """Close the files, if they are open."""
        for file in (self._connection, self._last):
            if file is not None:
                file.close()
        self._connection = self._last = None

    def _commit(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if error_code(error) == sqlite3.SQLITE_FULL:  # before the end of the changes
                raise
            raise UnfinishedWriteError(
                f"cannot write {self._path}: {error}; it is not known whether the changes are "
                "written: write them again"
            ) from error

    def _note(self, last: LastChange) -> None:
        # Not synced: after a power cut, an earlier line is right, too.
        line, place = last.line(self._content), last.place(self._content)
        try:
            if self._last and disk.overwrite(self._last, line, place):
                return
            problem = "it takes a part of a line only"
        except OSError as error:
            problem = f"{error.strerror}"
        raise UnfinishedWriteError(
            f"cannot write {self._directory / LAST_FILE}: {problem}; the changes are written, but "
            "a damage to them might not be noticed: write them again"
        )

    def _open(self) -> sqlite3.Connection:
        if not check_is_own_file(self._path):
            make_changes(self._directory, self._content)
        connection = disk.database(self._path, isolation_level=None, check_same_thread=False)
        try:
            check_base(connection, self._path, self._content)
            connection.execute("PRAGMA synchronous = FULL")
            if read_last(self._directory, self._content) is None:
                note_last(connection, self._directory, self._content)
            self._last = disk.opened(self._directory / LAST_FILE, "r+b", buffering=0)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection


def make_changes(directory: Path, content: str) -> None:
    """Make the file of no changes of the base with this `content`, completely or not at all.

    :raises StorageError: When the file system refuses.
    """
    path = directory / CHANGES_FILE
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(_SCHEMA)
        connection.execute("INSERT INTO base VALUES (?, ?)", (content, FORMAT))
        connection.commit()
        # SQLite would fill an empty file by way of its log, and keep to itself that it failed.
        made = bytearray(connection.serialize())
    made[_WAL_VERSIONS] = b"\2\2"
    with disk.storage_errors(path):
        for left in directory.glob(".changes.*partial"):  # by a writer that was killed
            disk.remove(left)
        # SQLite would take a removed file's log for the log of this file.
        disk.remove(path.with_name(f"{CHANGES_FILE}-wal"), missing_ok=True)
        replace_file(path, made)


def note_last(connection: sqlite3.Connection, directory: Path, content: str) -> None:
    """Note the last change that an open file has, beside the base with this `content`.

    :raises StorageError: When the file system refuses.
    """
    newest = "SELECT change, checksum FROM changes ORDER BY change DESC LIMIT 1"
    last = LastChange(*(connection.execute(newest).fetchone() or (0, b"")))
    replace_file(directory / LAST_FILE, 2 * last.line(content))


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Turn an error of SQLite's into one that names the file that was to be written."""
    try:
        yield
    except sqlite3.OperationalError as error:
        kind = ReadOnlyStorageError if is_read_only(error, path) else StorageError
        raise kind(f"cannot write {path}: {error}") from error
    except sqlite3.DatabaseError as error:
        raise CorruptIndexError(f"{path} is damaged: {error}; {way_out(path.parent)}") from error


def checksum(*values: int | str | bytes | None) -> bytes:
    """A hash of all values of a change, and of the content of its base."""
    digest = sha256()
    for value in values:
        content = value if isinstance(value, bytes) else repr(value).encode(errors="replace")
        digest.update(len(content).to_bytes(8, "big"))
        digest.update(content)
    return digest.digest()


def check_base(connection: sqlite3.Connection, path: Path, content: str) -> None:
    """Refuse the changes of another base.

    :raises CorruptIndexError: When the file belongs to another base, is of a newer format, or has
        more than tables.
    """
    check_schema(connection, path)
    try:
        ((found, version),) = connection.execute("SELECT * FROM base").fetchall()
    except ValueError:
        found = version = None
    if not isinstance(found, str) or not isinstance(version, int):
        raise CorruptIndexError(f"{path} is damaged: it does not name its base")
    if version != FORMAT:
        raise CorruptIndexError(
            f"{path} has the format {version}, but this Swiftlet reads {FORMAT}: upgrade Swiftlet"
        )
    if found != content:
        raise CorruptIndexError(
            f"{path} belongs to another index: copy an index directory as a whole, or use "
            "swiftlet snapshot"
        )


def is_read_only(error: sqlite3.Error, path: Path) -> bool:
    """Whether SQLite was not permitted to write a file, or the file beside it that it shares."""
    shared = path.with_name(f"{path.name}-shm")
    writable = next(each for each in (shared, path, path.parent, Path("/")) if each.exists())
    # Without a free descriptor, SQLite says the same.
    refused = error_code(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
    return refused and not os.access(writable, os.W_OK)


def error_code(error: sqlite3.Error) -> int:
    """The kind of an error of SQLite's; 0 for an error of Python's module for it."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def connect_changes(path: Path) -> sqlite3.Connection:
    """A reading connection that sees everything committed, also on read-only storage."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    connection = _connect(uri)
    try:
        connection.execute("SELECT 1 FROM sqlite_master")
    except sqlite3.DatabaseError as error:
        connection.close()
        if not is_read_only(error, path):
            raise
    else:
        return connection
    # SQLite cannot make the file beside it that readers and a writer share.
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        raise StorageError(
            f"{path} cannot be read on read-only storage, because its last writer did not end: "
            "search the index once where it can be written"
        )
    return _connect(f"{uri}&immutable=1")


def _connect(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None)


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
