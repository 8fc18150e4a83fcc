"""Documents as rows of the tables of an index."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.sql import SQL, Identifier

from swiftlet.errors import InvalidArgumentError, shown
from swiftlet.index.columns.columns import keys_of
from swiftlet.index.lexical.bm25 import NO_WORD
from swiftlet.manifest import Manifest
from swiftlet.servers.postgres.connection import Connection
from swiftlet.servers.postgres.table import MOST_PASSAGES, State, Table, can_keep
from swiftlet.servers.words import WordVectors
from swiftlet.types import Document, Embeddings, Span

COLUMNS = {
    "documents": {
        "document": "int8", "document_id": "text", "title": "text", "metadata": "text",
        "sections": "text", "passages": "int4", "text": "text",
    },
    "passages": {
        "document": "int8", "number": "int4", "start_char": "int4", "end_char": "int4",
        "heading": "text", "embedding": "vector",
    },
    "keys": {"key": "bytea", "document": "int8"},
    "postings": {"word": "int8", "document": "int8", "number": "int4", "weight": "float4"},
}  # fmt: skip
"""The columns of the tables, with their types."""

_LONGEST_ID = 1_024


@dataclass(frozen=True, slots=True)
class Numbered:
    """A document with its number, and the spans and embeddings (n, dim) of its passages."""

    number: int
    document: Document
    passages: Sequence[Span]
    embeddings: Embeddings


def check_document(document: Document, num_passages: int) -> None:
    """Refuse a document that the server cannot hold.

    :raises InvalidArgumentError: When it has more, or another character, than rows can have.
    """
    texts = {"id": document.document_id, "title": document.title, "text": document.text}
    texts |= {"headings": "".join(section.heading for section in document.sections)}
    problem = ""
    for name, text in texts.items():
        if not can_keep(text):
            problem = f"a character in its {name} that PostgreSQL cannot keep, such as U+0000"
    if (size := len(document.document_id.encode(errors="replace"))) > _LONGEST_ID:
        problem = f"{size:,} bytes of id; on PostgreSQL at most {_LONGEST_ID:,} are expected"
    if num_passages > MOST_PASSAGES:
        problem = f"more than {MOST_PASSAGES:,} passages"
    if problem:
        raise InvalidArgumentError(
            f"the document {shown(document.document_id)} has {problem}: mend it, or take the "
            "document out of the index"
        )


def write(
    table: Table, connection: Connection, documents: Sequence[Numbered], words: WordVectors | None
) -> None:
    """Write new documents, with the words of their passages if the index has words."""
    rows: dict[str, Iterable[Sequence[Any]]] = {
        "documents": map(_document, documents),
        "passages": (row for each in documents for row in _passages(each)),
        "keys": (
            (key, each.number) for each in documents for key in keys_of(each.document.metadata)
        ),
    }
    if words is not None:
        rows["postings"] = (row for each in documents for row in _postings(each, words))
    for name, of_table in rows.items():
        columns = SQL(", ").join(map(Identifier, COLUMNS[name]))
        statement = SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)")
        with connection.cursor().copy(statement.format(table.names[name], columns)) as copy:
            copy.set_types([*COLUMNS[name].values()])
            for row in of_table:
                copy.write_row(row)


def _document(numbered: Numbered) -> Sequence[Any]:
    document = numbered.document
    return (
        numbered.number, document.document_id, document.title, json.dumps(document.metadata),
        json.dumps(document.sections), len(numbered.passages), document.text,
    )  # fmt: skip


def _passages(numbered: Numbered) -> Iterator[Sequence[Any]]:
    for number, (start, end) in enumerate(numbered.passages):
        heading = numbered.document.heading_at(start)
        yield numbered.number, number, start, end, heading, numbered.embeddings[number]


def _postings(numbered: Numbered, words: WordVectors) -> Iterator[Sequence[Any]]:
    vectors = words.of(numbered.document, numbered.passages)
    for number, vector in enumerate(vectors):
        for place, weight in vector.items():
            if place != NO_WORD:
                yield place, numbered.number, number, weight


def words_in(state: State, manifest: Manifest) -> WordVectors | None:
    """What gives the words of passages, if the index has words."""
    if state.mean_length is None:
        return None
    return WordVectors(manifest.details, state.mean_length)
