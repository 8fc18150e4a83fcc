"""The parts of an index on a PostgreSQL server, as the stages of a search use them."""

import json
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, LiteralString

import numpy as np
from numpy.typing import NDArray
from psycopg.sql import SQL

from swiftlet.errors import (
    ChangedMeanwhileError,
    CorruptIndexError,
    UnknownDocumentError,
)
from swiftlet.index.columns.columns import LONGEST_KEY, Value, field_keys, field_of
from swiftlet.index.columns.facets import MOST_FACET_VALUES, shown_values
from swiftlet.index.columns.filters import (
    Condition,
    Filter,
    first_without_values,
    unknown_field,
)
from swiftlet.index.columns.grouping import check_values, values_of
from swiftlet.index.documents.store import StoredPassage
from swiftlet.index.parts import MOST_FIELDS, Counts, SearchParts, Selection
from swiftlet.index.vectors.vector_index import Rows
from swiftlet.servers.postgres.filters import Predicate, both, keys_in, predicate_of
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


class PostgresRows:
    """The passages of some documents, or of all, searched by the server. Thread-safe.

    A row is the number of a document, and in the last 20 bits the passage's number.
    """

    def __init__(
        self, table: Table, ids: "DocumentIds", size: int, where: Predicate, width: int | None
    ) -> None:
        """Search `size` passages, by the graph of embeddings of this width if there is one."""
        self.size = size
        self._table, self._ids, self._where, self._width = table, ids, where, width

    def search(self, embedding: Embeddings, num_candidates: int) -> tuple[Embeddings, Rows]:
        """Scores (k,) and rows (k,), best first, as `VectorIndex.search`.

        k is less than `num_candidates` only if there are no more rows.
        """
        where, values = self._where
        found = []
        if self._width is not None:
            order = _BY_GRAPH.format(self._width)
            statement = self._table.sql(_NEAREST, where=where, order=order)
            asked = [embedding, *values, embedding, num_candidates]
            found = self._table.rows(statement, asked)
        if len(found) < min(num_candidates, self.size):  # the graph has too few of these rows
            statement = self._table.sql(_NEAREST, where=where, order=SQL("distance"))
            found = self._table.rows(statement, [embedding, *values, num_candidates])
        scores = -np.array([distance for _, distance, _ in found], np.float32)
        rows = np.array([row for row, _, _ in found], np.int64)
        self._ids.note({row >> 20: document_id for row, _, document_id in found})
        best_first = np.argsort(-scores, kind="stable")
        return scores[best_first], rows[best_first]

    def scores(self, embedding: Embeddings, rows: Rows) -> Embeddings:
        """The scores (n,) at `rows` (n,), as `VectorIndex.scores`.

        :raises ChangedMeanwhileError: When one is gone.
        """
        found = dict(self._table.rows(self._table.sql(_AT), [embedding, *numbers_of(rows)]))
        _check_all(found, rows)
        return -np.array([found[row] for row in rows.tolist()], np.float32)

    def has_all(self, asked: int, found: int) -> bool:
        """As `SearchedRows.has_all`."""
        return found < asked


