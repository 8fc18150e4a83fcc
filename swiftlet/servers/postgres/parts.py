"""The parts of an index on a PostgreSQL server, as the stages of a search use them."""

import json
from collections.abc import Sequence, Sized
from copy import copy
from dataclasses import dataclass
from functools import cache
from typing import Any, LiteralString, Self

import numpy as np
from psycopg.sql import SQL
from typing_extensions import override

from swiftlet.index.columns.columns import LONGEST_KEY, Value, field_keys, field_of
from swiftlet.index.columns.facets import MOST_FACET_VALUES, check_values, shown_values, values_of
from swiftlet.index.columns.filters import Condition, Filter, first_without_values, unknown_field
from swiftlet.index.documents.store import StoredPassage
from swiftlet.index.parts import MOST_FIELDS, Counts, Selection
from swiftlet.index.vectors.vector_index import Rows
from swiftlet.servers.parts import ServerParts, ServerPassages, gone
from swiftlet.servers.postgres.filters import EVERYTHING, Predicate, both, keys_in, predicate_of
from swiftlet.servers.postgres.table import State, Table, can_keep, numbers_of
from swiftlet.servers.postgres.words import PostgresWords
from swiftlet.servers.state import EXACT_UP_TO
from swiftlet.types import Document, Embeddings, Passage

_MOST_KEPT = 200_000
_NEAREST = """
SELECT document << 20 | number, distance, document_id FROM (
    SELECT document, number, embedding <#> %s AS distance FROM {passages}
    WHERE {where} ORDER BY {order} LIMIT %s
) AS nearest JOIN {documents} USING (document)
"""
_BY_GRAPH = SQL("embedding::halfvec({}) <#> %s::halfvec")
_AT = """
SELECT document << 20 | number, embedding <#> %s
FROM unnest(%s::bigint[], %s::int[]) AS asked (document, number)
JOIN {passages} USING (document, number)
"""
_PASSAGES = """
SELECT document_id, title, metadata, number, start_char, end_char, heading, {shown}
FROM unnest(%s::bigint[], %s::int[]) WITH ORDINALITY AS asked (document, number, place)
JOIN {passages} USING (document, number) JOIN {documents} USING (document) ORDER BY place
"""
_TEXTS = {
    True: SQL("substr(text, start_char + 1, end_char - start_char)").format(),
    False: SQL("''").format(),
}
# The first key of each field: an index finds the next one after all keys of a field.
_FIELDS = """
WITH RECURSIVE found (key) AS (
    (SELECT key FROM {keys} ORDER BY key LIMIT 1)
    UNION ALL
    SELECT (
        SELECT key FROM {keys} WHERE key >=
        substring(found.key FOR position('\\x00'::bytea IN found.key) - 1) || '\\x01'::bytea
        ORDER BY key LIMIT 1
    ) FROM found WHERE found.key IS NOT NULL
) SELECT key FROM found WHERE key IS NOT NULL LIMIT %s
"""


