"""Puts and deletes documents of an index on a PostgreSQL server."""

from collections.abc import Iterable, Sequence

from psycopg.sql import SQL
from typing_extensions import override

from swiftlet.address import Address
from swiftlet.index.changes.log import Change
from swiftlet.index.updates.writer import Changed, Preparation, checked_ids
from swiftlet.manifest import Manifest
from swiftlet.servers.postgres.connection import Connection
from swiftlet.servers.postgres.rows import COLUMNS, Numbered, check_document, words_in, write
from swiftlet.servers.postgres.table import State, Table, can_keep
from swiftlet.servers.writer import ServerWriter

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
        self.manifest()
        self.change = self._table.seen()[1].change

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
        with table.transaction(_LONGEST_SECONDS) as connection:
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
            gone = self._delete(connection, [each.document.document_id for each in new])
            write(table, connection, new, words_in(state, manifest))
            connection.execute(table.sql(_COUNT_NEW_WORDS), [[each.number for each in new]])
            counts = len(new) - len(gone), passages - sum(gone.values())
            self._note(connection, state, *counts, new=len(new), changed=len(new))
        return Changed(len(new), self.change)

    @override
    def delete(self, document_ids: Iterable[str]) -> Changed:
        ids = checked_ids(document_ids)
        with self._table.transaction(_LONGEST_SECONDS) as connection:
            state = self._table.lock(connection)
            gone = self._delete(connection, ids)
            counts = -len(gone), -sum(gone.values())
            self._note(connection, state, *counts, new=0, changed=len(gone))
        unknown = tuple(each for each in ids if each not in gone)
        return Changed(len(gone), self.change, unknown)

    @override
    def close(self) -> None:
        super().close()
        self._table.close()

    def _delete(self, connection: Connection, document_ids: Sequence[str]) -> dict[str, int]:
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
        self, connection: Connection, state: State, documents: int, passages: int,
        *, new: int, changed: int,
    ) -> None:  # fmt: skip
        """Count what has changed."""
        values = documents, passages, new, changed
        connection.execute(self._table.sql(_COUNT), values)
        self.change = state.change + changed
