"""The words of passages on a PostgreSQL server: a row for each word of each passage."""

from collections.abc import Sequence

import numpy as np
from psycopg.sql import SQL, Composed

from swiftlet.index.lexical.analysis import Analysis
from swiftlet.index.lexical.bm25 import query_vector, word_place
from swiftlet.index.lexical.index import Words, counted_words
from swiftlet.index.vectors.vector_index import Rows
from swiftlet.servers.postgres.filters import Predicate
from swiftlet.servers.postgres.table import Table, numbers_of
from swiftlet.servers.words import MarkedWords
from swiftlet.types import Embeddings

_SCORES = """
SELECT document << 20 | number AS row, sum(postings.weight * query.weight) AS score
FROM {postings} AS postings JOIN unnest(%s::bigint[], %s::float8[]) AS query (word, weight)
USING (word) {condition} GROUP BY document, number
"""


class PostgresWords:
    """Finds the passages of some documents, or of all, that share words with a query. Thread-safe.

    Scores are as in `LexicalIndex`, with the mean length of passages when the index was pushed.
    """

    def __init__(self, table: Table, analysis: Analysis, size: int, where: Predicate) -> None:
        """Search the documents of `where` in an index of `size` passages."""
        self.table, self.analysis, self.where = table, analysis, where
        self._size = size

    def restricted_to(self, where: Predicate) -> "PostgresWords":
        """The passages of some documents alone."""
        return PostgresWords(self.table, self.analysis, self._size, where)

    def has_all(self, asked: int, found: int) -> bool:
        """As `SearchedWords.has_all`."""
        return found < asked

    def parse(self, text: str) -> "PostgresWordQuery":
        """As `SearchedWords.parse`."""

        def passages(words: Sequence[str]) -> dict[str, int]:
            statement = "SELECT word, passages FROM {words} WHERE word = ANY(%s::bigint[])"
            places = {word: word_place(word) for word in words}
            found = dict(self.table.rows(self.table.sql(statement), [[*places.values()]]))
            return {word: found.get(place, 0) for word, place in places.items()}

        words = counted_words(text, self.analysis, self._size, passages)
        return PostgresWordQuery(self, words)


class PostgresWordQuery(MarkedWords):
    """The words of a query, to be searched by the server."""

    def __init__(self, index: PostgresWords, words: Words) -> None:
        super().__init__(index.analysis, words)
        vector = query_vector(words)
        self._index, self._vector = index, ([*vector], [*vector.values()])

    def search(self, num_candidates: int) -> tuple[Embeddings, Rows]:
        """As `WordQuery.search`."""
        where, values = self._index.where
        found = self._found(
            SQL("WHERE {}").format(where), [*values, num_candidates],
            SQL("ORDER BY score DESC, row LIMIT %s"),
        )  # fmt: skip
        scores = np.array([score for _, score in found], np.float32)
        return scores, np.array([row for row, _ in found], np.int64)

    def scores(self, rows: Rows) -> Embeddings:
        """As `WordQuery.scores`."""
        only = SQL("JOIN unnest(%s::bigint[], %s::int[]) AS asked (document, number) USING ({})")
        found = self._found(only.format(SQL("document, number")), [*numbers_of(rows)])
        scores = np.zeros(len(rows), np.float32)
        for row, score in found:
            scores[np.searchsorted(rows, row)] = score
        return scores

    def _found(
        self,
        condition: Composed,
        values: Sequence[object],
        end: SQL = SQL(""),  # noqa: B008
    ) -> list[tuple[int, float]]:
        table = self._index.table
        return table.rows(table.sql(_SCORES, condition=condition) + end, [*self._vector, *values])
