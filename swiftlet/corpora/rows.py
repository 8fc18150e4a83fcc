"""Corpora, queries and qrels that a program has in memory."""

import logging
import operator
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeGuard, runtime_checkable

from swiftlet.arguments import StrPath, path_of
from swiftlet.corpora.collections import check_paths, read_documents, read_queries
from swiftlet.corpora.fields import Fields, check_columns
from swiftlet.corpora.identifiers import SeenIds, check_id
from swiftlet.corpora.lines import (
    LineError,
    SkippableError,
    SkippedLines,
    parse_records,
    read_errors,
)
from swiftlet.corpora.records import document_from_row, query, to_encode, without_vectors
from swiftlet.corpora.tables import rows_of
from swiftlet.corpora.trec import read_qrels
from swiftlet.errors import CollectionError, InvalidArgumentError, shown
from swiftlet.types import Document, Qrels, Query

logger = logging.getLogger(__name__)

_ROWS_AT_ONCE = 1_000
_CORPUS, _QUERIES, _QRELS = "the corpus", "the queries", "the qrels"


@runtime_checkable
class DataFrame(Protocol):
    """The part of a pandas DataFrame that is used here."""

    @property
    def iloc(self) -> Any:
        """Rows by number."""

    def notna(self) -> Any:
        """Which cells hold a value."""


@runtime_checkable
class ArrowTable(Protocol):
    """The part of an Arrow table or dataset that is used here."""

    def to_batches(self) -> Iterable[Any]:
        """The rows in record batches."""


Row = Mapping[str, Any] | Document
Corpus = StrPath | Iterable[Row | StrPath] | DataFrame | ArrowTable
Queries = StrPath | Mapping[str, str] | Iterable[Query]
QrelsSource = StrPath | Mapping[str, Mapping[str, int]]


def documents_of(
    corpus: Corpus,
    *,
    skipped: SkippedLines | None = None,
    fields: Fields | None = None,
    can_skip: bool = True,
) -> Iterator[Document]:
    """The documents of paths as in `read_documents`, or of rows in memory, one after the other.

    A row is a `Document`, or a mapping with the fields of a line of JSON: an id ("_id", "id" or
    "document_id"), "text", optionally "title" and "metadata"; further fields become metadata.
    Empty cells of a DataFrame or an Arrow table are left out. Dates and times become strings, as
    in ISO 8601.

    :param skipped: Collects the bad rows or lines, which are then left out.
    :param fields: As in `read_documents`, for a path.
    :param can_skip: Whether the user may choose that bad lines are left out; a refusal says so.
    :raises InvalidArgumentError: When `corpus` is none of these.
    :raises CollectionError: As `read_documents`; the message names the number of the row.
    """
    if isinstance(corpus, str | os.PathLike):
        documents = read_documents(path_of("corpus", corpus), skipped=skipped, fields=fields)
    elif _are_paths(corpus):
        paths = [path_of("corpus", each) for each in corpus]
        documents = read_documents(paths, skipped=skipped, fields=fields)
    else:
        documents = documents_of_rows(rows_in(corpus), skipped)
    return _with_the_way_out(documents, can_skip=can_skip)


def check_there(corpus: Corpus) -> None:
    """Check, before anything is read, that the paths of a corpus exist.

    :raises CollectionError: When one does not.
    """
    corpus = [corpus] if isinstance(corpus, str | os.PathLike) else corpus
    if _are_paths(corpus):
        check_paths([path_of("corpus", each) for each in corpus])


def documents_of_rows(
    rows: Iterable[object], skipped: SkippedLines | None = None
) -> Iterator[Document]:
    """The documents of rows, as `documents_of` takes them.

    :raises CollectionError: As `documents_of`.
    """
    parse = SeenIds().unique(document_from_row)
    records = parse_records(_CORPUS, enumerate(rows, start=1), parse, skipped)
    yield from without_vectors((document for _, document in records), (), _note(skipped))


def documents_to_encode(
    corpus: Corpus, *, skipped: SkippedLines | None = None
) -> Iterator[Document]:
    """The documents of `documents_of` that an encoder reads: their own embeddings are left out.

    :raises CollectionError: As `documents_of`; when a document has nothing but an embedding.
    """
    return to_encode(documents_of(corpus, skipped=skipped), _note(skipped))


def _note(skipped: SkippedLines | None) -> Callable[[str], None]:
    return partial(logger.warning, "%s") if skipped is None else skipped.note


