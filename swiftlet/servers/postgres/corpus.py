"""The documents of an index on a PostgreSQL server, to be pulled."""

import json
from collections.abc import Iterator
from math import inf
from typing import IO

import numpy as np
from typing_extensions import override

from swiftlet.address import Address
from swiftlet.index.columns.columns import field_keys
from swiftlet.index.documents.split import SplitDocument
from swiftlet.servers.corpus import ServerCorpus
from swiftlet.servers.postgres.filters import keys_in
from swiftlet.servers.postgres.parts import has_keys
from swiftlet.servers.postgres.table import Table
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


class PostgresCorpus(ServerCorpus):
    """The documents of an index at one moment."""

    def __init__(self, address: Address, embeddings: IO[bytes]) -> None:
        self._table = Table(address)
        super().__init__(self._table.seen()[1].manifest_at(address), embeddings)

    @override
    def facets(self) -> tuple[str, ...]:
        declared = self.manifest.details.get("facets", ())
        table = self._table
        return tuple(x for x in declared if has_keys(table, keys_in((field_keys(x),))))

    @override
    def pulled(self) -> Iterator[tuple[SplitDocument, Embeddings]]:
        statement, last = self._table.sql(_DOCUMENTS), 0
        with self._table.transaction(inf) as connection:
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
