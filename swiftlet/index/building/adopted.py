"""Vectors that were made elsewhere, as a corpus that an index is built from."""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from swiftlet import disk
from swiftlet.corpora.fields import ID_FIELDS
from swiftlet.corpora.identifiers import check_id
from swiftlet.corpora.lines import LineError
from swiftlet.corpora.records import document_from_row
from swiftlet.corpora.vector_sources.source import bad_row
from swiftlet.corpora.vectors import Metric, SourceAwayError, VectorBlock, VectorSource
from swiftlet.errors import CollectionError, RetrievalError, StorageError, shown
from swiftlet.index.contents import EncodedCorpus
from swiftlet.index.documents.passages import read_texts
from swiftlet.index.documents.split import SplitDocument
from swiftlet.index.vectors.embeddings_file import EmbeddingsFile
from swiftlet.index.vectors.lengths import comparable, stretched
from swiftlet.index.vectors.vector_index import Mask, Rows
from swiftlet.progress import Progress
from swiftlet.types import Document, Embeddings, Span

_ROWS_FILE, _STATE_FILE = "rows.sqlite", "adopt.json"
_BLOCK_ROWS = 16_384
_COMPARED_ROWS = 1_000
"""Rows of an interrupted run that are read again, to see whether they are still the same."""
_EXPORTED = ("passage_id", "document_id", "start", "end")
"""What the rows of `export_vectors` have: they are passages, with their places in the document."""
_BETWEEN = "\n\n"
_FARTHEST, _LARGEST_PLACE = 1 << 53, (1 << 63) - 1  # integers of JSON's readers, and of SQLite
_MOST_BLANK = 1_000_000
_NEAR_UNIT = 0.1
"""How far codes may take the length of a normalised vector from 1."""

# Rows with one value of `document` are the passages of a document, in the order of `place`.
_SCHEMA = """
CREATE TABLE rows (
    row INTEGER PRIMARY KEY, document TEXT NOT NULL, place, start INTEGER, end INTEGER,
    title TEXT NOT NULL, metadata TEXT NOT NULL, text TEXT NOT NULL
);
CREATE {unique} INDEX documents ON rows (document);
"""
_ORDERED = (
    "FROM rows JOIN (SELECT document, min(row) AS first FROM rows GROUP BY document) "
    "USING (document) ORDER BY first, place, row"
)


