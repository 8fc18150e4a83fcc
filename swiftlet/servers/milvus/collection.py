"""A collection of a Milvus server, and what goes wrong between us and it."""

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import grpc
from pymilvus import MilvusClient, MilvusException
from pymilvus.exceptions import (
    ConnectError,
    ConnectionNotExistException,
    MilvusUnavailableException,
)

from swiftlet.address import TOKEN_VARIABLE, Address
from swiftlet.deadline import seconds_left
from swiftlet.errors import (
    IndexServerAwayError,
    IndexServerError,
    IndexServerTimeoutError,
    InvalidArgumentError,
)
from swiftlet.manifest import Manifest
from swiftlet.servers.milvus import schema
from swiftlet.servers.state import LONGEST_SECONDS, PushState

SLOW_SECONDS = 600.0
"""How long it may take to load, flush or index a collection."""

METRIC = "IP"
"""What embeddings are compared by: the inner product, which is the cosine of unit vectors."""

_SCHEMES = {"milvus": "http", "milvus+tls": "https"}
_ERRORS = grpc.RpcError, MilvusException
_AWAY = ConnectError, MilvusUnavailableException, ConnectionNotExistException
_CONNECT_SECONDS = 3.0
_MOST_ROWS = 1_000
_NOT_FOUND = 100
_CHECK = ": check that it runs, the host, the port, and whether it has TLS (milvus+tls://)"
_REFUSALS = ("UNAUTHENTICATED", "PERMISSION_DENIED")
_REFUSING = ("auth check failure", "unauthenticated", "permission deny", "privilege")
_NO_DATABASE = re.compile(r"database[: ]?\S{0,255} (does )?not (found|exist)")


class _Once(float):
    """A timeout of one call; to the client, which asks whether it may call again, it is over."""

    def __le__(self, _: float) -> bool:
        return True


