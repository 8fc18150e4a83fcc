"""The writer of an index, by its place."""

from pathlib import Path

from swiftlet.address import Address
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