def _are_paths(corpus: object) -> TypeGuard[Sequence[str | os.PathLike[str]]]:
    return (
        isinstance(corpus, list | tuple)
        and bool(corpus)
        and all(isinstance(each, str | os.PathLike) for each in corpus)
    )


def queries_of(queries: Queries) -> list[Query]:
    """The queries of a path as in `read_queries`, of query_id -> text, or of `Query` objects.

    :raises InvalidArgumentError: When `queries` are none of these.
    :raises CollectionError: When a query has a bad id or no text, or an id comes twice.
    """
    if isinstance(queries, str | os.PathLike):
        return read_queries(path_of("queries", queries))
    if isinstance(queries, Mapping):
        queries = [Query(query_id, text) for query_id, text in queries.items()]
    if isinstance(queries, bytes) or not isinstance(queries, Iterable):
        raise InvalidArgumentError(
            f"queries cannot be of the type {type(queries).__name__}: a path, query_id -> text or "
            "an iterable of Query objects is expected"
        )
    numbered = enumerate(queries, start=1)
    parse = SeenIds().unique(_checked_query, "query")
    return [found for _, found in parse_records(_QUERIES, numbered, parse, None, "query")]


def qrels_of(qrels: QrelsSource) -> Qrels:
    """The qrels of a path as in `read_qrels`, or of query_id -> document_id -> grade.

    :raises InvalidArgumentError: When `qrels` are neither.
    :raises CollectionError: When an id is bad or a grade is not an integer.
    """
    if isinstance(qrels, str | os.PathLike):
        return read_qrels(path_of("qrels", qrels))
    if not isinstance(qrels, Mapping):
        raise InvalidArgumentError(
            f"qrels cannot be of the type {type(qrels).__name__}: a path or query_id -> "
            "document_id -> grade is expected"
        )
    with read_errors(_QRELS):
        return {
            check_id(query_id, "query id"): {
                check_id(document_id, "document id"): _grade(grade)
                for document_id, grade in _grades(query_id, grades).items()
            }
            for query_id, grades in qrels.items()
        }


def _checked_query(given: object) -> Query:
    if not isinstance(given, Query) or not isinstance(given.text, str):
        raise LineError(f"{shown(given)} is no Query with a text")
    return query(check_id(given.query_id, "query id"), given.text)


def _grades(query_id: str, grades: object) -> Mapping[str, int]:
    if not isinstance(grades, Mapping):
        raise LineError(f"the grades of {shown(query_id)} are not document_id -> grade")
    return grades


def _grade(grade: Any) -> int:
    try:
        return int(operator.index(grade))
    except TypeError:
        raise LineError(f"the grade {shown(grade)} is not an integer") from None


def rows_in(corpus: Any) -> Iterator[Any]:
    """The rows of a corpus in memory.

    :raises InvalidArgumentError: When it is none.
    """
    if isinstance(corpus, DataFrame):
        return _frame_rows(corpus)
    if isinstance(corpus, ArrowTable):
        return (row for batch in corpus.to_batches() for row in rows_of(batch, _CORPUS))
    if isinstance(corpus, Mapping | bytes) or not isinstance(corpus, Iterable):
        raise InvalidArgumentError(
            f"a corpus cannot be of the type {type(corpus).__name__}: a path, an iterable of dicts "
            "or Documents, a pandas DataFrame or an Arrow table is expected"
        )
    return iter(corpus)


def _frame_rows(frame: DataFrame) -> Iterator[dict[str, Any]]:
    check_columns(_CORPUS, frame.iloc[:0].columns)
    start = 0
    while len(part := frame.iloc[start : start + _ROWS_AT_ONCE]):
        for row in part.astype(object).where(part.notna(), None).to_dict("records"):
            yield _without_empty(row)
        start += _ROWS_AT_ONCE


def _without_empty(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def _with_the_way_out(documents: Iterator[Document], *, can_skip: bool) -> Iterator[Document]:
    try:
        yield from documents
    except SkippableError as error:
        is_missing = re.search('there is no (document id|"text")', error.problem)
        ways = "; --id-field, --title-field and --text-field name other fields" * bool(is_missing)
        if can_skip:
            ways += (
                "; the option --skip-bad-lines (in Python skipped=swiftlet.SkippedLines()) leaves "
                "it out"
            )
        raise CollectionError(error.path, f"{error.problem}{ways}", error.line_number) from error