class PostgresPassages(ServerPassages):
    """The passages of an index, or of some of its documents.

    A row is the number of a document, and in the last 20 bits the passage's number. A row is always
    of the same document.
    """

    def __init__(self, table: Table, state: State) -> None:
        self.table, self.state = table, state
        self.size = self.num_passages = state.num_passages
        self.num_documents = state.num_documents
        self.where, self.width = EVERYTHING, state.graph_width
        self._ids: dict[int, str] = {}

    def restricted_to(self, where: Predicate, size: int) -> Self:
        """The `size` passages of some documents alone; of few ones without the graph."""
        found = copy(self)
        found.where, found.size = where, size
        found.width = self.width if size > EXACT_UP_TO else None
        return found

    @override
    def search(self, embedding: Embeddings, num_candidates: int) -> tuple[Embeddings, Rows]:
        where, values = self.where
        found = []
        if self.width is not None:
            order = _BY_GRAPH.format(self.width)
            statement = self.table.sql(_NEAREST, where=where, order=order)
            asked = [embedding, *values, embedding, num_candidates]
            found = self.table.rows(statement, asked)
        if len(found) < min(num_candidates, self.size):  # the graph has too few of these rows
            statement = self.table.sql(_NEAREST, where=where, order=SQL("distance"))
            found = self.table.rows(statement, [embedding, *values, num_candidates])
        scores = -np.array([distance for _, distance, _ in found], np.float32)
        rows = np.array([row for row, _, _ in found], np.int64)
        self._note({row >> 20: document_id for row, _, document_id in found})
        best_first = np.argsort(-scores, kind="stable")
        return scores[best_first], rows[best_first]

    @override
    def scores(self, embedding: Embeddings, rows: Rows) -> Embeddings:
        found = dict(self.table.rows(self.table.sql(_AT), [embedding, *numbers_of(rows)]))
        _check_all(found, rows)
        return -np.array([found[row] for row in rows.tolist()], np.float32)

    @override
    def ids_at(self, rows: Rows) -> list[str]:
        documents, _ = numbers_of(rows)
        ids = {document: self._ids.get(document) for document in documents}
        if missing := [document for document, found in ids.items() if found is None]:
            statement = "SELECT document, document_id FROM {documents} WHERE document = ANY(%s)"
            found = dict(self.table.rows(self.table.sql(statement), [missing]))
            self._note(found)
            ids |= {document: found.get(document) for document in missing}
        return [ids[document] or "" for document in documents]

    @override
    def passages(self, rows: Sequence[int], *, include_text: bool = True) -> list[StoredPassage]:
        statement = self.table.sql(_PASSAGES, shown=_TEXTS[include_text])
        found = self.table.rows(statement, numbers_of(np.array(rows, np.int64)))
        _check_all(found, rows)
        return [
            StoredPassage(
                Passage(f"{document_id}#{number}", document_id, text, start, end, heading),
                title,
                json.loads(metadata),
            )
            for document_id, title, metadata, number, start, end, heading, text in found
        ]

    @override
    def find(self, document_id: str) -> Document | None:
        if not isinstance(document_id, str) or not can_keep(document_id):
            return None
        statement = "SELECT text, title, metadata, sections FROM {documents} WHERE document_id = %s"
        for text, title, *parts in self.table.rows(self.table.sql(statement), [document_id]):
            return Document(document_id, text, title, *map(json.loads, parts))
        return None

    @override
    def titles(self, count: int) -> dict[str, str]:
        last = self.state.last_document
        numbers = [*range(1, last + 1, -(-last // count) or 1)]
        statement = "SELECT document_id, title FROM {documents} WHERE document = ANY(%s::bigint[])"
        return dict(self.table.rows(self.table.sql(statement), [numbers]))

    @override
    def close(self) -> None:
        self.table.close()

    def _note(self, found: dict[int, str]) -> None:
        """Keep the ids of documents by their numbers."""
        if len(self._ids) > _MOST_KEPT:
            self._ids.clear()
        self._ids.update(found)


@dataclass(frozen=True, kw_only=True)
class PostgresParts(ServerParts):
    """The parts of an index on a PostgreSQL server."""

    store: PostgresPassages
    lexical: PostgresWords | None = None

    waiting_seconds = 0.01

    @property
    @override
    def counts_values(self) -> bool:
        return True

    @override
    def selection(self, tree: Filter | None) -> Selection:
        if tree is None:
            return Selection(self.index, self.lexical, self.store.num_documents)
        where = self._predicate(tree)
        statement = "SELECT count(*), coalesce(sum(passages), 0) FROM {documents} WHERE {where}"
        ((documents, passages),) = self._rows(statement, where)
        index = self.store.restricted_to(where, int(passages))
        return Selection(index, self.lexical and self.lexical.restricted_to(where), documents)

    @override
    def document_ids(self, tree: Filter) -> list[str]:
        statement = "SELECT document_id FROM {documents} WHERE {where}"
        return [found for (found,) in self._rows(statement, self._predicate(tree))]

    @override
    def fields(self) -> tuple[str, ...]:
        table = self.store.table
        found = table.rows(table.sql(_FIELDS), [MOST_FIELDS])
        return tuple(sorted(field_of(key) for (key,) in found))

    @override
    def facets(self, fields: Sequence[str], tree: Filter) -> Counts:
        where = self._predicate(tree)
        return {field: self._facet(field, where) for field in fields}

    @override
    def check_groups(self, path: str, tree: Filter) -> None:
        values, where = keys_in(values_of(path).keys), self._predicate(tree)
        statement = """
            SELECT EXISTS (
                SELECT FROM {keys} WHERE {where} GROUP BY document HAVING count(*) > 1
            )
        """
        ((several,),) = self._rows(statement, both(values, where))
        exists = has_keys(self.store.table, values)
        check_values(path, exists=exists, several=several)

    def _facet(self, field: str, where: Predicate) -> list[tuple[Value, int]]:
        # Kinds of values are ordered in their keys as facets have them.
        statement = """
            SELECT key, count(*) FROM {keys} WHERE {where} AND length(key) <= %s
            GROUP BY key ORDER BY count(*) DESC, key LIMIT %s
        """
        longest = len(field_keys(field).first) + 1 + LONGEST_KEY
        asked = both(keys_in(values_of(field).keys), where)
        found = self._rows(statement, asked, longest, MOST_FACET_VALUES + 2)
        return shown_values(found)

    def _predicate(self, tree: Filter) -> Predicate:
        @cache
        def exists(condition: Condition) -> bool:
            return has_keys(self.store.table, keys_in(condition.keys))

        if (condition := first_without_values(tree, exists)) is not None:
            raise unknown_field(condition, self.fields())
        return predicate_of(self.store.table, tree)

    def _rows(self, text: LiteralString, where: Predicate, *values: int) -> list[tuple[Any, ...]]:
        (condition, keys), table = where, self.store.table
        return table.rows(table.sql(text, where=condition), [*keys, *values])


def has_keys(table: Table, keys: Predicate) -> bool:
    """Whether a document has one of some keys."""
    where, values = keys
    statement = table.sql("SELECT EXISTS (SELECT FROM {keys} WHERE {where})", where=where)
    ((found,),) = table.rows(statement, values)
    return bool(found)


def _check_all(found: Sized, rows: Sized) -> None:
    if len(found) < len(rows):
        raise gone()
