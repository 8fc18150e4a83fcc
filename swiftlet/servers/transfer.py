"""Pushes indexes to servers, and pulls them: the arguments of both are checked here."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from swiftlet.address import Address, parse_address
from swiftlet.arguments import StrPath, path_of, place_of, whole_number
from swiftlet.encoders.encoder import directory_of
from swiftlet.index.building.settings import names_of
from swiftlet.index.building.shards import Shards
from swiftlet.index.lexical import DEFAULT_LANGUAGE
from swiftlet.manifest import Manifest
from swiftlet.progress import Progress
from swiftlet.servers.pull import pull as build_from
from swiftlet.servers.push import Pushed
from swiftlet.servers.push import push as write_collection

if TYPE_CHECKING:
    from swiftlet.servers.target import IndexType


def push(
    index: StrPath | Shards,
    to: str,
    *,
    encoder: StrPath | None = None,
    language: str | None = DEFAULT_LANGUAGE,
    facets: Sequence[str] = (),
    index_type: "IndexType | None" = None,
    bulk_insert: StrPath | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Pushed:
    """Write an index, with its changes, to a Milvus or PostgreSQL server, without encoding.

    A push that was interrupted goes on from there, if it is of the same index.

    :param index: An index directory, or `Shards`.
    :param to: An address, as `open_searcher` takes it.
    :param encoder: The directory of the document encoder, which measures the recall of searches;
        None takes the one that the index remembers.
    :param language: That of the words of shards; None pushes no words. An index has its own.
    :param facets: Those of shards: fields that the server indexes for filters. An index has its
        own.
    :param index_type: FLAT or HNSW, on Milvus IVF_FLAT or IVF_SQ8, too; None depends on the number
        of passages.
    :param bulk_insert: A folder or an address as s3://BUCKET/PATH that a Milvus server reads, too;
        passages go there as Parquet files, which the server inserts.
    :raises RetrievalError: When the index is bad, another one is there, or the server refuses.
    """
    source = index if isinstance(index, Shards) else path_of("index", index)
    places = _address("to", to), directory_of(encoder)
    files = None if bulk_insert is None else f"{bulk_insert}"
    if files is not None and "://" not in files:
        files = f"{path_of('bulk_insert', bulk_insert)}"
    return write_collection(
        source,
        *places,
        language=language,
        facets=names_of("facets", facets),
        index_type=index_type,
        bulk_insert=files,
        overwrite=overwrite,
        progress=progress,
    )


def pull(
    address: str,
    out: StrPath,
    *,
    encoder: StrPath | None = None,
    overwrite: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Build the index directory `out` from an index on a server, without encoding.

    :param address: An address, as `open_searcher` takes it.
    :param encoder: The directory of the document encoder, which measures the recall of the index;
        None takes the one that the collection remembers.
    :param overwrite: Replace an existing index.
    :raises RetrievalError: When the server, the collection, the encoder or the storage is bad.
    """
    places = path_of("out", out), directory_of(encoder)
    threads = None if threads is None else whole_number("threads", threads, least=1)
    return build_from(
        _address("address", address),
        *places,
        overwrite=overwrite,
        threads=threads,
        progress=progress,
    )


def _address(name: str, value: object) -> Address:
    found = place_of(name, value)
    return found if isinstance(found, Address) else parse_address(f"{value}")
