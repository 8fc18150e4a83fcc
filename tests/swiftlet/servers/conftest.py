"""Servers of each engine for the tests of this folder."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from pymilvus import DataType

import swiftlet
from swiftlet.address import Address
from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.errors import IndexServerAwayError
from swiftlet.index.server import server_at
from swiftlet.progress import Silence
from swiftlet.servers.milvus.collection import Collection
from swiftlet.servers.postgres.table import TABLES
from swiftlet.servers.push import Pushed, push
from swiftlet.types import Document
from tests import milvus_server, postgres_server
from tests.milvus_server import MilvusServer
from tests.postgres_server import PostgresServer

LITE = pytest.param("lite", marks=pytest.mark.check)
POSTGRESQL = pytest.param("postgres", marks=pytest.mark.check)
WHOLE = pytest.param("whole", marks=pytest.mark.soak)
CLUSTER = pytest.param("cluster", marks=pytest.mark.soak)
"""The whole server with Kafka for the messages between its processes."""

MILVUS = pytest.mark.parametrize("server", [LITE, WHOLE], indirect=True, scope="session")
POSTGRES = pytest.mark.parametrize("server", [POSTGRESQL], indirect=True, scope="session")
SMALL = pytest.mark.parametrize("server", [LITE, POSTGRESQL], indirect=True, scope="session")
"""For what is decided before the server: the whole one takes ten seconds for each push."""

LOOKUP = {"encoder": LOOKUP_QUERY_ENCODER}
Server = MilvusServer | PostgresServer


@pytest.fixture(scope="session", params=[LITE, WHOLE, POSTGRESQL])
def server(request, tmp_path_factory) -> Iterator[Server]:
    """A server of each kind."""
    kind, environment = request.param, {}
    if kind == "cluster":
        kind, environment = "whole", request.getfixturevalue("kafka")
    is_postgres = kind == "postgres"
    if reason := postgres_server.hindrance() if is_postgres else milvus_server.hindrance(kind):
        pytest.skip(reason)
    found: Server
    folder = tmp_path_factory.mktemp(kind)
    found = PostgresServer() if is_postgres else MilvusServer(kind, folder, environment=environment)
    found.start()
    yield found
    found.kill()
    if is_postgres:
        found.remove()


@pytest.fixture(scope="session")
def kafka() -> Iterator[dict[str, str]]:
    """librdkafka's own broker, which keeps messages in memory: its settings for Milvus."""
    client = AdminClient({"test.mock.num.brokers": 1, "bootstrap.servers": "-"})
    (broker,) = client.list_topics(timeout=30).brokers.values()
    yield {"MQ_TYPE": "kafka", "KAFKA_BROKERLIST": f"{broker.host}:{broker.port}"}
    client.poll(0)  # the broker lives as long as its client


@pytest.fixture(scope="session")
def small_collection(server, small_index) -> Address:
    """The small index on the server; read only."""
    address = server.address("small")
    reason = "" if server.has_words else "the server is older than Milvus 2.4"
    assert push(small_index, address) == Pushed(89, None, reason)
    return address


@pytest.fixture
def pushed(server, small_index, tmp_path) -> Callable[..., Address]:
    """Pushes the small index, or documents, in the place of an earlier one: the address."""

    def push_it(name: str, documents: Any = None, *, facets: Any = (), **options: Any) -> Address:
        address, index = server.address(name), small_index
        if documents is not None:
            index, options = tmp_path / name, {**options, **LOOKUP}
            swiftlet.build(documents, index, facets=facets, **LOOKUP)
        push(index, address, overwrite=True, **options)
        return address

    return push_it


def exists(address: Address) -> bool:
    """Whether the server has the collection."""
    return server_at(address).target(address).begun() is not None


def drop(server: Server, address: Address) -> None:
    """Remove a collection, as another program would."""
    if isinstance(server, MilvusServer):
        while True:
            with suppress(IndexServerAwayError):  # on a busy machine, it may not answer in time
                Collection(address).call("drop_collection", slow=True)
                return
    else:
        name = address.collection
        server.execute(f"DROP TABLE {name}, {', '.join(f'{name}_{each}' for each in TABLES)}")


@pytest.fixture(scope="session")
def long_index(tmp_path_factory) -> Path:
    """An index of 700 short documents; read only."""
    out = tmp_path_factory.mktemp("long") / "index"
    documents = [Document(f"{number:04}", f"text number {number}") for number in range(700)]
    swiftlet.build(documents, out, **LOOKUP)
    return out


class Interrupted(Silence):
    """Interrupts a part of a push after so many steps; notes what an earlier push had done."""

    def __init__(self, part: str, after: int) -> None:
        self.part, self.after, self.done, self.is_part = part, after, 0, False

    def begin(self, name: str, total: int | None, done: int = 0) -> None:
        """Note what was done."""
        if is_part := name == self.part:
            self.done = done
        self.is_part = is_part

    def advance(self, steps: int) -> None:
        """Interrupt the push, if it is time."""
        self.after -= steps * self.is_part
        if self.after < 0:
            raise KeyboardInterrupt


def interrupt(*_: object, **__: object) -> None:
    """Interrupt a push."""
    raise KeyboardInterrupt


def exchange_embeddings(server: Server, address: Address) -> None:
    """Give each of the 700 passages the embedding of another one."""
    if isinstance(server, PostgresServer):
        name = address.collection
        server.execute(
            f"UPDATE {name} SET embedding = other.embedding FROM {name} AS other "
            f"WHERE other.document = {name}.document % 700 + 1"
        )
        return
    collection = Collection(address)
    rows = collection.call("query", filter="", limit=700, output_fields=["*"])
    embeddings = [row["embedding"] for row in rows]
    for row, other in zip(rows, [*embeddings[1:], embeddings[0]], strict=True):
        row["embedding"] = other
    collection.call("upsert", data=rows)
    collection.rows([0], ["document_id"], exactly=True)


def make_foreign(server: Server, name: str) -> Address:
    """A collection of another program, if there is none yet."""
    address = server.address(name)
    if isinstance(server, PostgresServer):
        server.execute(f"CREATE TABLE IF NOT EXISTS {name} (id int)")
        return address
    client = Collection(address).client
    if not client.has_collection(name):
        schema = client.create_schema()
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("v", DataType.FLOAT_VECTOR, dim=8)
        client.create_collection(name, schema=schema)
    return address
