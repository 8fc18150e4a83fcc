"""The hashes of files as they were when they were read last: a cache, which may be removed."""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from swiftlet import disk
from swiftlet.errors import InvalidArgumentError, StorageError
from swiftlet.sync.folder import Stamp

_SCHEMA = """
CREATE TABLE folder (path TEXT NOT NULL);
CREATE TABLE files (
    name BLOB PRIMARY KEY, size INTEGER, modified INTEGER, changed INTEGER, inode INTEGER,
    hash TEXT NOT NULL, problem TEXT
) WITHOUT ROWID;
"""

_LARGEST = (1 << 63) - 1


class SeenFiles:
    """Remembers the hash of each file by its stamp, and why it could not be read, if so.

    It says nothing of the index: what is in it, it says itself.
    """

    def __init__(self, index: Path, folder: Path) -> None:
        """Open the file beside `index`, or make it.

        :raises InvalidArgumentError: When the index follows another folder.
        :raises StorageError: When the file system refuses.
        """
        self.path = index.parent / f".{index.name}.files"
        with disk.storage_errors(self.path):
            disk.make_directory(self.path.parent, parents=True, exist_ok=True)
            if not index.exists():  # a file that is left from an earlier index
                self._remove()
            try:
                self._connection = self._opened(folder)
            except sqlite3.DatabaseError:  # damaged, so files are read again
                self._remove()
                self._connection = self._opened(folder)
        ((name,),) = self._connection.execute("SELECT CAST(path AS BLOB) FROM folder")
        if (followed := Path(os.fsdecode(name))) != folder and followed.exists():
            self.close()
            raise InvalidArgumentError(
                f"{index} follows {followed}: sync {folder} into an index of its own"
            )

    def _opened(self, folder: Path) -> sqlite3.Connection:
        connection = disk.database(self.path, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            if not connection.execute("SELECT 1 FROM sqlite_schema").fetchone():
                connection.executescript(f"BEGIN; {_SCHEMA}")
                connection.execute("INSERT INTO folder VALUES (?)", (os.fsencode(folder),))
                connection.execute("COMMIT")
            connection.execute("SELECT hash, problem FROM files LIMIT 1").fetchone()
            connection.execute("SELECT path FROM folder").fetchone()
        except BaseException:
            connection.close()
            raise
        return connection

    def find(self, name: str, stamp: Stamp) -> tuple[str, str | None] | None:
        """The hash of a file, and why it has no documents; None if it is not known as it is."""
        found: tuple[str, str | None] | None = self._connection.execute(
            "SELECT hash, problem FROM files WHERE name = ? AND size = ? AND modified = ? "
            "AND changed = ? AND inode = ?",
            (_key(name), *_kept(stamp)),
        ).fetchone()
        return found

    def note(self, files: Iterable[tuple[str, Stamp, str, str | None]]) -> None:
        """Remember the stamp, the hash and the problem, if any, of each file.

        :raises StorageError: When the file system refuses.
        """
        rows = [
            (_key(name), *_kept(stamp), found, problem) for name, stamp, found, problem in files
        ]
        self._write("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def forget(self, names: Iterable[str]) -> None:
        """Remember files no longer; errors as `note`."""
        self._write("DELETE FROM files WHERE name = ?", [(_key(name),) for name in names])

    def _write(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        try:
            with self._connection:  # which commits, or rolls back
                self._connection.execute("BEGIN")
                self._connection.executemany(statement, rows)
        except sqlite3.DatabaseError as error:
            raise StorageError(f"cannot write {self.path}: {error}") from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def remove(self) -> None:
        """Close the file, and remove it."""
        self.close()
        self._remove()

    def _remove(self) -> None:
        for end in ("", "-wal", "-shm"):
            disk.remove(self.path.with_name(f"{self.path.name}{end}"), missing_ok=True)


def _kept(stamp: Stamp) -> Iterator[int]:
    """The numbers of a stamp, cut to those that SQLite keeps: times after 2262 are larger."""
    return (number & _LARGEST for number in stamp)


def _key(name: str) -> bytes:
    return name.encode("utf-8", errors="surrogateescape")