class Adopted(EncodedCorpus):
    """The rows of a source of vectors: passages, each with its vector.

    A row is a document of one passage, unless `document_field` names the document that it belongs
    to. Its text is then its passages, with a blank line between them; where rows say from where to
    where they reach, as those of `export_vectors` do, they lie there.
    """

    name = "the vectors"

    def __init__(
        self,
        source: VectorSource,
        *,
        document_field: str | None = None,
        passage_field: str | None = None,
        metric: Metric | None = None,
        keeps_file: bool = False,
        key: str | None = "",
    ) -> None:
        """Take a source; nothing is read before `stage`.

        :param document_field: The field with the id of a row's document; None takes each row for a
            document, and knows the rows of `export_vectors`.
        :param passage_field: The field that orders the rows of a document; None keeps their order.
        :param metric: How vectors are compared; None takes what the source says, or else cosine.
        :param keeps_file: Whether a file is served as it is, whose vectors nothing normalises.
        :param key: Of all that decides the rows beside the source: a run goes on with the rows of
            an interrupted one of the same key; None reads all of them.
        """
        self._key = key
        self._source, self.dim = source, source.dim
        self._document_field, self._passage_field = document_field, passage_field
        self._is_export = False
        given = metric or source.metric
        self.says_metric = given is not None
        self._metric: Metric = given or "cosine"
        self._must_be_unit = keeps_file and self._metric == "cosine"
        self.changed_lengths = False
        """Whether a vector was not normalised, and is now."""
        self.details = {}

    def stage(self, working: Path, file: EmbeddingsFile, progress: Progress) -> None:
        """Read all rows into `working`, and their vectors into `file`; goes on where a run ended.

        :raises CollectionError: When a row is bad, an id comes twice, or rows are missing.
        :raises StorageError: When the file system refuses.
        """
        self._file, self._rows = file, working / _ROWS_FILE
        state = json.dumps(
            [
                self._source.name, self.dim, self._metric, self._document_field,
                self._passage_field, self._must_be_unit, self._key,
            ]
        )  # fmt: skip
        with disk.storage_errors(working):
            if self._key is None or not self._is_same(working / _STATE_FILE, state):
                for path in (self._rows, file.path):
                    disk.remove(path, missing_ok=True)
            disk.write(working / _STATE_FILE, state)
        with disk.storage_errors(self._rows), closing(disk.database(self._rows)) as database:
            database.execute("PRAGMA synchronous = OFF")
            first = self._resume(database)
            blocks = self._blocks(database, first)
            total = self._source.num_rows
            file.append(blocks, progress, "Reading vectors", total)
            if not len(file):
                raise CollectionError(self._source.name, "it has no vectors")
            (count,) = database.execute("SELECT count(*) FROM rows").fetchone()
            if total not in (None, count) or count != len(file):
                raise CollectionError(
                    self._source.name, f"{count:,} rows came, where it says that it has {total:,}"
                )
            order = database.execute(f"SELECT row {_ORDERED}")
            self.order: Rows = np.fromiter((row for (row,) in order), np.int64, count)
            """The row of the source that each passage is."""

    def can_go_on_after(self, error: BaseException) -> bool:
        """Whether the same run may do better later: a fault of the rows or of an option stays."""
        may_pass = isinstance(error, StorageError | SourceAwayError)
        return self._key is not None and (may_pass or not isinstance(error, RetrievalError))

    @property
    def source_name(self) -> str:
        """What a message calls the source."""
        return self._source.name

    def encoder_texts(self) -> Iterator[str]:
        """What a document encoder reads of each passage, in order."""
        for document in self.documents():
            yield from read_texts(document, document.passages, {})

    @property
    def is_grouped(self) -> bool:
        """Whether a document may have several rows."""
        return self._document_field is not None or self._is_export

    @cached_property
    def metric(self) -> tuple[str, bool]:
        """`metric` and `normalised` of the manifest; vectors of length 1 are normalised."""
        if self._metric == "cosine":
            return "inner_product", True
        if self._metric == "l2":
            return "l2", False
        blocks = np.array_split(self._file.rows(), -(-len(self._file) // _BLOCK_ROWS))
        return "inner_product", not any(stretched(block).any() for block in blocks)

    @cached_property
    def has_text(self) -> Mask:
        """Which passages have a text or a title."""
        with closing(disk.database(self._rows)) as database:
            found = database.execute(f"SELECT text <> '' OR title <> '' {_ORDERED}")
            return np.fromiter((text for (text,) in found), np.bool, len(self.order))

    def other_texts(self) -> list[str]:
        """The strings among the metadata of the first row, if no row has a text."""
        with closing(disk.database(self._rows)) as database:
            if database.execute("SELECT 1 FROM rows WHERE text <> ''").fetchone():
                return []
            (metadata,) = database.execute("SELECT metadata FROM rows ORDER BY row").fetchone()
        return [name for name, value in json.loads(metadata).items() if isinstance(value, str)]

    def vectors(self, rows: Rows) -> Embeddings:
        """The vectors (n, dim) of the passages at `rows`."""
        found: Embeddings = np.ascontiguousarray(self._file.rows()[self.order[rows]])
        return found

    @override
    def documents(self) -> Iterator[SplitDocument]:
        with closing(disk.database(self._rows)) as database:
            found = database.execute(
                f"SELECT document, title, metadata, start, end, text {_ORDERED}"
            )
            for document_id, group in groupby(found, itemgetter(0)):
                rows = [*group]
                text, spans = _joined([row[3:] for row in rows])
                _, title, metadata, *_ = rows[0]
                yield SplitDocument(document_id, text, title, json.loads(metadata), (), spans)

    @override
    def embeddings(self) -> Iterator[Embeddings]:
        for start in range(0, len(self.order), _BLOCK_ROWS):
            yield self.vectors(np.arange(start, min(start + _BLOCK_ROWS, len(self.order))))

    def _is_same(self, state_file: Path, state: str) -> bool:
        """Whether an earlier run read the same rows: its first block is compared."""
        try:
            if state_file.read_text() != state or not len(self._file):
                return False
            with closing(disk.database(self._rows)) as earlier:
                rows = earlier.execute("SELECT * FROM rows ORDER BY row").fetchmany(_COMPARED_ROWS)
        except (OSError, sqlite3.DatabaseError):
            return False
        block = next(iter(self._source.blocks()), None)
        if block is None:
            return False
        known = min(len(rows), len(self._file), len(block.rows))
        with closing(sqlite3.connect(":memory:")) as database:
            self._make_table(database, block)
            for row, fields in enumerate(block.rows[:known]):
                self._insert(database, row, fields)
            again = database.execute("SELECT * FROM rows ORDER BY row").fetchall()
        vectors = self._checked(block, 0).embeddings[:known]
        return again == rows[:known] and np.array_equal(self._file.rows()[:known], vectors)

    def _resume(self, database: sqlite3.Connection) -> int:
        """Cut the table and the vectors to the rows that both have; their number."""
        first = 0
        if database.execute("SELECT 1 FROM sqlite_master").fetchone():
            (self._is_export,) = map(bool, database.execute("PRAGMA user_version").fetchone())
            (count,) = database.execute("SELECT count(*) FROM rows").fetchone()
            first = min(int(count), len(self._file))
            with database:
                database.execute("DELETE FROM rows WHERE row >= ?", (first,))
        if first:
            with disk.opened(self._file.path, "r+b") as file:
                file.truncate(first * 4 * self.dim)
        else:
            disk.remove(self._file.path, missing_ok=True)
        return first

    def _blocks(self, database: sqlite3.Connection, first: int) -> Iterator[Embeddings]:
        for block in self._source.blocks(first):
            if not first:
                self._make_table(database, block)
            checked = self._checked(block, first)
            with database:
                for row, fields in enumerate(block.rows, start=first):
                    self._insert(database, row, fields)
            first += len(checked.embeddings)
            yield checked.embeddings

    def _make_table(self, database: sqlite3.Connection, head: VectorBlock) -> None:
        """Make the table for rows as those of the first block are."""
        if self._document_field is None and len(head.rows):
            self._is_export = set(_EXPORTED) <= head.rows[0].keys()
        database.executescript("DROP TABLE IF EXISTS rows;")
        database.executescript(_SCHEMA.format(unique="" if self.is_grouped else "UNIQUE"))
        database.execute(f"PRAGMA user_version = {int(self._is_export)}")

    def _checked(self, block: VectorBlock, first: int) -> VectorBlock:
        """A block whose vectors have a direction, and for cosines the length 1."""
        vectors = np.ascontiguousarray(block.embeddings, np.float32)
        if len(block.rows) != len(vectors):
            raise CollectionError(
                self._source.name,
                f"{len(block.rows):,} rows from row {first + 1:,} on have {len(vectors):,} vectors",
            )
        if self._must_be_unit and (far := stretched(vectors, _NEAR_UNIT)).any():
            row = int(np.argmax(far))
            raise bad_row(
                self._source.name,
                first + row,
                f"the vector has the length {np.linalg.norm(vectors[row]):.3g}, and a file that is "
                "served as it is gives cosines only of vectors of length 1: pass --rebuild (in "
                "Python as_is=False), or leave out the metric for inner products",
            )
        found = comparable(vectors, normalised=self._metric == "cosine")
        self.changed_lengths |= found is not vectors
        return replace(block, embeddings=found)

    def _insert(self, database: sqlite3.Connection, row: int, fields: Mapping[str, Any]) -> None:
        rest, place = dict(fields), None
        try:
            if self._passage_field is not None:
                place = _place(rest, self._passage_field)
            start, end = self._span(rest)
            document = _document(rest, self._document_field or (self._is_export and "document_id"))
        except LineError as error:
            raise bad_row(self._source.name, row, f"{error}") from error
        metadata = json.dumps(document.metadata, ensure_ascii=False)
        values = (
            row, document.document_id, start if place is None else place, start, end,
            document.title, metadata, document.text,
        )  # fmt: skip
        try:
            database.execute("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
        except sqlite3.IntegrityError:
            raise bad_row(
                self._source.name,
                row,
                f"the id {shown(document.document_id)} came before: if rows are passages of a "
                "document, name the field with its id by --document-field (in Python "
                "document_field)",
            ) from None
        except sqlite3.DatabaseError as error:
            raise StorageError(f"cannot write {self._rows}: {error}") from error

    def _span(self, rest: dict[str, Any]) -> tuple[int | None, int | None]:
        """Where a passage of `export_vectors` lies in its document; these fields are taken out."""
        if not self._is_export:
            return None, None
        rest.pop("passage_id", None)
        span = _taken(rest, "start"), _taken(rest, "end")
        is_whole = all(isinstance(each, int) for each in span)
        if not is_whole or not 0 <= span[0] <= span[1] <= _FARTHEST:
            raise LineError(f"the passage is from {shown(span[0])} to {shown(span[1])}")
        return span


def _document(rest: dict[str, Any], document_field: str | bool | None) -> Document:
    """The document of a row, which may be without a text."""
    if document_field:
        found = _taken(rest, f"{document_field}")
        ids = [found]
    else:
        ids = [rest[name] for name in (*ID_FIELDS, "passage_id") if name in rest]
    if not ids:
        raise LineError(
            f"there is no id: none of the fields {', '.join(ID_FIELDS)}; --id-field (in Python "
            "fields=…) names another, and --ids a file with the ids"
        )
    for name in ID_FIELDS:
        rest.pop(name, None)
    document_id = check_id(ids[0], "document id")
    text = "" if rest.get("text") is None else rest["text"]
    is_empty = isinstance(text, str) and not text.strip()
    # A reader of corpora refuses a document without words; here it has a vector.
    row = {**rest, "_id": document_id, "text": "-" if is_empty else text}
    document = document_from_row(row)
    return replace(document, text="") if is_empty else document


def _place(rest: dict[str, Any], name: str) -> int | float | str:
    place = _taken(rest, name)
    if not isinstance(place, int | float | str):
        raise LineError(f"{shown(name)} is {shown(place)}, but a number that orders is expected")
    if isinstance(place, int) and abs(place) > _LARGEST_PLACE:
        raise LineError(f"{shown(name)} is {shown(place)}, beyond what orders: 2^63 - 1")
    return place


def _taken(rest: dict[str, Any], name: str) -> Any:
    if rest.get(name) is None:
        raise LineError(f"there is no {shown(name)}; the fields are {', '.join(rest) or 'none'}")
    return rest.pop(name)


def _joined(rows: Sequence[tuple[int | None, int | None, str]]) -> tuple[str, tuple[Span, ...]]:
    """The text of a document, and where its passages lie in it.

    They lie where their rows say, unless these disagree or the text would be mostly blank.
    """
    most = _MOST_BLANK + 2 * sum(len(text) for _, _, text in rows)
    if all(
        start is not None and end == start + len(text) and end < most for start, end, text in rows
    ):
        text = _laid_out([(start or 0, each) for start, _, each in rows])
        if all(text[start:end] == each for start, end, each in rows):
            return text, tuple((start or 0, end or 0) for start, end, _ in rows)
    parts, spans, end = list[str](), list[Span](), 0
    for _, _, each in rows:
        if each and end:
            parts.append(_BETWEEN)
            end += len(_BETWEEN)
        parts.append(each)
        spans.append((end, end := end + len(each)))
    return "".join(parts), tuple(spans)


def _laid_out(passages: Sequence[tuple[int, str]]) -> str:
    """Passages at their places in a text; what lay between them was blank."""
    parts, end = list[str](), 0
    for start, passage in sorted(passages):
        parts.append(" " * (start - end) + passage[max(0, end - start) :])
        end = max(end, start + len(passage))
    return "".join(parts)
