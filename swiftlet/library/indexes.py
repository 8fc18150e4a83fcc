"""Builds, opens and changes indexes, and loads encoders."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from swiftlet import encoders
from swiftlet.address import Address, parse_address
from swiftlet.arguments import path_of, place_of, whole_number
from swiftlet.corpora.lines import SkippedLines
from swiftlet.corpora.rows import Corpus, documents_of
from swiftlet.encoders.encoder import OnnxEncoder, Precision
from swiftlet.encoders.reranker import OnnxReranker
from swiftlet.errors import InvalidArgumentError, shown
from swiftlet.index.building.build import BuildSettings, build_index
from swiftlet.index.building.shard_writer import write_shard
from swiftlet.index.building.shards import Shard, Shards
from swiftlet.index.lexical.analysis import DEFAULT_LANGUAGE
from swiftlet.index.query_encoder import query_encoder_of
from swiftlet.index.snapshot import snapshot as write_snapshot
from swiftlet.index.updates.opening import open_writer
from swiftlet.index.updates.writer import Writer
from swiftlet.index.vectors_export import export_vectors as write_vectors
from swiftlet.manifest import Manifest
from swiftlet.progress import Progress
from swiftlet.search.searcher import Searcher

if TYPE_CHECKING:
    from swiftlet.servers.push import Pushed

StrPath = str | os.PathLike[str]


def build(
    corpus: Corpus | Shards,
    out: StrPath,
    *,
    encoder: StrPath | None = None,
    passage_tokens: int = 128,
    overlap_tokens: int = 16,
    truncate: bool = False,
    factory: str | None = None,
    language: str | None = DEFAULT_LANGUAGE,
    facets: Sequence[str] = (),
    precision: Precision | None = None,
    threads: int | None = None,
    overwrite: bool = False,
    skipped: SkippedLines | None = None,
    progress: Progress | None = None,
    finish: Callable[[Path, Path], Manifest | None] | None = None,
) -> Manifest:
    """Build the index directory `out` from a corpus, or from shards of one.

    `out` is written completely or not at all. After an interruption, the same call reuses the
    embeddings that were already computed.

    :param corpus: A path, an iterable of dicts or of `Document`, a DataFrame or an Arrow table; or
        `Shards`, which keep their own splitting and precision.
    :param encoder: The directory of the document encoder; None takes the one that ships, or for
        shards the one that encoded them.
    :param passage_tokens: The longest passage, in tokens, with the title.
    :param overlap_tokens: The tokens that consecutive passages share.
    :param truncate: Make one passage of each document: the beginning that the encoder reads.
    :param factory: The type of index, a FAISS factory string; None chooses by size.
    :param language: The language of the words for lexical and hybrid search, one of
        `swiftlet.index.lexical.analysis.LANGUAGES`; None makes an index for dense search alone.
    :param facets: Fields of the metadata: `Searcher.facets` counts their values, and the search
        page offers them as a choice.
    :param precision: The encoder's model; None takes the encoder's default.
    :param threads: Threads that encode; None takes all cores.
    :param overwrite: Replace an existing index.
    :param skipped: Collects bad rows or lines, which are left out; None refuses them.
    :param progress: Shows the progress, such as `ProgressLine()`; None shows nothing.
    :param finish: As in `swiftlet.index.building.build.build_index`.
    :returns: The manifest of the index.
    :raises RetrievalError: When the corpus, a setting, the encoder or the storage is bad.
    """
    if factory is not None and not isinstance(factory, str):
        raise InvalidArgumentError(f"factory is {shown(factory)}, but a string is expected")
    settings = BuildSettings(
        passage_tokens=whole_number("passage_tokens", passage_tokens, least=1),
        overlap_tokens=whole_number("overlap_tokens", overlap_tokens, least=0),
        truncate=truncate,
        factory=factory,
        language=language,
        facets=_fields(facets),
        precision=precision,
        threads=None if threads is None else whole_number("threads", threads, least=1),
    )
    encoder, out = _encoder(encoder), path_of("out", out)
    documents = corpus if isinstance(corpus, Shards) else documents_of(corpus, skipped=skipped)
    return build_index(
        documents, encoder, out, settings, overwrite=overwrite, progress=progress, finish=finish
    )


def encode(
    corpus: Corpus,
    out: StrPath,
    *,
    shard: tuple[int, int],
    encoder: StrPath | None = None,
    passage_tokens: int = 128,
    overlap_tokens: int = 16,
    truncate: bool = False,
    precision: Precision | None = None,
    half: bool = False,
    threads: int | None = None,
    overwrite: bool = False,
    skipped: SkippedLines | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Encode one shard of a corpus into the directory `out`, completely or not at all.

    Other arguments are as in `build`. Several machines can encode the shards of one corpus;
    `build(Shards(directories), …)` makes one index of them.

    :param shard: (2, 8) for the second of eight: each eighth document, from the second on.
    :param half: Store the embeddings in half precision.
    :raises RetrievalError: When the corpus, a setting, the encoder or the storage is bad, or the
        shard has no document.
    """
    settings = BuildSettings(
        passage_tokens=whole_number("passage_tokens", passage_tokens, least=1),
        overlap_tokens=whole_number("overlap_tokens", overlap_tokens, least=0),
        truncate=truncate,
        precision=precision,
        threads=None if threads is None else whole_number("threads", threads, least=1),
    )
    return write_shard(
        documents_of(corpus, skipped=skipped),
        _encoder(encoder) or encoders.DEFAULT_ENCODER,
        path_of("out", out),
        Shard(*shard),
        settings,
        half=half,
        overwrite=overwrite,
        progress=progress,
    )


