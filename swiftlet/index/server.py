"""What Swiftlet does with indexes on a kind of server, and the kind of server at an address."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from swiftlet.address import Address, plugin_of
from swiftlet.encoders.encoder import Encoder
from swiftlet.index.parts.search_parts import IndexSource
from swiftlet.manifest import Manifest

if TYPE_CHECKING:
    from swiftlet.index.updates.writer import Preparation, Writer


@dataclass(frozen=True, slots=True)
class Description:
    """What a server has of an index; `visited` says what a search by meaning visits, how often."""

    manifest: Manifest
    num_documents: int
    num_passages: int
    has_words: bool
    visited: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What is done with indexes on a kind of server.

    Each function connects to the server. It raises `IndexServerError` when the server does not
    answer, and `InvalidArgumentError` when there is no such collection, it was not made by Swiftlet
    or not completely, or the server refuses.
    """

    source: Callable[[Address, Encoder], IndexSource]
    """The index at an address, which is followed while others write to it."""

    manifest: Callable[[Address], Manifest]
    """The manifest of the index at an address."""

    description: Callable[[Address], Description]
    """What there is at an address."""

    writer: "Callable[[Address, Preparation], Writer]"
    """The writer of the index at an address."""

    target: Any = None
    """What a push writes: a class that inherits from `swiftlet.servers.target.Target`."""

    corpus: Any = None
    """What a pull reads: a function from the address to a `swiftlet.servers.pull.Pulled`."""


def server_at(address: Address) -> Server:
    """The kind of server at an address.

    :raises InvalidArgumentError: When no plugin for it is installed.
    :raises MissingExtraError: When the server's client is not installed.
    """
    found: Server = plugin_of(address.scheme).server()
    return found
