"""The passages of an index on a PostgreSQL server, as searches ask for them."""

import json
from collections.abc import Mapping, Sequence, Sized
from typing import Any, LiteralString, Self

import numpy as np
from psycopg.sql import SQL, Composed
from typing_extensions import override

from swiftlet.index.columns.columns import LONGEST_KEY, KeyRange, Value, field_keys, field_of
from swiftlet.index.columns.facets import MOST_FACET_VALUES, shown_values, values_of
from swiftlet.index.columns.filters import Condition, Filter, fold
from swiftlet.index.documents.store import StoredPassage
from swiftlet.index.lexical.bm25 import SparseVector
from swiftlet.index.parts.search_parts import MOST_FIELDS, Counts
from swiftlet.index.vectors.vector_index import Rows
from swiftlet.servers.passages import ServerPassages, gone
from swiftlet.servers.postgres.table import State, Table, can_keep, numbers_of
from swiftlet.servers.state import EXACT_UP_TO
from swiftlet.types import Document, Embeddings, Passage

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
_SCORES = """
SELECT document << 20 | number AS row, sum(postings.weight * query.weight) AS score
FROM {postings} AS postings JOIN unnest(%s::bigint[], %s::float8[]) AS query (word, weight)
USING (word) {condition} GROUP BY document, number
"""
_ONLY = "JOIN unnest(%s::bigint[], %s::int[]) AS asked (document, number) USING (document, number)"
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


Predicate = tuple[Composed, list[bytes]]
"""A condition of SQL, with the values in the places of its %s."""

EVERYTHING: Predicate = (SQL("true").format(), [])
"""All documents."""

_AND, _OR = SQL(" AND "), SQL(" OR ")


def predicate_of(table: Table, tree: Filter) -> Predicate:
    """The documents that pass a filter, as a condition on the column `document`."""

    def compiled(part: Condition | Predicate) -> Predicate:
        if not isinstance(part, Condition):
            return part
        keys, values = keys_in(part.keys)
        text = "(document IN (SELECT document FROM {keys} WHERE {condition}))"
        return table.sql(text, condition=keys), values

    def every(parts: list[Condition | Predicate]) -> Condition | Predicate:
        return _joined(_AND, [*map(compiled, parts)]) if parts else EVERYTHING

    def some(parts: list[Condition | Predicate]) -> Condition | Predicate:
        # One look at the table of keys for all values, instead of one for each.
        if all(isinstance(part, Condition) for part in parts):
            keys = (keys for part in parts if isinstance(part, Condition) for keys in part.keys)
            return Condition("", tuple(keys))
        return _joined(_OR, [*map(compiled, parts)])

    def without(part: Condition | Predicate) -> Condition | Predicate:
        condition, values = compiled(part)
        return SQL("(NOT {})").format(condition), values

    return compiled(fold(tree, lambda condition: condition, every, some, without))


def both(one: Predicate, other: Predicate) -> Predicate:
    """What passes two conditions."""
    return _joined(_AND, [one, other])


def keys_in(ranges: tuple[KeyRange, ...]) -> Predicate:
    """The rows of the table `keys` in one of the ranges."""
    if not ranges:
        return SQL("false").format(), []
    return _joined(_OR, [(SQL("(key >= %s AND key < %s)").format(), [*keys]) for keys in ranges])


def _joined(by: SQL, parts: list[Predicate]) -> Predicate:
    found = by.join(condition for condition, _ in parts)
    return SQL("({})").format(found), [value for _, values in parts for value in values]