def _fields(facets: object) -> tuple[str, ...]:
    if not isinstance(facets, list | tuple) or not all(isinstance(each, str) for each in facets):
        raise InvalidArgumentError(f"facets is {shown(facets)}, but a list of fields is expected")
    return tuple(dict.fromkeys(facets))


def open_searcher(
    index: StrPath,
    *,
    encoder: StrPath | None = None,
    precision: Precision | None = None,
    reranker: StrPath | None = None,
    readers: int = 1,
) -> Searcher:
    """Open an index for searching; every file of a directory is verified.

    :param index: A directory, or the address of an index on a server, SCHEME://HOST:PORT/….
    :param encoder: The directory of a query encoder of the index's embedding space; None takes the
        index's own encoder, or the encoder that ships for it, or the document encoder's pair.
    :param precision: The encoder's model; None takes the encoder's default.
    :param reranker: The directory of a re-ranker, for searches with `rerank`.
    :param readers: How many threads will search at once.
    :raises ArtefactError: When the index or the encoder is damaged, or they do not fit together.
    :raises InvalidArgumentError: When an argument is of another type or out of range, or the
        encoder has no model of this precision.
    :raises IndexServerError: When the server of an address does not answer.
    """
    readers = whole_number("readers", readers, least=1)
    place = place_of("index", index)
    found = _encoder(encoder) or query_encoder_of(place)
    loaded = None if reranker is None else OnnxReranker.load(path_of("reranker", reranker))
    return Searcher.open(place, found, precision=precision, reranker=loaded, readers=readers)


def write(index: StrPath, *, encoder: StrPath | None = None, threads: int | None = None) -> Writer:
    """Open an index for changes. A directory is locked until the writer is closed.

    :param index: As in `open_searcher`.
    :param encoder: The directory of the document encoder that the index was built with; None takes
        the one that the index remembers.
    :param threads: Threads that encode; None takes all cores.
    :raises ArtefactError: When the index is damaged, or another process is writing it.
    :raises InvalidArgumentError: When the index does not keep the embeddings of its passages.
    :raises StorageError: When the index is on storage that cannot be written.
    """
    threads = None if threads is None else whole_number("threads", threads, least=1)
    places = place_of("index", index), _encoder(encoder)
    return open_writer(*places, threads=threads)


