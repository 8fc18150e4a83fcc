"""The words of passages on a PostgreSQL server: a row for each word of each passage."""

from collections.abc import Mapping, Sequence

from psycopg.sql import SQL, Composed
from typing_extensions import override

from swiftlet.index.lexical.analysis import Analysis
from swiftlet.index.lexical.bm25 import SparseVector
from swiftlet.index.vectors.vector_index import Rows
from swiftlet.servers.postgres.filters import EVERYTHING, Predicate
from swiftlet.servers.postgres.table import Table, numbers_of
from swiftlet.servers.words import ServerWords

_SCORES = """
SELECT document << 20 | number AS row, sum(postings.weight * query.weight) AS score
FROM {postings} AS postings JOIN unnest(%s::bigint[], %s::float8[]) AS query (word, weight)
USING (word) {condition} GROUP BY document, number
"""
_ONLY = "JOIN unnest(%s::bigint[], %s::int[]) AS asked (document, number) USING (document, number)"


class PostgresWords(ServerWords):
    """The words of passages; their mean length is that of the moment of the push."""

    where: Predicate

    def __init__(self, table: Table, analysis: Analysis, size: int) -> None:
        super().__init__(analysis, size, EVERYTHING)
        self._table = table

    @override
    def counts(self, places: Sequence[int]) -> Mapping[int, int]:
        statement = "SELECT word, passages FROM {words} WHERE word = ANY(%s::bigint[])"
        return dict(self._table.rows(self._table.sql(statement), [places]))

    @override
    def best(self, vector: SparseVector, count: int) -> Sequence[tuple[int, float]]:
        where, values = self.where
        end = SQL("ORDER BY score DESC, row LIMIT %s").format()
        return self._found(vector, SQL("WHERE {}").format(where), [*values, count], end)

    @override
    def scored(self, vector: SparseVector, rows: Rows) -> Sequence[tuple[int, float]]:
        return self._found(vector, SQL(_ONLY).format(), [*numbers_of(rows)])

    def _found(
        self, vector: SparseVector, condition: Composed, values: Sequence[object],
        end: Composed | None = None,
    ) -> Sequence[tuple[int, float]]:  # fmt: skip
        statement = self._table.sql(_SCORES, condition=condition)
        asked = [[*vector], [*vector.values()], *values]
        return self._table.rows(statement + end if end else statement, asked)
