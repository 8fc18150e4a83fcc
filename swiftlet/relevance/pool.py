"""What is to be judged: queries, and the documents found for them, without who found which."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from swiftlet import disk
from swiftlet.errors import CollectionError, InvalidArgumentError, UnknownDocumentError
from swiftlet.progress import Progress
from swiftlet.publication import replace_file
from swiftlet.search.groups import KeptEmbeddings
from swiftlet.search.searcher import Searcher
from swiftlet.types import Hit

FILE = "pool.json"
_FORMAT = 1
_LONGEST_PASSAGE = 4_000
_SEED = b"the order of a pool"
_DIGEST_BYTES = 6

Pair = tuple[str, str]
"""The ids of a query and of a document."""


@dataclass(frozen=True, slots=True)
class PooledDocument:
    """A document with the passage that a judge reads; `highlights` are the query's words in it."""

    document_id: str
    title: str
    heading: str
    passage: str
    highlights: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class PooledQuery:
    """A query with its documents, in the order in which they are judged."""

    query_id: str
    text: str
    documents: list[PooledDocument]


@dataclass(frozen=True, slots=True)
class Pool:
    """All queries, in the order in which they are judged."""

    queries: list[PooledQuery]
    format: int = _FORMAT

    @property
    def documents(self) -> Iterator[tuple[PooledQuery, PooledDocument]]:
        """All documents with their queries."""
        return ((query, each) for query in self.queries for each in query.documents)

    @property
    def pairs(self) -> list[Pair]:
        """The ids of all documents with those of their queries."""
        return [(query.query_id, each.document_id) for query, each in self.documents]

    def __len__(self) -> int:
        return sum(len(query.documents) for query in self.queries)

    def held(self, holds: Callable[[str], bool]) -> "Pool":
        """The pool with only the documents that `holds` says are there.

        :raises CollectionError: When none is.
        """
        ids = {document_id for _, document_id in self.pairs}
        there = {document_id for document_id in ids if holds(document_id)}
        if ids and not there:
            raise CollectionError(
                FILE,
                f"none of its {len(ids):,} documents is in the index: it is the pool of another "
                "index",
            )
        kept = [
            replace(query, documents=[d for d in query.documents if d.document_id in there])
            for query in self.queries
        ]
        return Pool(kept)


_POOL = TypeAdapter(Pool)


def new_pool(texts: Sequence[str]) -> Pool:
    """Queries without documents yet."""
    ids = {_digest(each.casefold()): each for each in texts}
    return Pool([PooledQuery(query_id, text, []) for query_id, text in ids.items()])


def pooled(pool: Pool, searchers: Sequence[Searcher], depth: int, progress: Progress) -> Pool:
    """The pool with the best documents of every searcher in each of its modes.

    Documents that were there keep their passages. The order of a query's documents follows from
    their ids alone.

    :raises RetrievalError: As `Searcher.search`.
    """
    progress.begin("Searching", len(pool.queries))
    queries = []
    for query in pool.queries:
        found = {each.document_id: each for each in query.documents}
        for hit in _hits(query.text, searchers, depth):
            found.setdefault(hit.document_id, _document(hit))
        order = sorted(found, key=partial(_digest, query.query_id))
        queries.append(replace(query, documents=[found[name] for name in order]))
        progress.advance(1)
    return Pool([each for each in queries if each.documents])


def holds(searcher: Searcher, document_id: str) -> bool:
    """Whether an index has a document."""
    try:
        searcher.document(document_id)
    except UnknownDocumentError:
        return False
    return True


def has_pool(folder: Path) -> bool:
    """Whether a folder has a pool; one without may have no other file.

    :raises InvalidArgumentError: When it holds something else, or is no folder.
    :raises StorageError: When it cannot be read.
    """
    with disk.storage_errors(folder):
        if (folder / FILE).is_file():
            return True
        if not folder.exists():
            return False
        if not folder.is_dir() or any(each.name[0] != "." for each in folder.iterdir()):
            raise InvalidArgumentError(
                f"{folder} holds something else, and no {FILE}: choose a new folder"
            )
    return False


def read_pool(folder: Path) -> Pool:
    """The pool in a folder.

    :raises CollectionError: When there is none, or it is damaged.
    """
    path = folder / FILE
    try:
        pool = _POOL.validate_json(path.read_bytes())
    except OSError:
        raise CollectionError(
            folder, f"there is no {FILE} to judge: make it by swiftlet judge {folder} --index INDEX"
        ) from None
    except ValidationError:
        raise CollectionError(
            path, "damaged, or of another program: take it from a copy, or choose a new folder"
        ) from None
    if pool.format != _FORMAT:
        raise CollectionError(path, f"of the format {pool.format}; {_FORMAT} is expected")
    return pool


def write_pool(folder: Path, pool: Pool) -> None:
    """Write a pool, in the place of an earlier one.

    :raises StorageError: When the disk refuses.
    """
    with disk.storage_errors(folder):
        disk.make_directory(folder, parents=True, exist_ok=True)
    replace_file(folder / FILE, to_json(asdict(pool), indent=1))


def _hits(query: str, searchers: Sequence[Searcher], depth: int) -> Iterator[Hit]:
    for searcher in searchers:
        cache = KeptEmbeddings()
        highlight = "words" if "lexical" in searcher.modes else None
        for mode in searcher.modes if searcher.has_encoder else ("lexical",):
            yield from searcher.search(
                query, depth, mode=mode, highlight=highlight, cache=cache
            ).hits


def _document(hit: Hit) -> PooledDocument:
    passage = hit.passage
    marked = [span for span in hit.highlights if span[1] <= _LONGEST_PASSAGE]
    return PooledDocument(
        hit.document_id, hit.title, passage.heading, passage.text[:_LONGEST_PASSAGE], marked
    )


def _digest(*parts: str) -> str:
    return blake2b(
        "\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES, key=_SEED
    ).hexdigest()