def push(
    index: StrPath | Shards,
    to: str,
    *,
    encoder: StrPath | None = None,
    language: str | None = DEFAULT_LANGUAGE,
    facets: Sequence[str] = (),
    index_type: str | None = None,
    bulk_insert: StrPath | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> "Pushed":
    """Write an index, with its changes, to a server, without encoding.

    As `swiftlet.servers.push.push`.

    :param index: An index directory, or `Shards`.
    :param to: An address, as `open_searcher` takes it.
    :param encoder: The directory of the document encoder, which measures the recall of searches;
        None takes the one that the index remembers.
    :param language: That of the words of shards; None pushes no words. An index has its own.
    :param facets: Those of shards: fields that the server indexes for filters. An index has its
        own.
    :param index_type: One of the types that the server has, such as FLAT or HNSW; None depends on
        the number of passages.
    :param bulk_insert: A folder or an address as s3://BUCKET/PATH that the server reads, too;
        passages go there as Parquet files, which the server inserts.
    :raises RetrievalError: When the index is bad, another one is there, or the server refuses.
    """
    from swiftlet.servers.push import push as write_collection

    source = index if isinstance(index, Shards) else path_of("index", index)
    places = _address("to", to), _encoder(encoder)
    files = None if bulk_insert is None else f"{bulk_insert}"
    if files is not None and "://" not in files:
        files = f"{path_of('bulk_insert', bulk_insert)}"
    return write_collection(
        source,
        *places,
        language=language,
        facets=_fields(facets),
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
    from swiftlet.servers.pull import pull as build_from

    places = path_of("out", out), _encoder(encoder)
    threads = None if threads is None else whole_number("threads", threads, least=1)
    return build_from(
        _address("address", address),
        *places,
        overwrite=overwrite,
        threads=threads,
        progress=progress,
    )


def _encoder(place: StrPath | None) -> Path | None:
    return None if place is None else encoders.find(path_of("encoder", place))


def _address(name: str, value: object) -> Address:
    found = place_of(name, value)
    return found if isinstance(found, Address) else parse_address(f"{value}")


def snapshot(index: StrPath, out: StrPath, *, overwrite: bool = False) -> Manifest:
    """Write an index with its changes into the tar archive `out`; `tar -xf` restores it.

    A writer may go on meanwhile; the archive has the changes of one moment.

    :param overwrite: Replace an existing file.
    :returns: The manifest of the index.
    :raises RetrievalError: When the index or the storage is bad, or `out` exists.
    """
    return write_snapshot(path_of("index", index), path_of("out", out), overwrite=overwrite)


def export_vectors(
    index: StrPath,
    out: StrPath,
    *,
    half: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> int:
    """Write the passages of an index, with its changes and embeddings, to the Parquet file `out`.

    As `swiftlet.index.vectors_export.export_vectors`.

    :returns: The number of passages.
    :raises RetrievalError: When the index or the storage is bad, or `out` exists.
    """
    places = path_of("index", index), path_of("out", out)
    return write_vectors(*places, half=half, overwrite=overwrite, progress=progress)


def load_encoder(
    directory: StrPath = encoders.DEFAULT_ENCODER,
    *,
    precision: Precision | None = None,
    threads: int = 1,
) -> OnnxEncoder:
    """Open an encoder directory, after every file is verified; by default the document encoder.

    :param precision: The model; None takes the encoder's default.
    :param threads: Threads that share the work of one text.
    :raises ArtefactError: When the encoder is damaged.
    :raises InvalidArgumentError: When an argument is of another type or out of range, or the
        encoder has no model of this precision.
    """
    found = encoders.find(path_of("directory", directory))
    return OnnxEncoder.load(found, precision=precision, threads=threads)
