"""A plugin as another package has it: its "server" is a dictionary of index directories."""

from pathlib import Path

from swiftlet.address import Address, ServerPlugin
from swiftlet.encoders.encoder import Encoder
from swiftlet.errors import InvalidArgumentError
from swiftlet.index.directory import IndexDirectory
from swiftlet.index.server import Description, Server
from swiftlet.index.updates.directory_writer import IndexWriter
from swiftlet.index.updates.writer import Preparation
from swiftlet.manifest import Manifest, read_manifest
from swiftlet.servers.pull import Pulled
from swiftlet.servers.sources import source_of

PLUGIN = ServerPlugin(
    schemes=("memory",),
    path="/(?P<collection>[a-z]+)",
    shape="memory://HOST:PORT/NAME",
    details="with a name of small letters",
    module=__name__,
)
MEMORY: dict[str, Path] = {}


def directory_at(address: Address) -> Path:
    if address.collection not in MEMORY:
        raise InvalidArgumentError(f"there is no {address}")
    return MEMORY[address.collection]


def source(address: Address, encoder: Encoder) -> IndexDirectory:
    return IndexDirectory(directory_at(address), encoder)


def manifest(address: Address) -> Manifest:
    return read_manifest(directory_at(address), "index")


def description(address: Address) -> Description:
    found = manifest(address)
    counts = found.details["num_documents"], found.details["num_passages"]
    return Description(found, *counts, has_words=True, visited={})


def writer(address: Address, _: Preparation) -> IndexWriter:
    return IndexWriter(directory_at(address), None)


def pulled(address: Address) -> Pulled:
    source = source_of(directory_at(address), None, ())
    return Pulled(source.manifest, (), source.encoded())


SERVER = Server(
    source=source,
    manifest=manifest,
    description=description,
    writer=writer,
    corpus=pulled,
)
