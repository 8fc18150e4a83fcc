"""Writes the columns of an index: the documents that have each value of the metadata."""

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swiftlet.errors import StorageError
from swiftlet.index.columns.columns import COLUMN_FILES, keys_of
from swiftlet.publication import save_array, storage_errors

_FETCHED_ROWS = 65_536


def write_columns(folder: Path, metadata: Iterable[Mapping[str, Any]]) -> None:
    """Write the columns of documents into the new `folder`, in the order of their numbers.

    :raises StorageError: When the file system refuses.
    """
    with storage_errors(folder):
        folder.mkdir()
    sorting = folder / "sorting.sqlite"
    documents, keys, counts, lengths = [np.empty(0, np.int32)], bytearray(), [0], [0]
    try:
        # SQLite sorts more than fits into memory.
        with closing(sqlite3.connect(sorting, isolation_level=None)) as database:
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("PRAGMA synchronous = OFF")
            database.execute("CREATE TABLE entries (key BLOB, document INTEGER)")
            database.execute("BEGIN")
            database.executemany(
                "INSERT INTO entries VALUES (?, ?)",
                ((key, number) for number, each in enumerate(metadata) for key in keys_of(each)),
            )
            database.execute("COMMIT")
            found = database.execute("SELECT key, document FROM entries ORDER BY key, document")
            last = None
            while rows := found.fetchmany(_FETCHED_ROWS):
                for key, _ in rows:
                    if key != last:
                        keys += key
                        counts.append(0)
                        lengths.append(len(key))
                        last = key
                    counts[-1] += 1
                documents.append(np.fromiter((number for _, number in rows), np.int32, len(rows)))
    except sqlite3.OperationalError as error:
        raise StorageError(f"cannot write {folder}: {error}") from error
    arrays: tuple[NDArray[Any], ...] = (
        np.concatenate(documents),
        np.cumsum(counts, dtype=np.int64),
        np.frombuffer(keys, np.uint8),
        np.cumsum(lengths, dtype=np.int64),
    )
    with storage_errors(folder):
        sorting.unlink()
        for name, array in zip(COLUMN_FILES, arrays, strict=True):
            save_array(folder / name, array)
