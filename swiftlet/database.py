"""SQLite files that somebody else may have written: they are read, and nothing in them runs."""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from swiftlet.errors import CorruptIndexError, shown
from swiftlet.types import Section

_OBJECTS = "SELECT type, name, sql FROM sqlite_schema"
_COMPUTED = (
    "SELECT columns.name FROM sqlite_schema AS tables, pragma_table_xinfo(tables.name) AS columns "
    "WHERE columns.hidden LIMIT 1"
)
_NO_METADATA: Mapping[str, object] = {}


def connect_read_only(path: Path) -> sqlite3.Connection:
    """A connection without locks and journal, since the file is never written while it is read.

    :raises CorruptIndexError: As `check_schema`.
    """
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro&immutable=1",
        uri=True,
        check_same_thread=False,
        isolation_level=None,
    )
    try:
        check_schema(connection, path)
        connection.execute("PRAGMA mmap_size = 1073741824")
    except BaseException:
        connection.close()
        raise
    return connection


def check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file with anything but plain tables: a view or a trigger might never end.

    :raises CorruptIndexError: When it has a view, a trigger, an index of its own, a virtual table
        or a computed column; names it.
    """
    connection.execute("PRAGMA trusted_schema = OFF")
    for kind, name, sql in connection.execute(_OBJECTS).fetchall():
        # An index without SQL belongs to a UNIQUE column.
        if sql is None if kind == "index" else kind == "table" and _is_plain(sql):
            continue
        raise CorruptIndexError(_refusal(path, f"the {kind} {shown(name)}"))
    if computed := connection.execute(_COMPUTED).fetchone():
        raise CorruptIndexError(_refusal(path, f"the computed column {shown(computed[0])}"))


@contextmanager
def damage(path: Path) -> Iterator[None]:
    """Turn an error of reading what a file has into a `CorruptIndexError` that names the file."""
    try:
        yield
    except (sqlite3.Error, TypeError, ValueError, RecursionError) as error:
        raise CorruptIndexError(f"{path} is damaged: {error}") from error


def checked_texts(path: Path, *texts: object) -> None:
    """Refuse what a foreign file has in the place of texts.

    :raises CorruptIndexError: When one is no text.
    """
    if any(type(text) is not str for text in texts):
        raise CorruptIndexError(f"{path} is damaged: it has something else in the place of a text")


def parse_metadata(text: str, path: Path) -> Mapping[str, Any]:
    """The metadata of a document, of the file at `path`.

    :raises CorruptIndexError: When they are no object of JSON.
    """
    if text == "{}":
        return _NO_METADATA
    metadata: Any
    try:
        metadata = from_json(text)
    except (TypeError, ValueError):  # the fast parser refuses deep nesting
        metadata = None
    if not isinstance(metadata, dict):
        with damage(path):
            metadata = json.loads(text)
            if not isinstance(metadata, dict):
                raise TypeError(f"metadata are {shown(text)}")
    return metadata


def parse_sections(text: str, path: Path) -> tuple[Section, ...]:
    """The sections of a document, of the file at `path`.

    :raises CorruptIndexError: When they are none.
    """
    with damage(path):
        found = tuple(Section(*each) for each in json.loads(text))
        if any([*map(type, each)] != [int, int, str] for each in found):
            raise TypeError(f"sections are {shown(text)}")
    return found


def _is_plain(sql: object) -> bool:
    return isinstance(sql, str) and sql.split(maxsplit=2)[:2] == ["CREATE", "TABLE"]


def _refusal(path: Path, found: str) -> str:
    return (
        f"{path} is not as Swiftlet wrote it: it has {found}, but only plain tables are read; "
        "restore it from a copy, or make it again"
    )
