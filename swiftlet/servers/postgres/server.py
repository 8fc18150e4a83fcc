"""What is done with indexes on a PostgreSQL server; one is followed while other programs write."""

import json
from collections.abc import Iterator, Mapping, Sequence
from math import inf

import numpy as np
from psycopg.sql import SQL
from typing_extensions import override

from swiftlet.address import Address
from swiftlet.encoders.encoder import Encoder
from swiftlet.index.changes.log import Change
from swiftlet.index.documents.split import SplitDocument
from swiftlet.index.server import Description, Server
from swiftlet.index.updates.writer import Changed, Preparation
from swiftlet.manifest import Manifest
from swiftlet.servers.parts import ServerIndex
from swiftlet.servers.postgres.connection import Connection
from swiftlet.servers.postgres.passages import PostgresPassages
from swiftlet.servers.postgres.rows import COLUMNS, Numbered, check_document, words_in, write
from swiftlet.servers.postgres.table import State, Table, can_keep
from swiftlet.servers.postgres.target import PostgresTarget
from swiftlet.servers.pull import Pulled
from swiftlet.servers.writer import ServerWriter, told
from swiftlet.types import Embeddings

_BATCH_DOCUMENTS = 100
_DOCUMENTS = """
SELECT batch.*, found.spans, found.embeddings FROM (
    SELECT document, document_id, text, title, metadata, sections
    FROM {documents} WHERE document > %s ORDER BY document LIMIT %s
) AS batch, LATERAL (
    SELECT array_agg(ARRAY[start_char, end_char] ORDER BY number) AS spans,
    array_agg(embedding ORDER BY number) AS embeddings
    FROM {passages} WHERE {passages}.document = batch.document
) AS found ORDER BY document
"""


class PostgresIndex(ServerIndex):
    """The parts of an index as it is now; what has changed has another number."""

    def __init__(self, address: Address, encoder: Encoder) -> None:
        self._table = Table(address)
        super().__init__(address, encoder)

    @override
    def _look(self) -> tuple[int, State]:
        return self._table.seen()

    @override
    def _opened(self, seen: tuple[int, State]) -> tuple[Manifest, PostgresPassages, int | None]:
        (made, state), table = seen, self._table
        manifest = state.manifest_at(self.address)
        table.use(state.ef_search)
        table.is_open = True
        counted = None if state.mean_length is None else state.num_passages
        return manifest, PostgresPassages(table, state, made), counted


_LONGEST_SECONDS = 60.0
_FIND = """
SELECT document, document_id, passages FROM {documents} WHERE document_id = ANY(%s::text[])
"""
_COUNT_OLD_WORDS = """
UPDATE {words} AS words SET passages = words.passages - old.passages
FROM (
    SELECT word, count(*) AS passages FROM {postings}
    WHERE document = ANY(%s::int8[]) GROUP BY word
) AS old WHERE words.word = old.word
"""
_COUNT_NEW_WORDS = """
INSERT INTO {words} AS words
SELECT word, count(*) FROM {postings} WHERE document = ANY(%s::int8[]) GROUP BY word
ON CONFLICT (word) DO UPDATE SET passages = words.passages + excluded.passages
"""
_COUNT = """
UPDATE {index} SET num_documents = num_documents + %s, num_passages = num_passages + %s,
last_document = last_document + %s, change = change + %s
"""


