"""An index of txtai in its folder: an index of FAISS beside a database of SQLite."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from swiftlet.corpora.fields import Fields
from swiftlet.corpora.lines import LONGEST_BYTES, LineError, read_errors
from swiftlet.corpora.records import record_of
from swiftlet.corpora.vector_sources.faiss_file import has_faiss_head, open_faiss
from swiftlet.corpora.vector_sources.place import Place
from swiftlet.corpora.vector_sources.source import Row, Source, bad_row, named
from swiftlet.corpora.vectors import VectorBlock
from swiftlet.errors import CollectionError, shown

_VECTORS, _TEXTS = "embeddings", "documents"
_COMPUTED = """
    SELECT type, name FROM sqlite_schema
    WHERE type NOT IN ('table', 'index') OR type = 'table' AND sql NOT LIKE 'CREATE TABLE %'
    UNION ALL
    SELECT 'computed column', columns.name
    FROM sqlite_schema AS tables, pragma_table_xinfo(tables.name) AS columns WHERE columns.hidden
"""
_SECTION = """
    SELECT sections.id, sections.text, documents.data FROM sections
    LEFT JOIN documents ON documents.id = sections.id WHERE indexid = ?
"""


def is_txtai(folder: Path) -> bool:
    """Whether txtai saved an index with contents in a folder."""
    return (folder / _VECTORS).is_file() and (folder / _TEXTS).is_file()


def open_txtai(place: Place, _vector_field: str | None, fields: Fields | None) -> Source:
    """The sections of an index, with "_id", "text" and the fields of their documents.

    :raises CollectionError: When its vectors are not in FAISS, its texts not in SQLite, or one is
        damaged.
    """
    vectors, texts = place.folder / _VECTORS, place.folder / _TEXTS
    if not has_faiss_head(vectors):
        raise CollectionError(
            vectors,
            'the index of txtai does not keep its vectors in FAISS: build it with backend="faiss"',
        )

    def rows(block: VectorBlock, first: int) -> list[Row]:
        found: list[Row] = []
        with _database(texts) as database:
            for number, row in enumerate(block.rows, first):
                section = database.execute(_SECTION, [int(row["id"])]).fetchone()
                if section is None:
                    raise bad_row(f"{texts}", number, f"no section has the number {row['id']}")
                name, text, data = section
                record: dict[str, Any] = {"_id": name}
                for kind, value in (("data", data), ("text", text)):
                    if not isinstance(value, str | None):
                        problem = f"its {kind} is {shown(value)}, but a text is expected"
                        raise bad_row(f"{texts}", number, problem)
                try:
                    record |= record_of(data) if data else {}
                except LineError as error:
                    raise bad_row(f"{texts}", number, f"its data: {error}") from error
                record |= {} if text is None else {"text": text}
                found.append(named(place.name, number, record, fields))
        return found

    return open_faiss(Place(f"{vectors}", path=f"{vectors}")).with_rows(rows)


@contextmanager
def _database(path: Path) -> Iterator[sqlite3.Connection]:
    """A file of plain tables, read only: a view or a computed column might never end.

    :raises CollectionError: When it has something else, or is damaged.
    """
    with (
        read_errors(path, sqlite3.Error, ValueError),
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database,
    ):
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_BYTES)
        database.execute("PRAGMA trusted_schema = OFF")
        if found := database.execute(_COMPUTED).fetchone():
            kind, name = found
            raise CollectionError(
                path, f"it has the {kind} {shown(name)}, but txtai itself makes plain tables"
            )
        yield database
