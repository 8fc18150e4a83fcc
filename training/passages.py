"""The passages of one or several corpora, on disk, read by row."""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from indexing.document_writer import write_documents
from indexing.progress import Progress
from retrieval.documents import connect_read_only
from retrieval.lines import read_errors
from retrieval.passages import PassageSplitter, encoder_text
from retrieval.publication import published, storage_errors
from retrieval.types import Document
from training.errors import TrainingDataError
from training.identifiers import Identifiers

_STORE_FILE = "documents.sqlite"
_SOURCE_FILE = "source.json"
_FORMAT_VERSION = 1
# How a tokenizer treats these tells it from others, as far as the cutting of passages goes.
_TOKENIZER_SAMPLE = "The 1,024 Ångström-wide naïve photosynthesisers re-emit: 光, свет, x²≥π! " * 2

_TEXT = """
SELECT documents.title, coalesce(passages.text, documents.text)
FROM passages JOIN documents USING (document) WHERE passage = ?
"""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents that go into a store, with the files they come from, by which it is known again."""

    name: str
    files: Sequence[Path]
    documents: Callable[[], Iterator[Document]]


class PassageTexts(Protocol):
    """Where the texts of passages are read from, by row."""

    @property
    def num_passages(self) -> int:
        """How many there are."""
        ...

    @property
    def key(self) -> str:
        """What tells these passages from others."""
        ...

    def texts(self, rows: NDArray[np.int64]) -> list[str]:
        """What the document encoder reads for each of `rows` (n,), in that order."""
        ...


class Passages:
    """The passages of a store in the order of their corpora; of it, only numbers are in memory.

    Documents are numbered in that order too, so the rows of a document are neighbours. Not
    thread-safe, and each process opens its own.
    """

    def __init__(self, directory: Path) -> None:
        """Open the store that `store_passages` wrote.

        :raises TrainingDataError: When it is damaged.
        """
        self.directory = directory
        self._connection = connect_read_only(directory / _STORE_FILE)
        try:
            (self.num_passages,) = self._connection.execute(
                "SELECT count(*) FROM passages"
            ).fetchone()
            # The columns of texts stand last and are not read.
            first_rows = self._connection.execute(
                "SELECT passage FROM passages WHERE number = 0 ORDER BY passage"
            )
            starts = np.fromiter((row for (row,) in first_rows), np.int64)
            ids = self._connection.execute("SELECT document_id FROM documents ORDER BY document")
            self.document_ids = Identifiers(document_id for (document_id,) in ids)
        except sqlite3.Error as error:
            raise TrainingDataError(
                f"{directory} is damaged ({error}); remove it to have it written again"
            ) from error
        self.first_rows: NDArray[np.int64] = np.append(starts, self.num_passages)
        """Where the rows of each document begin, and the end, (documents + 1,)."""

    @property
    def key(self) -> str:
        """What tells these passages from others."""
        return self.directory.name

    @property
    def num_documents(self) -> int:
        """How many documents there are."""
        return len(self.document_ids)

    @property
    def passage_to_document(self) -> NDArray[np.int32]:
        """The document number of each row, (passages,), ascending."""
        documents = np.arange(self.num_documents, dtype=np.int32)
        return np.repeat(documents, np.diff(self.first_rows))

    def texts(self, rows: Iterable[int]) -> list[str]:
        """What the document encoder reads for each of `rows`, in that order.

        :raises IndexError: When there is no such row.
        """
        execute = self._connection.execute
        found = [execute(_TEXT, (int(row),)).fetchone() for row in rows]
        if None in found:
            raise IndexError(f"a row is not among the {self.num_passages} passages")
        return [encoder_text(title, text) for title, text in found]

    def rows_of(self, documents: NDArray[np.int64]) -> NDArray[np.int64]:
        """All rows of document 0 of `documents` (n,), of document 1 and so on, as one array."""
        counts = self.first_rows[documents + 1] - self.first_rows[documents]
        offsets = np.cumsum(counts) - counts
        rows: NDArray[np.int64] = np.repeat(self.first_rows[documents] - offsets, counts)
        return rows + np.arange(len(rows))


def store_passages(
    corpora: Sequence[Corpus], directory: Path, splitter: PassageSplitter, progress: Progress
) -> Passages:
    """Cut the documents of all corpora into one store below `directory`, or find it there.

    Where there are several corpora, document ids get "0:", "1:" … in front. The store's name is a
    fingerprint of the files' paths, sizes and times and of how they are cut; it appears whole or
    not at all, and is used again as long as these stay the same.

    :raises CollectionError: When a corpus is bad.
    :raises TrainingDataError: When the store is damaged.
    :raises ArtefactError: When another process is writing it.
    :raises StorageError: When the file system refuses.
    """
    source = json.dumps(
        {
            "format_version": _FORMAT_VERSION,
            "corpora": [
                {"name": corpus.name, "files": [_state(file) for file in corpus.files]}
                for corpus in corpora
            ],
            "max_tokens": splitter.max_tokens,
            "overlap_tokens": splitter.overlap_tokens,
            "truncate": splitter.truncate,
            "tokenizer": splitter.tokenizer.encode(_TOKENIZER_SAMPLE),
        },
        indent=1,
    )
    target = directory / f"passages-{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    if not target.is_dir():
        with published(target, overwrite=False) as artefact, storage_errors(target):
            write_documents(artefact / _STORE_FILE, _prefixed(corpora), splitter, progress)
            (artefact / _SOURCE_FILE).write_text(source)
    else:
        progress.note(f"the passages in {target} are used again")
    return Passages(target)


def corpus_prefix(number: int, count: int) -> str:
    """What stands in front of the ids of one of `count` corpora, or of files of queries."""
    return f"{number}:" if count > 1 else ""


def _prefixed(corpora: Sequence[Corpus]) -> Iterator[Document]:
    for number, corpus in enumerate(corpora):
        prefix = corpus_prefix(number, len(corpora))
        for document in corpus.documents():
            yield replace(document, document_id=prefix + document.document_id, metadata={})


def _state(file: Path) -> list[str | int]:
    with read_errors(file):
        status = file.stat()
        return [str(file.resolve()), status.st_size, status.st_mtime_ns]
