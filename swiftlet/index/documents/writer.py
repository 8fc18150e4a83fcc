"""Writes the document store: a corpus and the passages that it is cut into."""

import hashlib
import json
import sqlite3
from array import array
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import starmap
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from swiftlet import disk
from swiftlet.errors import CollectionError, StorageError
from swiftlet.index.documents.numbers import DocumentNumbers
from swiftlet.index.documents.passages import encoder_text
from swiftlet.index.documents.store import SCHEMA
from swiftlet.progress import Progress
from swiftlet.types import Document, Passage

Hashes = NDArray[np.uint64]

_TEXTS = (
    "documents.title, coalesce(passages.text, documents.text), iif(?, passages.heading, '') "
    "FROM passages JOIN documents USING (document)"
)


class Splitter(Protocol):
    """Gives the passages of a document, such as `PassageSplitter`."""

    def split(self, document: Document) -> Iterable[Passage]:
        """The passages in order, at least one."""
        ...


@dataclass(frozen=True)
class StoredCorpus:
    """A written document store, whose connection reads it until it is closed.

    `content_sha256` is the hash of the encoder's input, passage by passage: two stores with the
    same hash have the same embeddings. `hashes` (n,) has the hash of each passage's input, which
    the heading above the passage belongs to with `headings`.
    """

    connection: sqlite3.Connection
    num_documents: int
    num_passages: int
    content_sha256: str
    hashes: Hashes
    headings: bool

    def encoder_texts(self, first_row: int = 0) -> Iterator[str]:
        """The encoder's input for each passage, in row order from `first_row` on."""
        found = self.connection.execute(
            f"SELECT {_TEXTS} WHERE passage >= ? ORDER BY passage",
            (self.headings, first_row),
        )
        return starmap(encoder_text, found)

    def encoder_texts_at(self, rows: Iterable[int]) -> Iterator[str]:
        """The encoder's input for the passages at `rows`, in that order."""
        found = self.connection.execute(
            f"SELECT {_TEXTS} JOIN json_each(?) AS wanted ON passage = wanted.value "
            "ORDER BY wanted.key",
            (self.headings, json.dumps([*map(int, rows)])),
        )
        return starmap(encoder_text, found)

    def metadata(self) -> Iterator[dict[str, Any]]:
        """The metadata of each document, in the order of ids."""
        found = self.connection.execute("SELECT metadata FROM documents ORDER BY document_id")
        return (json.loads(text) for (text,) in found)

    @cached_property
    def passage_to_document(self) -> DocumentNumbers:
        """The document number of each passage row; documents are numbered in the order of ids."""
        order, documents = (
            np.fromiter((number for (number,) in self.connection.execute(rows)), np.int32)
            for rows in (
                "SELECT document FROM documents ORDER BY document_id",
                "SELECT document FROM passages ORDER BY passage",
            )
        )
        numbers = np.empty_like(order)
        numbers[order] = np.arange(self.num_documents, dtype=np.int32)
        return numbers[documents]

    def close(self) -> None:
        """Close the connection; nothing may be read any more."""
        self.connection.close()


def hash_of(text: str) -> int:
    """64 bits of a hash of the encoder's input for a passage."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


def write_documents(
    path: Path,
    documents: Iterable[Document],
    splitter: Splitter,
    progress: Progress,
    *,
    headings: bool = False,
) -> StoredCorpus:
    """Read the whole corpus, split it and store it, so bad input is found before any encoding.

    :param headings: Whether the encoder reads the heading above each passage.
    :raises CollectionError: When there is no document, or two have the same id.
    :raises StorageError: When the file system refuses.
    """
    with disk.storage_errors(path):
        disk.remove(path, missing_ok=True)
    with ExitStack() as opened:
        try:
            connection = opened.enter_context(closing(disk.database(path, isolation_level=None)))
            # The file is only read when it is complete; after a kill it is written again.
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute("PRAGMA synchronous = OFF")
            connection.executescript(SCHEMA)
            connection.execute("BEGIN")
            stored = _write(connection, documents, splitter, progress, headings=headings)
            connection.execute("COMMIT")
        except sqlite3.DatabaseError as error:  # also of a block that cannot be read again
            raise StorageError(f"cannot write {path}: {error}") from error
        if not stored.num_documents:
            raise CollectionError("the corpus", "it has no documents")
        opened.pop_all()  # the caller closes it
    return stored


def _write(
    connection: sqlite3.Connection,
    documents: Iterable[Document],
    splitter: Splitter,
    progress: Progress,
    *,
    headings: bool,
) -> StoredCorpus:
    content, hashes = hashlib.sha256(), array("Q")
    row = number = 0
    progress.begin("Reading documents", None)
    for number, document in enumerate(documents, start=1):
        try:
            connection.execute(
                "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?)",
                (
                    number - 1,
                    document.document_id,
                    document.title,
                    json.dumps(document.metadata, ensure_ascii=False),
                    json.dumps(document.sections),
                    document.text,
                ),
            )
        except sqlite3.IntegrityError:
            raise CollectionError(
                "the corpus", f"two documents have the id {document.document_id!r}"
            ) from None
        for index, passage in enumerate(splitter.split(document)):
            text = None if passage.text == document.text else passage.text
            connection.execute(
                "INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?, ?)",
                (row, number - 1, index, passage.start, passage.end, passage.heading, text),
            )
            read = encoder_text(document.title, passage.text, passage.heading if headings else "")
            encoded = read.encode()
            content.update(len(encoded).to_bytes(8, "big"))
            content.update(encoded)
            hashes.append(hash_of(read))
            row += 1
        progress.advance(1)
    found = content.hexdigest(), np.array(hashes, np.uint64)
    return StoredCorpus(connection, number, row, *found, headings)
