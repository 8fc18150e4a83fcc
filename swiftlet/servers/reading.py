"""The engines of servers; each is imported when an address names it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from swiftlet.address import Address
from swiftlet.extras import extra
from swiftlet.manifest import Manifest

if TYPE_CHECKING:
    from swiftlet.encoders.encoder import Encoder
    from swiftlet.index.parts import IndexSource


@dataclass(frozen=True, slots=True)
class Description:
    """What a server has of an index; `visited` says what a search by meaning visits, how often."""

    manifest: Manifest
    num_documents: int
    num_passages: int
    has_words: bool
    visited: Mapping[str, int]


def source_at(address: Address, encoder: "Encoder") -> "IndexSource":
    """The index at an address, followed while others write to it.

    :raises IndexServerError: When the server does not answer.
    :raises InvalidArgumentError: When there is no such collection, it was not made by Swiftlet or
        not completely, or the server refuses.
    :raises MissingExtraError: When the engine's client is not installed.
    """
    if address.engine == "postgresql":
        with extra("postgres"):
            from swiftlet.servers.postgres.source import PostgresIndex
        return PostgresIndex(address, encoder)
    from swiftlet.servers.milvus.source import MilvusIndex

    return MilvusIndex(address, encoder)


def manifest_at(address: Address) -> Manifest:
    """The manifest of the index at an address.

    :raises RetrievalError: As `source_at`.
    """
    if address.engine == "postgresql":
        with extra("postgres"):
            from swiftlet.servers.postgres.table import Table
        return Table(address).seen()[1].manifest_at(address)
    from swiftlet.servers.milvus.collection import Collection, manifest_of

    return manifest_of(Collection(address).description(), address)


def description_at(address: Address) -> Description:
    """What there is at an address.

    :raises RetrievalError: As `source_at`.
    """
    if address.engine == "postgresql":
        with extra("postgres"):
            from swiftlet.servers.postgres.table import describe
        return describe(address)
    from swiftlet.servers.milvus.source import describe as describe_collection

    return describe_collection(address)
