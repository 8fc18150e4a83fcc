"""The tables of an index that is being pushed to a PostgreSQL server."""

from collections.abc import Iterator
from dataclasses import replace
from math import inf

from psycopg.errors import FeatureNotSupported
from psycopg.sql import SQL, Identifier
from typing_extensions import override

from swiftlet.address import Address
from swiftlet.errors import InvalidArgumentError
from swiftlet.index.documents.split import SplitDocument
from swiftlet.progress import Progress
from swiftlet.servers.postgres.passages import PostgresPassages
from swiftlet.servers.postgres.rows import COLUMNS, Numbered, check_document, words_in, write
from swiftlet.servers.postgres.table import TABLES, State, Table
from swiftlet.servers.sources import Source
from swiftlet.servers.state import EXACT_UP_TO, PushState, manifest_text
from swiftlet.servers.target import Target
from swiftlet.types import Embeddings

_BATCH_PASSAGES = 1_000
_WIDEST_IN_ROW = 1_900  # numbers of an embedding that a page of the server holds
_LEAST_EF, _MOST_EF = 40, 1_000
_OTHER_TABLES = """
CREATE TABLE {words} (word int8 NOT NULL, passages int8 NOT NULL);
CREATE TABLE {index} (
    manifest text NOT NULL, source text NOT NULL, state text NOT NULL, width int4 NOT NULL,
    index_type text, ef_search int4, mean_length float8, num_documents int8 NOT NULL,
    num_passages int8 NOT NULL, last_document int8 NOT NULL, change int8 NOT NULL
);
"""
_INDEXES = {
    "by_number": SQL("UNIQUE INDEX IF NOT EXISTS {name} ON {documents} (document)"),
    "by_id": SQL("UNIQUE INDEX IF NOT EXISTS {name} ON {documents} (document_id)"),
    "by_place": SQL("UNIQUE INDEX IF NOT EXISTS {name} ON {passages} (document, number)"),
    "by_key": SQL("UNIQUE INDEX IF NOT EXISTS {name} ON {keys} (key, document)"),
    "keys_of": SQL("INDEX IF NOT EXISTS {name} ON {keys} (document)"),
    "by_word": SQL(
        "UNIQUE INDEX IF NOT EXISTS {name} ON {postings} (word, document, number) INCLUDE (weight)"
    ),
    "words_of": SQL("INDEX IF NOT EXISTS {name} ON {postings} (document)"),
    "by_count": SQL("UNIQUE INDEX IF NOT EXISTS {name} ON {words} (word)"),
}
_GRAPH = SQL(
    "INDEX IF NOT EXISTS {name} ON {passages} "
    "USING hnsw ((embedding::halfvec({width})) halfvec_ip_ops)"
)
_IS_INDEX = "SELECT FROM pg_index WHERE indexrelid = to_regclass(%s)"
_COUNT_WORDS = """
TRUNCATE {words};
INSERT INTO {words} SELECT word, count(*) FROM {postings} GROUP BY word;
"""
_SAMPLE = """
SELECT title, substr(text, start_char + 1, end_char - start_char), heading, embedding
FROM {documents} JOIN {passages} USING (document)
WHERE document = ANY(%s::int8[]) AND number = mod(document, passages)
"""


