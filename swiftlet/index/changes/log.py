"""The changes of an index since its base was built: a SQLite file in the index directory.

A writer appends to it; any number of processes read it meanwhile. Without the file there are no
changes. Each change has the next number, and replaces or deletes one document.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from swiftlet.errors import CorruptIndexError, ReadOnlyStorageError, StorageError
from swiftlet.index.database import (
    check_schema,
    checked_texts,
    damage,
    parse_metadata,
    parse_sections,
)
from swiftlet.manifest import Manifest
from swiftlet.publication import storage_errors
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
                raise CorruptIndexError(f"{self.path} is damaged: it lacks change {expected}")
            yield change

    def newest(self, last: int) -> Iterator[Change]:
        """The last change of each document, of those up to `last`, in order; errors as `after`."""
        return self._select(_NEWEST, last)

    def count(self) -> int:
        """The number of changes, each of which is read and verified; errors as `after`."""
        return sum(1 for _ in self.after(self.first))

    def last(self) -> int:
        """The number of the last change, or the base's number without one. Errors as `after`."""
        connection = self._opened()
        if connection is None:
            return self.first
        with self._errors():
            (last,) = connection.execute("SELECT max(change) FROM changes").fetchone()
        return self.first if last is None else int(last)

    def is_newer(self) -> bool:
        """Whether the file has been written to since the last call; the first call says yes."""
        connection = self._opened()
        if connection is None:
            return False
        with self._errors():
            (version,) = connection.execute("PRAGMA data_version").fetchone()
        before, self._version = self._version, int(version)
        return before != self._version

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._connection is not None:
            self._connection.close()
            self._connection, self._version = None, -1

    def _select(self, condition: str, number: int) -> Iterator[Change]:
        connection = self._opened()
        if connection is None:
            return
        with self._errors():
            rows = connection.execute(
                f"SELECT * FROM changes WHERE {condition} ORDER BY change",  # noqa: S608
                (number,),
            )
            for row in rows:
                yield self._change(row)

    def _opened(self) -> sqlite3.Connection | None:
        """The open file, or None when there is none; a writer makes it with its base."""
        if self._connection is not None:
            return self._connection
        if not self.path.exists():
            return None
        with self._errors():
            connection = connect_changes(self.path)
            check_base(connection, self.path, self._content)
        self._connection = connection
        return connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise CorruptIndexError(f"{self.path} is damaged: {error}") from error

    def _change(self, row: Row) -> Change:
        number, document_id, found, *content = row
        if found != checksum(self._content, number, document_id, *content):
            raise CorruptIndexError(
                f"{self.path} has been altered: change {number} does not match its checksum"
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


def is_read_only(error: sqlite3.Error) -> bool:
    """Whether SQLite could not write a file that it needs, or was not permitted to."""
    return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


def connect_changes(path: Path) -> sqlite3.Connection:
    """A reading connection that sees everything committed, also on read-only storage."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    connection = _connect(uri)
    try:
        connection.execute("SELECT 1 FROM sqlite_master")
    except sqlite3.OperationalError as error:
        connection.close()
        if not is_read_only(error):
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
