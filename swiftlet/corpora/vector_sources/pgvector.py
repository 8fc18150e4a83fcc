"""A table of PostgreSQL with a column of vectors."""

from typing import Any
from urllib.parse import unquote, urlencode

from swiftlet.corpora.fields import ID_FIELDS, Fields
from swiftlet.corpora.vector_sources.place import Place
from swiftlet.corpora.vector_sources.source import ROWS_AT_ONCE, Pairs, Source, chosen, of_pairs
from swiftlet.corpora.vectors import Metric
from swiftlet.errors import CollectionError
from swiftlet.extras import extra

_METRICS: dict[str, Metric] = {"cosine": "cosine", "ip": "inner_product", "l2": "l2"}
_VECTORS = ("vector", "halfvec", "_float4", "_float8")
_LEFT_OUT = ("sparsevec", "tsvector", "bit", "bytea")
_TABLES = """
    SELECT DISTINCT attrelid::regclass::text FROM pg_attribute
    JOIN pg_class ON pg_class.oid = attrelid JOIN pg_type ON pg_type.oid = atttypid
    WHERE typname IN ('vector', 'halfvec') AND relkind IN ('r', 'p', 'v', 'm', 'f')
    AND pg_table_is_visible(attrelid) ORDER BY 1
"""
_COLUMNS = """
    SELECT attname, typname FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
    WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_KEY = """
    SELECT attname FROM pg_index
    JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY(indkey)
    WHERE indrelid = %s::regclass AND indisprimary
"""
_OPERATORS = """
    SELECT opcname FROM pg_index JOIN pg_opclass ON pg_opclass.oid = ANY(indclass)
    JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY(indkey)
    WHERE indrelid = %s::regclass AND attname = %s
"""


def open_pgvector(place: Place, vector_field: str | None, fields: Fields | None) -> Source:
    """The rows of a table in the order of its key, which is "_id" unless `fields` say otherwise.

    The address is libpq's, `postgresql://USER@HOST:PORT/DATABASE?table=TABLE`; its other options
    are libpq's, too.

    :raises CollectionError: When the server does not answer or refuses; when there are several
        tables or columns of vectors of which none is chosen; when the table has no key.
    :raises MissingExtraError: When psycopg is not installed.
    """
    with extra("postgres"):
        import psycopg
        from psycopg import sql
        from psycopg.rows import dict_row

    def connect() -> "psycopg.Connection[Any]":
        user, _, password = map(unquote, place.token.partition(":"))
        options = {name: each for name, each in place.options.items() if name != "table"}
        query = f"?{urlencode(options)}" if options else ""
        address = f"postgresql://{place.host}/{place.path}{query}"
        # Not in the address, which may stand in an error.
        return psycopg.connect(address, user=user or None, password=password or None)

    with place.reading(psycopg.Error), connect() as connection:
        table = place.options.get("table")
        if table is None:
            table = place.one("table", [name for (name,) in connection.execute(_TABLES)])
        kinds: dict[str, str] = dict(connection.execute(_COLUMNS, [table]).fetchall())
        key = [name for (name,) in connection.execute(_KEY, [table])]
        field = chosen(
            place.name, "column", [each for each in kinds if kinds[each] in _VECTORS], vector_field
        )
        operators = [name for (name,) in connection.execute(_OPERATORS, [table, field])]
        # Quoted as the server would, with the schema where one is needed.
        (place_of,) = connection.execute("SELECT %s::regclass::text", [table]).fetchone() or ("",)
        source = sql.SQL(place_of)
        (count,) = connection.execute(
            sql.SQL("SELECT count(*) FROM {}").format(source)
        ).fetchone() or (0,)
    order = key or ([fields.id] if fields is not None and fields.id is not None else [])
    if not order:
        raise CollectionError(
            place.name, f"the table {table} has no primary key: --id-field names a column of ids"
        )
    kept = [each for each in kinds if kinds[each] not in ("vector", "halfvec", *_LEFT_OUT)]
    query = sql.SQL("SELECT {}, {}::real[] AS {} FROM {} ORDER BY {} OFFSET %s").format(
        sql.SQL(", ").join(sql.Identifier(each) for each in kept if each != field),
        sql.Identifier(field),
        sql.Identifier(field),
        source,
        sql.SQL(", ").join(map(sql.Identifier, order)),
    )

    def pairs(first: int) -> Pairs:
        with (
            place.reading(psycopg.Error),
            connect() as connection,
            connection.cursor("vectors", row_factory=dict_row) as cursor,
        ):
            cursor.itersize = ROWS_AT_ONCE
            cursor.execute(query, [first], binary=True)
            for found in cursor:
                row = {name: each for name, each in found.items() if each is not None}
                vector = row.pop(field, None)
                if len(key) == 1 and key[0] not in ID_FIELDS and (fields is None or not fields.id):
                    row["_id"] = row.pop(key[0])
                yield row, vector

    metrics = {_METRICS.get(each.split("_")[1]) for each in operators if each.count("_") == 2}
    metric = metrics.pop() if len(metrics) == 1 else None
    return of_pairs(place.name, pairs, fields, metric=metric, num_rows=count)
