"""Reads what can be read of damaged changes."""

import itertools
import sqlite3
import struct
from contextlib import closing, suppress
from pathlib import Path

from swiftlet import disk
from swiftlet.errors import CorruptIndexError
from swiftlet.index.changes.last import check_is_own_file, read_last
from swiftlet.index.changes.log import CHANGES_FILE, Change, Changes, Row, error_code
from swiftlet.manifest import Manifest

_LOG = f"{CHANGES_FILE}-wal"
_PAGE_SIZE = struct.Struct(">16xH")
_SUMS = struct.Struct(">2I")
_HEADER, _FRAME = 32, 24
"""Bytes before the first page of a log, and before each page."""
_MAGIC, _VERSION = 0x377F0682, 3007000
_OF_THE_DISK = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN}


def salvaged(index: Path, manifest: Manifest, scratch: Path) -> tuple[list[Change], dict[int, str]]:
    """The changes that are whole, in order; and the numbers of those that are not.

    Each of these has the id of its document, as far as it can be read. Changes at the end are known
    to be missing only if the note of the last one is whole.

    :param scratch: An empty directory.
    :raises CorruptIndexError: As `check_is_own_file`.
    :raises OSError: When a file cannot be read or copied.
    :raises sqlite3.OperationalError: When the copies cannot be read now.
    """
    path = index / CHANGES_FILE
    if check_is_own_file(path):
        disk.write(scratch / CHANGES_FILE, path.read_bytes())
    if check_is_own_file(index / _LOG):
        page_size = _PAGE_SIZE.unpack_from(path.read_bytes().ljust(_PAGE_SIZE.size, b"\0"))[0]
        disk.write(scratch / _LOG, _with_sums((index / _LOG).read_bytes(), page_size or 4096))
    last = None
    with suppress(CorruptIndexError):
        last = read_last(index, manifest.content)
    changes = Changes(index, manifest)
    found, lost = [], {}
    with closing(disk.database(scratch / CHANGES_FILE)) as connection:
        end = changes.first if last is None else last.number
        if last is None:
            (highest,) = _row(connection, "SELECT max(change) FROM changes") or (None,)
            most = sum(each.stat().st_size for each in scratch.iterdir())  # a change has bytes
            end = max(end, min(highest or 0, changes.first + most))
        for number in itertools.count(changes.first + 1):
            row = _row(connection, "SELECT * FROM changes WHERE change = ?", number)
            change = None
            with suppress(CorruptIndexError, TypeError):
                change = changes.change_of(row) if row else None
            if change is not None:
                found.append(change)
            elif row is not None or number <= end:
                lost[number] = str(row[1]) if row else ""
            else:
                break
    return found, lost


def _row(connection: sqlite3.Connection, query: str, *values: int) -> Row | None:
    """The first row that a query gives; None if there is none, or it is damaged."""
    for _ in range(2):  # SQLite takes a read that fails for damage
        try:
            row: Row | None = connection.execute(query, values).fetchone()
        except sqlite3.DatabaseError as error:
            if error_code(error) in _OF_THE_DISK:
                raise
        else:
            return row
    return None


def _with_sums(log: bytes, page_size: int) -> bytes:
    """A write-ahead log with right sums: SQLite leaves out all that follows a wrong one.

    https://www.sqlite.org/fileformat2.html#the_write_ahead_log
    """
    starts = range(_HEADER, len(log) - page_size - _FRAME + 1, page_size + _FRAME)
    for salts in (log[16:24], log[_HEADER + 8 : _HEADER + 16]):  # if the first ones are damaged
        own = [start for start in starts if log[start + 8 : start + 16] == salts]
        if own:
            break
    else:
        return log
    order = "<>"[log[3] & 1]
    fields = struct.pack(">3I", _MAGIC | (log[3] & 1), _VERSION, page_size) + log[12:16] + salts
    sums = _summed((0, 0), fields, order)
    made = [fields, _SUMS.pack(*sums)]
    for start in range(_HEADER, own[-1] + 1, page_size + _FRAME):  # then come earlier rounds
        page, content = log[start : start + 8], log[start + _FRAME : start + _FRAME + page_size]
        sums = _summed(_summed(sums, page, order), content, order)
        made += [page, salts, _SUMS.pack(*sums), content]
    return b"".join(made)


def _summed(sums: tuple[int, int], content: bytes, order: str) -> tuple[int, int]:
    one, two = sums
    for first, second in struct.iter_unpack(f"{order}2I", content):
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return one, two
