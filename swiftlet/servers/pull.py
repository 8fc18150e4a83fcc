"""Makes an index directory of what a server has, without encoding anything again."""

from pathlib import Path
from tempfile import TemporaryFile

from swiftlet.address import Address
from swiftlet.errors import InvalidArgumentError
from swiftlet.index.building.build import BuildSettings, build_index
from swiftlet.index.server import server_at
from swiftlet.manifest import Manifest
from swiftlet.progress import Progress
from swiftlet.servers.corpus import ServerCorpus


def pull(
    address: Address,
    out: Path,
    encoder: Path | None = None,
    *,
    overwrite: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Build the index directory `out` from a collection.

    :param encoder: The directory of the document encoder, which measures the recall of the index;
        None takes the one that the collection remembers.
    :raises RetrievalError: When the server, the collection, the encoder or the storage is bad.
    """
    corpus = server_at(address).corpus
    if corpus is None:
        raise InvalidArgumentError(f"indexes cannot be pulled from {address.server}")
    with TemporaryFile() as file:
        pulled: ServerCorpus = corpus(address, file)
        settings = BuildSettings(
            language=pulled.manifest.details.get("language"),
            facets=pulled.facets(),
            threads=threads,
        )
        return build_index(pulled, encoder, out, settings, overwrite=overwrite, progress=progress)
