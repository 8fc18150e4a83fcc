"""A connection to a PostgreSQL server that keeps deadlines, and takes embeddings as they are."""

import select
from math import inf
from time import perf_counter
from typing import Any

import numpy as np
import psycopg
from psycopg.abc import PQGen
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format
from psycopg.types import TypeInfo

from swiftlet.address import Address

_CONNECT_SECONDS = 3
# The server ends a statement whose client is gone. It does not compile statements, because that
# takes longer than it saves. It searches the graph until enough rows pass the filter.
_SETTINGS = {
    "client_connection_check_interval": "1s",
    "jit": "off",
    "hnsw.iterative_scan": "strict_order",
}
_WITH_PGVECTOR = b"""
    SELECT set_config('search_path', concat_ws(', ', nullif(current_setting('search_path'), ''),
        extnamespace::regnamespace), false) FROM pg_extension WHERE extname = 'vector'
"""


class Connection(psycopg.Connection[Any]):
    """A connection that waits for the server until `due`, a time of `perf_counter`."""

    due = inf

    def wait(self, gen: PQGen[Any], interval: float = 0.1, timeout: float | None = None) -> Any:
        """As psycopg's, until the connection's statements are due."""
        if self.due < inf:
            timeout = max(0.0, self.due - perf_counter())
        return super().wait(gen, interval, timeout)

    @property
    def is_usable(self) -> bool:
        """Whether the server has not closed it while it was idle."""
        if self.closed:
            return False
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        return not poll.poll(0)  # an idle connection has nothing to read


def connect(address: Address, settings: dict[str, str]) -> Connection:
    """A connection to the database of an address, with settings of the session.

    :raises psycopg.Error: When the server does not answer or refuses.
    """
    user, _, password = address.token.partition(":")
    connection = Connection.connect(
        host=address.host.strip("[]"),
        port=address.port,
        dbname=address.database,
        user=user or None,
        password=password or None,
        connect_timeout=_CONNECT_SECONDS,
        autocommit=True,
        prepare_threshold=None,  # a plan for any values is not the best for these
        client_encoding="utf-8",
        application_name="swiftlet",
    )
    calls = ", ".join(["set_config(%s, %s, false)"] * len(_SETTINGS | settings))
    values = [part for pair in (_SETTINGS | settings).items() for part in pair]
    connection.execute(f"SELECT {calls}".encode(), values)
    know_vectors(connection)
    return connection


def know_vectors(connection: Connection) -> None:
    """Read and write pgvector's vectors as arrays (dim,), if the database has the extension.

    Its schema need not be in the search path of the user: it is put at the end.
    """
    connection.execute(_WITH_PGVECTOR)
    if (found := TypeInfo.fetch(connection, "vector")) is not None:
        found.register(connection)
        connection.adapters.register_loader(found.oid, _Loader)
        connection.adapters.register_dumper(
            np.ndarray, type("_Dumper", (_Dumper,), {"oid": found.oid})
        )


class _Dumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Any) -> bytes:
        return b"".join((len(obj).to_bytes(2), b"\0\0", obj.astype(">f4").tobytes()))


class _Loader(Loader):
    format = Format.BINARY

    def load(self, data: Any) -> Any:
        return np.frombuffer(data, ">f4", offset=4).astype(np.float32)
