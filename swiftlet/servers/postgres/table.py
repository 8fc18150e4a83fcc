"""The tables of an index on a PostgreSQL server, and what goes wrong between us and it."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields
from math import inf
from queue import Empty, LifoQueue
from time import perf_counter
from typing import Any, LiteralString

import psycopg
from psycopg.errors import (
    DependentObjectsStillExist,
    DuplicateTable,
    InsufficientPrivilege,
    QueryCanceled,
    ReadOnlySqlTransaction,
    UndefinedColumn,
    UndefinedTable,
)
from psycopg.pq import TransactionStatus
from psycopg.sql import SQL, Composable, Composed, Identifier

from swiftlet.address import TOKEN_VARIABLE, Address
from swiftlet.deadline import seconds_left
from swiftlet.errors import (
    IndexServerAwayError,
    IndexServerError,
    IndexServerTimeoutError,
    InvalidArgumentError,
)
from swiftlet.index.vectors.vector_index import Rows
from swiftlet.servers.postgres.connection import Connection, connect
from swiftlet.servers.state import LONGEST_SECONDS, PushState

TABLES = ("documents", "keys", "postings", "words", "index")
"""The tables beside the table of the passages; their names follow on its name."""

MOST_PASSAGES = (1 << 20) - 1
"""The passages of a document, so that a row is a number of 64 bits."""

_WRONG: dict[type[psycopg.Error], str] = {
    UndefinedTable: "there is no {address}: make it by swiftlet push INDEX --to {address}",
    DuplicateTable: "{message}, and was not made by Swiftlet: choose another name than {address}",
    InsufficientPrivilege: (
        "{server} does not permit this: {message}; grant the right, or name another user in "
        "{variable}"
    ),
    ReadOnlySqlTransaction: "{server} is read-only, as a copy is: name the server that is written",
    DependentObjectsStillExist: (
        "other objects of the database depend on the tables of {address}: drop them first"
    ),
}
_HALVES = re.compile("[\ud800-\udfff]")
_STARTING = (
    "starting up", "shutting down", "recovery", "too many", "connection slots",
)  # fmt: skip
_OF_USERS = ("password", "role", "authentication", "pg_hba")


@dataclass(frozen=True, slots=True)
class State(PushState):
    """The only row of the table `index`.

    `ef_search` is how much of the graph a search visits; None if there is none. `mean_length` is
    the mean of passages in words, None without words. The documents are numbered up to
    `last_document`, and no number is used again. `change` counts the changes.
    """

    ef_search: int | None
    mean_length: float | None
    num_documents: int = 0
    num_passages: int = 0
    last_document: int = 0
    change: int = 0

    def spread(self, count: int) -> list[int]:
        """The numbers of at most `count` documents, from all parts of the corpus."""
        return [*range(1, self.last_document + 1, -(-self.last_document // count) or 1)]


_COLUMNS = SQL(", ").join(Identifier(field.name) for field in fields(State))


class Table:
    """The tables of an index by their address. Thread-safe; it connects again when it must.

    If it `is_open`, it was there before: without it, the index is away. `names` are the
    names of the tables.
    """

    def __init__(self, address: Address) -> None:
        """Connect to the server.

        :raises IndexServerError: When it does not answer.
        :raises InvalidArgumentError: When it refuses the user or the password, or has no such
            database.
        """
        self.address = address
        self.is_open = False
        self._settings: dict[str, str] = {}
        self._idle: LifoQueue[Connection] = LifoQueue()
        self.names = {name: Identifier(f"{address.collection}_{name}") for name in TABLES}
        self.names["passages"] = Identifier(address.collection)
        with self.connection(LONGEST_SECONDS):
            pass

    def sql(self, text: LiteralString, **parts: Composable) -> Composed:
        """A statement in which {documents}, for example, is the name of that table."""
        return SQL(text).format(**self.names, **parts)

    def rows(
        self, statement: Composed, values: Sequence[Any] = (), *, longest: float = LONGEST_SECONDS
    ) -> list[tuple[Any, ...]]:
        """The rows of a statement, which is a transaction of its own.

        :raises IndexServerTimeoutError: When the deadline of the search passes first.
        :raises IndexServerError: When the server is away, or refuses.
        :raises InvalidArgumentError: When there is no such table, or no right to it.
        """
        with self.connection(longest) as connection:
            return connection.execute(statement, values, binary=True).fetchall()

    def use(self, ef_search: int | None) -> None:
        """Visit so much of the graph from now on."""
        settings = {} if ef_search is None else {"hnsw.ef_search": f"{ef_search}"}
        if settings != self._settings:
            self._settings = settings
            self.close()

    @contextmanager
    def transaction(self, longest: float) -> Iterator[Connection]:
        """A connection in a transaction; errors as in `rows`."""
        with self.connection(longest) as connection, connection.transaction():
            yield connection

    @contextmanager
    def connection(self, longest: float) -> Iterator[Connection]:
        """A connection for statements of at most `longest` seconds; errors as in `rows`."""
        due = perf_counter() + min(longest, seconds_left())
        if due <= perf_counter():
            raise IndexServerTimeoutError("the deadline passed before the index was searched")
        connection = None
        try:
            connection = self._usable()
            connection.due, settings = due, self._settings
            yield connection
        except psycopg.Error as error:
            raise self._error(error, connection, due) from error
        finally:
            if connection is not None:
                connection.due = inf
                is_idle = connection.info.transaction_status == TransactionStatus.IDLE
                if not is_idle or settings != self._settings:
                    connection.close()
                else:
                    self._idle.put(connection)

    def close(self) -> None:
        """Close the connections that are idle."""
        while not self._idle.empty():
            self._idle.get().close()

    def __del__(self) -> None:
        self.close()

    def seen(self) -> tuple[int, State]:
        """What is another number when the tables were made again, and the state.

        :raises InvalidArgumentError: When there is none, or it is of another program.
        """
        if (found := self.find()) is None:
            raise self._problem(UndefinedTable())
        return found

    def find(self) -> tuple[int, State] | None:
        """The number and the state of the tables; None if there is no table of the name.

        :raises InvalidArgumentError: When it is of another program.
        """
        statement = self.sql("SELECT tableoid::oid, {columns} FROM {index}", columns=_COLUMNS)
        try:
            found = self.rows(statement)
        except (InvalidArgumentError, IndexServerError) as error:
            if not isinstance(error.__cause__, UndefinedTable | UndefinedColumn):
                raise
            name = self.names["passages"].as_string()
            ((other,),) = self.rows(SQL("SELECT to_regclass(%s)::oid").format(), [name])
            if isinstance(error.__cause__, UndefinedTable) and other is None:
                return None
            found = []
        if len(found) != 1:
            raise InvalidArgumentError(
                f"{self.address} was not made by Swiftlet: choose another table"
            )
        return found[0][0], State(*found[0][1:])

    def lock(self, connection: Connection) -> State:
        """The state in a transaction, which no other one changes until that ends."""
        statement = self.sql("SELECT {columns} FROM {index} FOR UPDATE", columns=_COLUMNS)
        (found,) = connection.execute(statement).fetchall()
        return State(*found)

    def insert_state(self, connection: Connection, state: State) -> None:
        """Write the first state."""
        places = SQL(", ").join([SQL("%s")] * len(fields(State)))
        values = self.sql(
            "INSERT INTO {index} ({columns}) VALUES ({places})", columns=_COLUMNS, places=places
        )
        connection.execute(values, astuple(state))

    def _usable(self) -> Connection:
        while True:
            try:
                connection = self._idle.get_nowait()
            except Empty:
                return connect(self.address, self._settings)
            if connection.is_usable:
                return connection
            connection.close()

    def _error(
        self, error: psycopg.Error, connection: Connection | None, due: float
    ) -> IndexServerError | InvalidArgumentError:
        """The error that one of the client stands for."""
        server, message = self.address.server, f"{error}".partition("\n")[0]
        if connection is None:
            return self._refusal(message)
        if perf_counter() >= due or isinstance(error, QueryCanceled):
            connection.close()  # the server ends the statement when it notices
            return IndexServerTimeoutError(f"{server} has not answered in time")
        if connection.closed:
            return IndexServerAwayError(f"{server} does not answer")
        return self._problem(error)

    def _problem(self, error: psycopg.Error) -> IndexServerError | InvalidArgumentError:
        """What is wrong if the server has answered."""
        server, message = self.address.server, f"{error}".partition("\n")[0]
        if isinstance(error, UndefinedTable) and self.is_open:
            return IndexServerAwayError(f"{self.address} has been removed")
        if sentence := _WRONG.get(type(error)):
            place = {"server": server, "address": self.address, "variable": TOKEN_VARIABLE}
            return InvalidArgumentError(sentence.format(message=message, **place))
        return IndexServerError(f"{server} refuses: {message}")

    def _refusal(self, message: str) -> IndexServerError | InvalidArgumentError:
        """Why there is no connection."""
        server = self.address.server
        reason = message.rpartition("FATAL:  ")[2].rpartition("failed: ")[2]
        refused = "FATAL:" in message or "password" in message
        if any(words in reason for words in _STARTING):
            refused = False
        if self.is_open:
            what = f"refuses the connection ({reason})" if refused else "does not answer"
            return IndexServerAwayError(f"{server} {what}")
        if "ssl" in message.lower():
            return InvalidArgumentError(
                f"there is no connection to {server} with this TLS "
                f"({reason.rstrip(': ')}): check the port, PGSSLMODE and PGSSLROOTCERT"
            )
        if not refused:
            return IndexServerAwayError(
                f"{server} does not answer ({reason}): check that it runs, the host and the port"
            )
        if "database" in reason and "does not exist" in reason:
            return InvalidArgumentError(
                f"{server} has no database {self.address.database}: create it first"
            )
        if any(word in reason for word in _OF_USERS):
            return InvalidArgumentError(
                f"{server} refuses the user or the password ({reason}): set {TOKEN_VARIABLE} to "
                "USER:PASSWORD"
            )
        return InvalidArgumentError(f"{server} refuses the connection: {reason}")


def numbers_of(rows: Rows) -> tuple[list[int], list[int]]:
    """The numbers of the documents at `rows` (k,), and of the passages in them."""
    return (rows >> 20).tolist(), (rows & MOST_PASSAGES).tolist()


def can_keep(text: str) -> bool:
    """Whether a server can keep a text: it has no character of the number 0, and no half of one."""
    return "\0" not in text and not _HALVES.search(text)