class PostgresPassages(ServerPassages):
    """The passages of an index, or of some of its documents.

    A row is the number of a document, and in the last 20 bits the passage's number. The mean length
    of passages in words is that of the moment of the push.
    """

    everything: Predicate = EVERYTHING
    waiting_seconds = 0.01
    counts_values = True

    def __init__(self, table: Table, state: State, made: int = 0) -> None:
        """Search the tables that were `made` under this number."""
        super().__init__()
        self.table, self.state, self.change = table, state, state.change
        self.size = self.num_passages = state.num_passages
        self.num_documents = state.num_documents
        self.width = None if state.ef_search is None else state.width  # of the graph
        self.version = f"{made}.{state.change}"

    @override
    def restricted_to(self, where: Predicate, size: int) -> Self:
        found = super().restricted_to(where, size)
        found.width = self.width if size > EXACT_UP_TO else None  # few ones without the graph
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
        self.note({row: document_id for row, _, document_id in found})
        best_first = np.argsort(-scores, kind="stable")
        return scores[best_first], rows[best_first]

    @override
    def scores(self, embedding: Embeddings, rows: Rows) -> Embeddings:
        found = dict(self._rows(_AT, embedding, *numbers_of(rows)))
        _check_all(found, rows)
        return -np.array([found[row] for row in rows.tolist()], np.float32)

    @override
    def read_ids(self, rows: list[int]) -> Mapping[int, str]:
        documents, _ = numbers_of(np.array(rows, np.int64))
        statement = "SELECT document, document_id FROM {documents} WHERE document = ANY(%s)"
        ids = dict(self._rows(statement, documents))
        pairs = zip(rows, documents, strict=True)
        return {row: ids[document] for row, document in pairs if document in ids}

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
        for text, title, *parts in self._rows(statement, document_id):
            return Document(document_id, text, title, *map(json.loads, parts))
        return None

    @override
    def titles(self, count: int) -> dict[str, str]:
        statement = "SELECT document_id, title FROM {documents} WHERE document = ANY(%s::bigint[])"
        return dict(self._rows(statement, self.state.spread(count)))

    @override
    def where_of(self, tree: Filter) -> Predicate:
        return predicate_of(self.table, tree)

    @override
    def exists(self, condition: Condition) -> bool:
        statement = "SELECT EXISTS (SELECT FROM {keys} WHERE {where})"
        ((found,),) = self._rows_of(statement, keys_in(condition.keys))
        return bool(found)

    @override
    def has_several(self, path: str, where: Predicate) -> bool:
        statement = """
            SELECT EXISTS (
                SELECT FROM {keys} WHERE {where} GROUP BY document HAVING count(*) > 1
            )
        """
        ((several,),) = self._rows_of(statement, both(keys_in(values_of(path).keys), where))
        return bool(several)

    @override
    def sizes(self, where: Predicate) -> tuple[int, int]:
        if where is EVERYTHING:
            return self.num_documents, self.num_passages
        statement = "SELECT count(*), coalesce(sum(passages), 0) FROM {documents} WHERE {where}"
        ((documents, passages),) = self._rows_of(statement, where)
        return documents, int(passages)

    @override
    def document_ids(self, where: Predicate) -> list[str]:
        statement = "SELECT document_id FROM {documents} WHERE {where}"
        return [found for (found,) in self._rows_of(statement, where)]

    @override
    def fields(self) -> tuple[str, ...]:
        return tuple(sorted(field_of(key) for (key,) in self._rows(_FIELDS, MOST_FIELDS)))

    @override
    def facets(self, fields: Sequence[str], where: Predicate) -> Counts:
        return {field: self._facet(field, where) for field in fields}

    def _facet(self, field: str, where: Predicate) -> list[tuple[Value, int]]:
        # Kinds of values are ordered in their keys as facets have them.
        statement = """
            SELECT key, count(*) FROM {keys} WHERE {where} AND length(key) <= %s
            GROUP BY key ORDER BY count(*) DESC, key LIMIT %s
        """
        longest = len(field_keys(field).first) + 1 + LONGEST_KEY
        asked = both(keys_in(values_of(field).keys), where)
        return shown_values(self._rows_of(statement, asked, longest, MOST_FACET_VALUES + 2))

    @override
    def word_counts(self, places: Sequence[int]) -> Mapping[int, int]:
        statement = "SELECT word, passages FROM {words} WHERE word = ANY(%s::bigint[])"
        return dict(self._rows(statement, places))

    @override
    def best_by_words(self, vector: SparseVector, count: int) -> Sequence[tuple[int, float]]:
        where, values = self.where
        end = SQL("ORDER BY score DESC, row LIMIT %s").format()
        return self._scored(vector, SQL("WHERE {}").format(where), [*values, count], end)

    @override
    def scored_by_words(self, vector: SparseVector, rows: Rows) -> Sequence[tuple[int, float]]:
        return self._scored(vector, SQL(_ONLY).format(), [*numbers_of(rows)])

    def _scored(
        self, vector: SparseVector, condition: Composed, values: Sequence[object],
        end: Composed | None = None,
    ) -> Sequence[tuple[int, float]]:  # fmt: skip
        statement = self.table.sql(_SCORES, condition=condition)
        asked = [[*vector], [*vector.values()], *values]
        return self.table.rows(statement + end if end else statement, asked)

    @override
    def close(self) -> None:
        self.table.close()

    def _rows(self, text: LiteralString, *values: Any) -> list[tuple[Any, ...]]:
        return self.table.rows(self.table.sql(text), values)

    def _rows_of(
        self, text: LiteralString, where: Predicate, *values: int
    ) -> list[tuple[Any, ...]]:
        condition, keys = where
        return self.table.rows(self.table.sql(text, where=condition), [*keys, *values])


def _check_all(found: Sized, rows: Sized) -> None:
    if len(found) < len(rows):
        raise gone()
