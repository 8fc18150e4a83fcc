"""The writer of an index, by its place."""

from pathlib import Path

from swiftlet.address import Address
from swiftlet.arguments import StrPath, place_of, whole_number
from swiftlet.encoders.encoder import directory_of
from swiftlet.index.server import server_at
from swiftlet.index.updates.directory_writer import IndexWriter
from swiftlet.index.updates.preparation import Preparation
from swiftlet.index.updates.writer import Writer


def open_writer(
    place: Path | Address, encoder: Path | None = None, *, threads: int | None = None
) -> Writer:
    """Open an index directory, or an index on a server, for changes.

    :param encoder: The directory of the document encoder that the index was built with; None takes
        the one that the index remembers.
    :param threads: Threads that encode; None takes all cores.
    :raises RetrievalError: When it cannot be written.
    """
    if isinstance(place, Path):
        return IndexWriter(place, encoder, threads=threads)
    return server_at(place).writer(place, Preparation(encoder, threads))


def write(index: StrPath, *, encoder: StrPath | None = None, threads: int | None = None) -> Writer:
    """Open an index for changes. A directory is locked until the writer is closed.

    :param index: A directory, or an address, as `swiftlet.open` takes it.
    :param encoder: The directory of the document encoder that the index was built with; None takes
        the one that the index remembers.
    :param threads: Threads that encode; None takes all cores.
    :raises ArtefactError: When the index is damaged, or another process is writing it.
    :raises InvalidArgumentError: When the index does not keep the embeddings of its passages.
    :raises StorageError: When the index is on storage that cannot be written.
    """
    threads = None if threads is None else whole_number("threads", threads, least=1)
    places = place_of("index", index), directory_of(encoder)
    return open_writer(*places, threads=threads)
