"""What writes to the engines of servers; each is imported when an address names it."""

from typing import TYPE_CHECKING

from swiftlet.retrieval.extras import extra
from swiftlet.retrieval.servers.address import Address

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

    from swiftlet.indexing.preparation import Preparation
    from swiftlet.indexing.servers.pull import ServerCorpus
    from swiftlet.indexing.servers.target import Target
    from swiftlet.indexing.writing import Writer


def target_at(address: Address) -> type["Target"]:
    """What a push to this address writes.

    :raises MissingExtraError: When the engine's client is not installed.
    """
    if address.engine == "postgresql":
        with extra("postgres"):
            from swiftlet.indexing.postgres.target import PostgresTarget
        return PostgresTarget
    from swiftlet.indexing.milvus.target import MilvusTarget

    return MilvusTarget


def corpus_at(address: Address) -> "Callable[[Address, IO[bytes]], ServerCorpus]":
    """What a pull from this address reads, by the address and an empty file for embeddings.

    :raises MissingExtraError: As `target_at`.
    """
    if address.engine == "postgresql":
        with extra("postgres"):
            from swiftlet.indexing.postgres.corpus import PostgresCorpus
        return PostgresCorpus
    from swiftlet.indexing.milvus.corpus import MilvusCorpus

    return MilvusCorpus


def writer_at(address: Address, preparation: "Preparation") -> "Writer":
    """The writer of an index on a server.

    :raises MissingExtraError: As `target_at`.
    :raises RetrievalError: When it cannot be written.
    """
    if address.engine == "postgresql":
        with extra("postgres"):
            from swiftlet.indexing.postgres.writer import PostgresWriter
        return PostgresWriter(address, preparation)
    from swiftlet.indexing.milvus.writer import MilvusWriter

    return MilvusWriter(address, preparation)