class PostgresTarget(Target):
    """The tables of an index."""

    server = "PostgreSQL"
    index_types = "FLAT", "HNSW"

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self.table = Table(address)

    @override
    def begun(self) -> PushState | None:
        found = self.table.find()
        return found and found[1]

    @override
    def check_document(self, document: SplitDocument) -> None:
        check_document(document, len(document.passages))

    @override
    def create(self, source: Source, progress: Progress) -> None:
        manifest, table = source.manifest, self.table
        exists = table.find() is not None
        with table.transaction(inf) as connection:
            ((encoding,),) = connection.execute("SHOW server_encoding").fetchall()
            if encoding != "UTF8":
                raise InvalidArgumentError(
                    f"the database {self.address.database} keeps texts as {encoding}, but UTF8 is "
                    "expected: create another database"
                )
            try:
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            except FeatureNotSupported as error:
                raise InvalidArgumentError(
                    f"{self.address.server} has no pgvector: install this extension on the server"
                ) from error
            if exists:
                names = SQL(", ").join(table.names[name] for name in (*COLUMNS, *TABLES))
                connection.execute(SQL("DROP TABLE IF EXISTS {}").format(names))
            for name, types in COLUMNS.items():
                columns = [
                    SQL("{} {} NOT NULL").format(Identifier(column), Identifier(kind))
                    for column, kind in types.items()
                ]
                create = SQL("CREATE TABLE {} ({})").format(
                    table.names[name], SQL(", ").join(columns)
                )
                connection.execute(create)
            if manifest.dim <= _WIDEST_IN_ROW:
                alter = "ALTER TABLE {passages} ALTER embedding SET STORAGE PLAIN"
                connection.execute(table.sql(alter))
            connection.execute(table.sql(_OTHER_TABLES))
            about = manifest_text(manifest), source.identity, "0", manifest.dim
            table.insert_state(connection, State(*about, None, None, self.mean_length))
        table.close()  # idle connections do not know the types of the extension

    @override
    def write(self, source: Source, total: int, done: int, progress: Progress) -> None:
        table, (_, state) = self.table, self.table.seen()
        words = words_in(state, source.manifest)
        progress.begin("Pushing passages", total, done)
        for batch in _batches(source, done, state.last_document):
            size = sum(len(each.passages) for each in batch)
            before, done = done, done + size
            update = """
                UPDATE {index} SET state = %s, last_document = %s, num_passages = %s,
                num_documents = num_documents + %s WHERE state = %s
            """
            with table.transaction(inf) as connection:
                values = f"{done}", batch[-1].number, done, len(batch), f"{before}"
                if not connection.execute(table.sql(update), values).rowcount:
                    raise InvalidArgumentError(
                        f"another push is writing {self.address}: wait until it has ended, or end "
                        "it, and run this one again"
                    )
                write(table, connection, batch, words)
            progress.advance(size)

    @override
    def index(self, total: int, index_type: str | None, progress: Progress) -> None:
        progress.begin("Indexing on the server", None)
        table, (_, state) = self.table, self.table.seen()
        chosen = state.index_type or index_type or ("FLAT" if total <= EXACT_UP_TO else "HNSW")
        indexes = {**_INDEXES, **({"graph": _GRAPH} if chosen == "HNSW" else {})}
        with table.connection(inf) as connection:
            connection.execute(table.sql("UPDATE {index} SET index_type = %s"), [chosen])
            connection.execute(table.sql(_COUNT_WORDS))
            for name, index in indexes.items():
                its_name = Identifier(f"{self.address.collection}_{name}")
                statement = index.format(**table.names, name=its_name, width=state.width)
                connection.execute(SQL("CREATE ") + statement)
                if not connection.execute(_IS_INDEX, [its_name.as_string()]).fetchall():
                    raise InvalidArgumentError(
                        f"the database has something else of the name {its_name.as_string()}: "
                        "remove or rename it, and run the same push again"
                    )
            for each in ("documents", "passages", "keys", "postings", "words"):
                connection.execute(SQL("VACUUM (ANALYZE) {}").format(table.names[each]))

    @override
    def count(self) -> int:
        statement = self.table.sql("SELECT count(*) FROM {passages}")
        ((found,),) = self.table.rows(statement, longest=inf)
        return int(found)

    @override
    def sample(self, count: int) -> list[tuple[str, str, str, Embeddings]]:
        numbers = self.table.seen()[1].spread(count)
        found = self.table.rows(self.table.sql(_SAMPLE), [numbers], longest=inf)
        return [(title, text, heading, embedding) for title, text, heading, embedding in found]

    @property
    @override
    def efforts(self) -> tuple[int, int] | None:
        _, state = self.table.seen()
        return (_LEAST_EF, _MOST_EF) if state.index_type == "HNSW" else None

    @override
    def search(self, queries: Embeddings, count: int, effort: int) -> list[list[float]]:
        _, state = self.table.seen()
        self.table.use(effort)
        rows = PostgresPassages(self.table, replace(state, ef_search=effort))
        return [rows.search(query, count)[0].tolist() for query in queries]

    @override
    def set_state(self, state: str, effort: int | None = None) -> None:
        update = self.table.sql("UPDATE {index} SET state = %s, ef_search = %s")
        with self.table.connection(inf) as connection:
            connection.execute(update, [state, effort])


def _batches(source: Source, done: int, last: int) -> Iterator[list[Numbered]]:
    """The documents after the first `done` passages, numbered from `last` + 1 on."""
    batch: list[Numbered] = []
    size = 0
    for number, (document, embeddings) in enumerate(source.encoded(done), last + 1):
        batch.append(Numbered(number, document, document.passages, embeddings))
        size += len(document.passages)
        if size >= _BATCH_PASSAGES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
