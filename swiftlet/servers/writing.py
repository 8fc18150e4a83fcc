"""What writes to the engines of servers; each is imported when an address names it."""

from typing import TYPE_CHECKING

from swiftlet.address import Address
from swiftlet.extras import extra

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

    from swiftlet.index.updates.preparation import Preparation
    from swiftlet.index.updates.writer import Writer
    from swiftlet.servers.pull import ServerCorpus
    from swiftlet.servers.target import Target


def target_at(address: Address) -> type["Target"]:
    """What a push to this address writes.

    :raises MissingExtraError: When the engine's client is not installed.
    """
    if address.engine == "postgresql":
        with extra("postgres"):
            from swiftlet.servers.postgres.target import PostgresTarget
        return PostgresTarget
    from swiftlet.servers.milvus.target import MilvusTarget

    return MilvusTarget


def corpus_at(address: Address) -> "Callable[[Address, IO[bytes]], ServerCorpus]":
    """What a pull from this address reads, by the address and an empty file for embeddings.

    :raises MissingExtraError: As `target_at`.
    """
    if address.engine == "postgresql":
        with extra("postgres"):
            from swiftlet.servers.postgres.corpus import PostgresCorpus
        return PostgresCorpus
    from swiftlet.servers.milvus.corpus import MilvusCorpus

    return MilvusCorpus


def writer_at(address: Address, preparation: "Preparation") -> "Writer":
    """The writer of an index on a server.

    :raises MissingExtraError: As `target_at`.
    :raises RetrievalError: When it cannot be written.
    """
    if address.engine == "postgresql":
        with extra("postgres"):
            from swiftlet.servers.postgres.writer import PostgresWriter
        return PostgresWriter(address, preparation)
    from swiftlet.servers.milvus.writer import MilvusWriter

    return MilvusWriter(address, preparation)