class DocumentIds:
    """The documents of rows, by their ids. Thread-safe; a row is always of the same document."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._kept: dict[int, str] = {}

    def note(self, found: dict[int, str]) -> None:
        """Keep the ids of documents by their numbers."""
        if len(self._kept) > _MOST_KEPT:
            self._kept = {}
        self._kept |= found

    def __getitem__(self, rows: Rows) -> NDArray[np.int32]:
        """Numbers (k,) of the documents at `rows` (k,), in the order of the ids among these."""
        documents, _ = numbers_of(rows)
        ids = {document: self._kept.get(document) for document in documents}
        if missing := [document for document, found in ids.items() if found is None]:
            statement = "SELECT document, document_id FROM {documents} WHERE document = ANY(%s)"
            found = dict(self._table.rows(self._table.sql(statement), [missing]))
            self.note(found)
            ids |= {document: found.get(document, "") for document in missing}
        named = np.array([ids[document] for document in documents], dtype=object)
        _, numbers = np.unique(named, return_inverse=True)
        return numbers.astype(np.int32)


class PostgresStore:
    """The documents and passages of an index. Thread-safe."""

    base = None
    changed: Mapping[str, Document | None] = MappingProxyType({})

    def __init__(self, table: Table, state: State) -> None:
        self._table, self._last = table, state.last_document
        self.num_documents, self.num_passages = state.num_documents, state.num_passages

    def passages(self, rows: Sequence[int], *, include_text: bool = True) -> list[StoredPassage]:
        """As `Store.passages`.

        :raises ChangedMeanwhileError: When one is gone.
        """
        statement = self._table.sql(_PASSAGES, shown=_TEXTS[include_text])
        found = self._table.rows(statement, numbers_of(np.array(rows, np.int64)))
        _check_all(found, rows)
        return [
            StoredPassage(
                Passage(f"{document_id}#{number}", document_id, text, start, end, heading),
                title,
                json.loads(metadata),
            )
            for document_id, title, metadata, number, start, end, heading, text in found
        ]

    def document(self, document_id: str) -> Document:
        """As `Store.document`."""
        statement = "SELECT text, title, metadata, sections FROM {documents} WHERE document_id = %s"
        found = []
        if isinstance(document_id, str) and can_keep(document_id):
            found = self._table.rows(self._table.sql(statement), [document_id])
        if not found:
            raise UnknownDocumentError(document_id)
        ((text, title, metadata, sections),) = found
        return Document(document_id, text, title, json.loads(metadata), json.loads(sections))

    def titles(self, count: int) -> dict[str, str]:
        """As `Store.titles`."""
        numbers = [*range(1, self._last + 1, -(-self._last // count) or 1)]
        statement = "SELECT document_id, title FROM {documents} WHERE document = ANY(%s::bigint[])"
        return dict(self._table.rows(self._table.sql(statement), [numbers]))

    def close(self) -> None:
        """As `Store.close`."""
        self._table.close()


@dataclass(frozen=True, kw_only=True)
class PostgresParts(SearchParts):
    """The parts of an index on a server."""

    table: Table
    state: State
    index: PostgresRows
    passage_to_document: DocumentIds
    store: PostgresStore
    lexical: PostgresWords | None = None

    waiting_seconds = 0.01

    @property
    def counts_values(self) -> bool:
        """As `SearchParts.counts_values`."""
        return True

    @property
    def num_rows(self) -> int:
        """As `SearchParts.num_rows`; what is deleted is gone."""
        return self.state.num_passages

    def check(self) -> None:
        """As `SearchParts.check`."""
        if self.state.width != self.encoder.dim:
            raise CorruptIndexError(
                f"{self.table.address} has embeddings of {self.state.width} dimensions, but the "
                f"encoder gives {self.encoder.dim}"
            )

    def selection(self, tree: Filter | None) -> Selection:
        """As `SearchParts.selection`."""
        if tree is None:
            return Selection(self.index, self.lexical, self.store.num_documents)
        where = self._predicate(tree)
        statement = "SELECT count(*), coalesce(sum(passages), 0) FROM {documents} WHERE {where}"
        ((documents, passages),) = self._rows(statement, where)
        graph = self.state.graph_width if passages > EXACT_UP_TO else None
        ids = self.passage_to_document
        index = PostgresRows(self.table, ids, int(passages), where, graph)
        return Selection(index, self.lexical and self.lexical.restricted_to(where), documents)

    def document_ids(self, tree: Filter) -> list[str]:
        """As `SearchParts.document_ids`."""
        statement = "SELECT document_id FROM {documents} WHERE {where}"
        return [found for (found,) in self._rows(statement, self._predicate(tree))]

    def fields(self) -> tuple[str, ...]:
        """As `SearchParts.fields`."""
        found = self.table.rows(self.table.sql(_FIELDS), [MOST_FIELDS])
        return tuple(sorted(field_of(key) for (key,) in found))

    def facets(self, fields: Sequence[str], tree: Filter) -> Counts:
        """As `SearchParts.facets`."""
        where = self._predicate(tree)
        return {field: self._facet(field, where) for field in fields}

    def check_groups(self, path: str, tree: Filter) -> None:
        """As `SearchParts.check_groups`."""
        values, where = keys_in(values_of(path).keys), self._predicate(tree)
        statement = """
            SELECT EXISTS (
                SELECT FROM {keys} WHERE {where} GROUP BY document HAVING count(*) > 1
            )
        """
        ((several,),) = self._rows(statement, both(values, where))
        check_values(path, exists=self._exists(values), several=several)

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
            return self._exists(keys_in(condition.keys))

        if (condition := first_without_values(tree, exists)) is not None:
            raise unknown_field(condition, self.fields())
        return predicate_of(self.table, tree)

    def _exists(self, keys: Predicate) -> bool:
        ((found,),) = self._rows("SELECT EXISTS (SELECT FROM {keys} WHERE {where})", keys)
        return bool(found)

    def _rows(self, text: LiteralString, where: Predicate, *values: int) -> list[tuple[Any, ...]]:
        condition, keys = where
        return self.table.rows(self.table.sql(text, where=condition), [*keys, *values])


def _check_all(found: Sized, rows: Sized) -> None:
    if len(found) < len(rows):
        raise ChangedMeanwhileError("documents were deleted during the search: search again")