class PostgresWriter(ServerWriter):
    """Changes the tables of an index.

    Each call is a transaction: searches of other clients see all of it within a second, or nothing.
    """

    def __init__(self, address: Address, preparation: Preparation) -> None:
        super().__init__(address, preparation)
        self._table = Table(address)
        _, state = self._table.seen()
        state.manifest_at(address)
        self.change = state.change

    @property
    @override
    def num_documents(self) -> int:
        return self._table.seen()[1].num_documents

    @override
    def _manifest_now(self) -> Manifest:
        return self._table.seen()[1].manifest_at(self.place)

    @override
    def append(self, changes: Sequence[Change], prepared_for: Manifest) -> Changed:
        table = self._table
        with told() as batch, table.transaction(_LONGEST_SECONDS) as connection:
            state = table.lock(connection)
            manifest = state.manifest_at(self.place)
            self._check_fit(manifest, prepared_for)
            new: list[Numbered] = []
            passages = 0
            for change in changes:
                if (document := change.document) is not None:
                    check_document(document, len(change.passages))
                    number = state.last_document + len(new) + 1
                    new.append(Numbered(number, document, change.passages, change.embeddings))
                    passages += len(change.passages)
            gone = self._remove(connection, [each.document.document_id for each in new])
            write(table, connection, new, words_in(state, manifest))
            connection.execute(table.sql(_COUNT_NEW_WORDS), [[each.number for each in new]])
            counts = len(new) - len(gone), passages - sum(gone.values())
            self._note(connection, *counts, new=len(new), changed=len(new))
            batch.is_sent = True
        self.change = state.change + len(new)
        return Changed(len(new), self.change)

    @override
    def _delete(self, document_ids: Sequence[str]) -> Mapping[str, int]:
        with told() as batch, self._table.transaction(_LONGEST_SECONDS) as connection:
            state = self._table.lock(connection)
            gone = self._remove(connection, document_ids)
            counts = -len(gone), -sum(gone.values())
            self._note(connection, *counts, new=0, changed=len(gone))
            batch.is_sent = True
        self.change = state.change + len(gone)
        return gone

    @override
    def close(self) -> None:
        super().close()
        self._table.close()

    def _remove(self, connection: Connection, document_ids: Sequence[str]) -> dict[str, int]:
        """Delete those documents that exist; the numbers of their passages by the ids."""
        table = self._table
        ids = [each for each in document_ids if can_keep(each)]
        found = connection.execute(table.sql(_FIND), [ids]).fetchall()
        numbers = [number for number, _, _ in found]
        connection.execute(table.sql(_COUNT_OLD_WORDS), [numbers])
        for name in COLUMNS:
            statement = SQL("DELETE FROM {} WHERE document = ANY(%s::int8[])")
            connection.execute(statement.format(table.names[name]), [numbers])
        return {document_id: passages for _, document_id, passages in found}

    def _note(
        self, connection: Connection, documents: int, passages: int, *, new: int, changed: int
    ) -> None:
        """Count what has changed."""
        values = documents, passages, new, changed
        connection.execute(self._table.sql(_COUNT), values)


def manifest_at(address: Address) -> Manifest:
    """The manifest of the index at an address."""
    return Table(address).seen()[1].manifest_at(address)


def describe(address: Address) -> Description:
    """What there is at an address."""
    _, state = Table(address).seen()
    visited = {} if state.ef_search is None else {"passages of a graph": state.ef_search}
    return Description(
        state.manifest_at(address),
        state.num_documents,
        state.num_passages,
        state.mean_length is not None,
        visited,
    )


def pulled(address: Address) -> Pulled:
    """What there is at an address, at one moment."""
    table = Table(address)
    made, state = table.seen()
    manifest = state.manifest_at(address)
    facets = PostgresPassages(table, state, made).present(manifest.details.get("facets", ()))
    return Pulled(manifest, facets, _documents(table))


def _documents(table: Table) -> Iterator[tuple[SplitDocument, Embeddings]]:
    statement, last = table.sql(_DOCUMENTS), 0
    with table.transaction(inf) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        while True:
            asked = [last, _BATCH_DOCUMENTS]
            found = connection.execute(statement, asked, binary=True).fetchall()
            if not found:
                return
            last = found[-1][0]
            for _, document_id, text, title, metadata, sections, spans, embeddings in found:
                fields = document_id, text, title, json.loads(metadata), json.loads(sections)
                yield SplitDocument(*fields, tuple(map(tuple, spans))), np.stack(embeddings)


SERVER = Server(
    source=PostgresIndex,
    manifest=manifest_at,
    description=describe,
    writer=PostgresWriter,
    target=PostgresTarget,
    corpus=pulled,
)