class Collection:
    """A collection by its address. Thread-safe; it connects again after the server was away.

    If it `is_open`, it was there before: without it, the index is away.
    """

    def __init__(self, address: Address) -> None:
        """Connect to the server.

        :raises IndexServerError: When it does not answer.
        :raises InvalidArgumentError: When it refuses the token, or lacks the database.
        """
        self.address = address
        self._had = set[str]()
        self.is_open = False
        self._connected: Any = None
        _ = self.client

    @property
    def client(self) -> Any:
        """The client of Milvus, connected."""
        if (client := self._connected) is None:
            try:
                client = MilvusClient(
                    uri=f"{_SCHEMES[self.address.scheme]}://{self.address.host}:{self.address.port}",
                    token=self.address.token,
                    db_name=self.address.database,
                    timeout=min(_CONNECT_SECONDS, seconds_left()),
                    dedicated=True,
                )
            except _ERRORS as error:
                raise self._error("connect", error) from error
            self._connected = client
            # Errors are raised; the client would also log them, each with a traceback.
            logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
        return client

    def call(self, method: str, **arguments: Any) -> Any:
        """Call a method of the client on this collection; as `ask`."""
        return self.ask(method, collection_name=self.address.collection, **arguments)

    def ask(self, method: str, *, slow: bool = False, once: bool = False, **arguments: Any) -> Any:
        """Call a method of the client.

        :param slow: Wait longer for the answer.
        :param once: Do not ask again if no answer comes: the server may have done it already.
        :raises IndexServerTimeoutError: When the deadline of the search passes first.
        :raises IndexServerError: When the server is away, or refuses.
        :raises InvalidArgumentError: When there is no such collection, or the token is refused.
        """
        seconds = seconds_left()
        if seconds <= 0:
            raise IndexServerTimeoutError("the deadline passed before the index was searched")
        longest = min(SLOW_SECONDS if slow else LONGEST_SECONDS, seconds)
        try:
            call = getattr(self.client, method)
            return call(timeout=_Once(longest) if once else longest, **arguments)
        except _ERRORS as error:
            found = self._error(method, error)
            if isinstance(found, IndexServerAwayError):
                # A new connection is there sooner than the old one works again.
                self._connected = None
            raise found from error

    def is_lite(self) -> bool:
        """Whether the server is Milvus Lite."""
        return self._version().startswith("milvus_lite")

    def is_old(self) -> bool:
        """Whether the server is older than 2.4: without sparse vectors and inverted indexes."""
        found = re.fullmatch(r"v?(\d+)\.(\d+)\b.*", self._version())
        is_new = found is not None and (int(found[1]), int(found[2])) >= (2, 4)
        return not is_new and not self.is_lite()

    def _version(self) -> str:
        return str(self.ask("get_server_version"))

    def exists(self) -> bool:
        """Whether the server has the collection."""
        return bool(self.call("has_collection"))

    def description(self) -> Mapping[str, Any]:
        """What the server says of the collection: its id, fields and properties.

        :raises InvalidArgumentError: When it is not one that `swiftlet push` made.
        """
        found: Mapping[str, Any] = self.call("describe_collection")
        fields = {field["name"] for field in found["fields"]}
        if (
            schema.MANIFEST not in found["properties"]
            or not {*schema.OF_DOCUMENTS, schema.EMBEDDING} <= fields
        ):
            raise InvalidArgumentError(
                f"{self.address} was not made by Swiftlet: choose another collection"
            )
        return found

    def set_properties(self, properties: Mapping[str, str], *, slow: bool = False) -> None:
        """Change properties of the collection. A server that has just started needs half a minute.

        :param slow: Wait for it.
        """
        # A server of version 2.3 saves a change only when the next one comes.
        for _ in range(2):
            self.call("alter_collection_properties", slow=slow, properties=properties)

    def has(self, expression: str) -> bool:
        """Whether there is a row of an expression; what was found once is not looked for again."""
        if expression not in self._had:
            if not self.call("query", filter=expression, limit=1, output_fields=["row"]):
                return False
            self._had.add(expression)
        return True

    def rows(
        self,
        rows: Sequence[int],
        fields: list[str],
        *,
        key: str = schema.ROW,
        exactly: bool = False,
    ) -> dict[int, dict[str, Any]]:
        """The fields of the `rows` that exist.

        :param key: The field of the primary key.
        :param exactly: See everything that was written before, which takes 0.2 s.
        """
        found, level = {}, "Strong" if exactly else "Bounded"
        for start in range(0, len(rows), _MOST_ROWS):
            part = [*rows[start : start + _MOST_ROWS]]
            for row in self.call("query", ids=part, output_fields=fields, consistency_level=level):
                found[row[key]] = row
        return found

    def pages(self, expression: str, fields: list[str]) -> Iterator[list[dict[str, Any]]]:
        """All rows of an expression, a thousand at a time, in the order of their numbers."""
        # The iterator of the client logs a warning with each server before 2.4, and asks the same.
        last = -1
        while True:
            page = self.call(
                "query",
                filter=f"row > {last} and ({expression})",
                output_fields=["row", *fields],
                limit=_MOST_ROWS,
            )
            if not page:
                return
            page = sorted(page, key=lambda row: row["row"])
            yield page
            last = page[-1]["row"]

    def count(self, expression: str = "", *, exactly: bool = False) -> int:
        """The number of rows of an expression, or of all.

        :param exactly: Count everything that was written before, which takes 0.2 s.
        """
        level = "Strong" if exactly else "Bounded"
        (found,) = self.call(
            "query", filter=expression, output_fields=["count(*)"], consistency_level=level
        )
        return int(found["count(*)"])

    def _error(self, method: str, error: Exception) -> Exception:
        """The error that an exception of the client stands for."""
        code = getattr(error, "code", None)
        status = _status(error) or _status(error.__cause__)
        if refusal := self._refusal(f"{error}", status):
            return InvalidArgumentError(refusal)
        if status == "DEADLINE_EXCEEDED":
            return IndexServerTimeoutError(f"{self.address.server} has not answered in time")
        is_away = isinstance(error, _AWAY) or "Fail connecting" in f"{error}"
        if status == "UNAVAILABLE" or is_away or method == "connect":
            hint = _CHECK if method == "connect" else ""
            return IndexServerAwayError(f"{self.address.server} does not answer{hint}")
        if code == _NOT_FOUND and self.is_open:
            return IndexServerAwayError(f"{self.address} has been removed")
        if code == _NOT_FOUND:
            return InvalidArgumentError(
                f"there is no {self.address}: make it by swiftlet push INDEX --to {self.address}"
            )
        message = getattr(error, "message", "") or f"{error}"
        return IndexServerError(f"{self.address.server} refuses {method}: {message}")

    def _refusal(self, message: str, status: str) -> str:
        """What is wrong with the token or the database, if something is."""
        server, database = self.address.server, self.address.database
        if status in _REFUSALS or any(words in message.lower() for words in _REFUSING):
            return (
                f"{server} refuses the token or its rights; the right one stands in "
                f"{TOKEN_VARIABLE}"
            )
        if database and _NO_DATABASE.search(message):
            return f"{server} has no database {database}: create it first"
        return ""


def _status(error: BaseException | None) -> str:
    """The name of gRPC's status of an error, if it has one."""
    code = getattr(error, "code", None)
    return str(getattr(code() if callable(code) else code, "name", ""))


def state_of(description: Mapping[str, Any], index_type: str | None = None) -> PushState:
    """The manifest in a collection, and how far it was pushed."""
    get = description["properties"].get
    (found,) = (each for each in description["fields"] if each["name"] == schema.EMBEDDING)
    width, state = int(found["params"]["dim"]), get(schema.STATE) or "0"
    return PushState(get(schema.MANIFEST), get(schema.SOURCE, ""), state, width, index_type)


def manifest_of(description: Mapping[str, Any], address: Address) -> Manifest:
    """The manifest of the index in a collection.

    :raises InvalidArgumentError: As `PushState.manifest_at`.
    """
    return state_of(description).manifest_at(address)


def index_of(collection: Collection) -> Mapping[str, Any]:
    """What the server says of the index of the embeddings; empty if there is none yet."""
    if not collection.call("list_indexes", field_name=schema.EMBEDDING):
        return {}
    found: Mapping[str, Any] = collection.call("describe_index", index_name=schema.EMBEDDING)
    return found


def parameters_of(description: Mapping[str, Any]) -> dict[str, Any]:
    """The `FAST` and `THOROUGH` parameters of searches; none if every search is thorough."""
    found: dict[str, Any] = json.loads(description["properties"].get(schema.PARAMETERS, "{}"))
    return found
