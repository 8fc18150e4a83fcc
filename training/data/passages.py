"""A store of passages on disk, made from one or several corpora and read by row."""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from swiftlet import disk
from swiftlet.corpora.lines import read_errors
from swiftlet.database import connect_read_only
from swiftlet.index.documents.passages import PassageSplitter, encoder_text
from swiftlet.index.documents.writer import write_documents
from swiftlet.progress import Progress
from swiftlet.publication import published
from swiftlet.types import Document
from training.data.identifiers import Identifiers
from training.errors import TrainingDataError

_STORE_FILE = "documents.sqlite"
_SOURCE_FILE = "source.json"
_FORMAT_VERSION = 1
# The tokens of this text identify a tokenizer: another tokenizer would split passages differently.
_TOKENIZER_SAMPLE = "The 1,024 Ångström-wide naïve photosynthesisers re-emit: 光, свет, x²≥π! " * 2

_TEXT = """
SELECT documents.title, coalesce(passages.text, documents.text)
FROM passages JOIN documents USING (document) WHERE passage = ?
"""


@dataclass(frozen=True, slots=True)
class Corpus:
    """The documents of a corpus and the files they come from, which identify the corpus."""

    name: str
    files: Sequence[Path]
    documents: Callable[[], Iterator[Document]]


class PassageTexts(Protocol):
    """A source of passage texts, read by row."""

    @property
    def num_passages(self) -> int:
        """The number of passages."""
        ...

    @property
    def key(self) -> str:
        """A name that identifies these passages."""
        ...

    def texts(self, rows: NDArray[np.int64]) -> list[str]:
        """The input of the document encoder for each of `rows` (n,), in that order."""
        ...


class Passages:
    """The passages of a store, in the order of their corpora. Texts stay on disk.

    Documents are numbered in the same order, so the passages of a document have consecutive rows.
    Not thread-safe. Each process opens its own.
    """

    def __init__(self, directory: Path) -> None:
        """Open the store that `store_passages` wrote.

        :raises TrainingDataError: When it is damaged.
        """
        self.directory = directory
        try:
            self._connection = connect_read_only(directory / _STORE_FILE)
            (self.num_passages,) = self._connection.execute(
                "SELECT count(*) FROM passages"
            ).fetchone()
            # The text columns come last in the table, so SQLite does not read them.
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
        """The first row of each document, and the number of passages, (documents + 1,)."""

    @property
    def key(self) -> str:
        """A name that identifies these passages."""
        return self.directory.name

    @property
    def num_documents(self) -> int:
        """The number of documents."""
        return len(self.document_ids)

    @property
    def passage_to_document(self) -> NDArray[np.int32]:
        """The document number of each row, (passages,), ascending."""
        documents = np.arange(self.num_documents, dtype=np.int32)
        return np.repeat(documents, np.diff(self.first_rows))

    def texts(self, rows: Iterable[int]) -> list[str]:
        """The input of the document encoder for each of `rows`, in that order.

        :raises IndexError: When there is no such row.
        """
        execute = self._connection.execute
        found = [execute(_TEXT, (int(row),)).fetchone() for row in rows]
        if None in found:
            raise IndexError(f"a row is not among the {self.num_passages} passages")
        return [encoder_text(title, text) for title, text in found]

    def rows_of(self, documents: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of all `documents` (n,), one document after the other, as one array."""
        counts = self.first_rows[documents + 1] - self.first_rows[documents]
        offsets = np.cumsum(counts) - counts
        rows: NDArray[np.int64] = np.repeat(self.first_rows[documents] - offsets, counts)
        return rows + np.arange(len(rows))


def store_passages(
    corpora: Sequence[Corpus], directory: Path, splitter: PassageSplitter, progress: Progress
) -> Passages:
    """Split the documents of all corpora into passages, and store them below `directory`.

    If there are several corpora, document ids get the prefixes "0:", "1:", …. The name of the store
    is a fingerprint of the paths, sizes and times of the files and of the splitter's settings. A
    store with this name is reused. A store is written completely or not at all.

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
        with published(target, overwrite=False) as artefact, disk.storage_errors(target):
            stored = write_documents(artefact / _STORE_FILE, _prefixed(corpora), splitter, progress)
            stored.close()
            disk.write(artefact / _SOURCE_FILE, source)
    else:
        progress.note(f"the passages in {target} are used again")
    return Passages(target)


def corpus_prefix(number: int, count: int) -> str:
    """The prefix of all ids in one of `count` corpora or query files."""
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
