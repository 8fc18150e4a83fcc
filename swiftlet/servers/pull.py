"""Makes an index directory of what a server has, without encoding anything again."""

from tempfile import TemporaryFile

from swiftlet.address import Address
from swiftlet.arguments import StrPath, address_of, path_of
from swiftlet.encoders.encoder import directory_of
from swiftlet.errors import InvalidArgumentError
from swiftlet.index.building.build import build_index
from swiftlet.index.building.settings import BuildSettings
from swiftlet.index.server import server_at
from swiftlet.manifest import Manifest
from swiftlet.progress import Progress
from swiftlet.servers.corpus import ServerCorpus


def pull(
    address: str | Address,
    out: StrPath,
    encoder: StrPath | None = None,
    *,
    overwrite: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Build the index directory `out` from an index on a server, without encoding.

    :param address: An address, as `swiftlet.open` takes it.
    :param encoder: The directory of the document encoder, which measures the recall of the index;
        None takes the one that the collection remembers.
    :param overwrite: Replace an existing index.
    :raises RetrievalError: When the server, the collection, the encoder or the storage is bad.
    """
    address, out = address_of("address", address), path_of("out", out)
    directory = directory_of(encoder)
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
        return build_index(pulled, directory, out, settings, overwrite=overwrite, progress=progress)
