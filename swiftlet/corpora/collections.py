"""Reads corpora and queries in many formats, which follow from the path."""

import logging
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

from swiftlet.corpora.archives import ZIP, unzipped
from swiftlet.corpora.encodings import encoding_of
from swiftlet.corpora.fields import ID_FIELDS, Fields
from swiftlet.corpora.files.documents import read_file
from swiftlet.corpora.files.folder import files_of, read_folder, real_path, unread_suffixes
from swiftlet.corpora.files.kinds import DOCUMENT_SUFFIXES, RICH_SUFFIXES, is_known
from swiftlet.corpora.files.text import TEXT_SUFFIXES
from swiftlet.corpora.identifiers import SeenIds
from swiftlet.corpora.irds import (
    Entity,
    document_from_record,
    is_dataset,
    load_dataset,
    parse_dataset,
    query_from_record,
)
from swiftlet.corpora.lines import (
    COMPRESSED_SUFFIXES,
    LineError,
    SkippedLines,
    open_bytes,
    parse_lines,
    parse_records,
    read_errors,
    refuse_file,
)
from swiftlet.corpora.records import (
    document_from_json,
    document_from_row,
    documents_from_columns,
    query,
    query_from_columns,
    query_from_json,
    without_vectors,
)
from swiftlet.corpora.tables import (
    ARROW,
    CSV,
    PARQUET,
    TABLE_SUFFIXES,
    is_saved_dataset,
    parse_table,
    table_files,
)
from swiftlet.errors import CollectionError
from swiftlet.extras import way_to
from swiftlet.types import Document, Query

logger = logging.getLogger(__name__)

_WILD = re.compile(r"[*?[]")
_LONGEST_HEAD = 1 << 20


class _Format(Enum):
    TABLE = "a table or a saved dataset"
    JSONL = "JSON lines"
    TSV = "tab-separated columns"
    TEXT = "text"
    FILE = "a file that is a document"
    FOLDER = "a folder of files"
    DATASET = "a dataset of ir_datasets"
    ARCHIVE = "an archive"


_WITH_FIELDS = (_Format.JSONL, _Format.TABLE, _Format.ARCHIVE)
_DOCUMENTS_BEFORE_CHECK = 1_000
_MOST_NAMED = 5
_LINES = {".jsonl": _Format.JSONL, ".ndjson": _Format.JSONL, ".tsv": _Format.TSV}
_SUFFIXES = {**_LINES, ZIP: _Format.ARCHIVE}
_SUFFIXES |= dict.fromkeys(TEXT_SUFFIXES, _Format.TEXT)
_SUFFIXES |= dict.fromkeys(TABLE_SUFFIXES, _Format.TABLE)


def read_documents(
    path: Path | Sequence[Path],
    *,
    skipped: SkippedLines | None = None,
    fields: Fields | None = None,
) -> Iterator[Document]:
    """The documents of a corpus, one after the other; memory does not grow with their number.

    If there are several paths, the ids of files in a folder begin with the folder's name. A path is
    one of

    - a BEIR folder (has corpus.jsonl),
    - a .jsonl file: one object per line with "_id" (or "id", "document_id"), "text", optionally
      "title" and "metadata"; further fields become metadata,
    - a .tsv file without a head: MS MARCO's passages (pid, text) or documents (docid, url, title,
      body),
    - a .parquet or .arrow file, a .csv or .tsv file with a head, or a folder that `save_to_disk` of
      Hugging Face's datasets wrote, with columns as the fields of a line of JSON,
    - a folder of files, or one file: text, Markdown, HTML, PDF, office files, e-mails, source code
      and more; a page of a PDF is a document, and so are slides, sheets, chapters and messages,
    - a .zip file of these,
    - a pattern of such files, "data/*.jsonl.gz", which are read in the order of their names,
    - `irds:NAME`, a dataset of ir_datasets, which is downloaded if need be.

    The .jsonl, .csv and .tsv files may be compressed (.gz, .zst).

    :param skipped: Collects the bad lines, which are then left out, and the files that cannot be
        read; without it, lines are refused, and the log has the files.
    :param fields: Other names of the fields of JSON lines and tables. Then a .tsv
        file has a head.
    :raises CollectionError: When `path` is none of these or cannot be read (at once, before the
        first document); when there is no valid document; and, unless there is `skipped`, when a
        line is bad: not valid, no id, an id that came before, neither text nor title. After the
        first 1,000 documents, or all, when none has one of the `fields`.
    :raises MissingExtraError: When a package that reads this format is not installed.
    """
    sources = [_recognise(each, "docs", fields) for each in _matching(path)]
    if fields is not None and not any(layout in _WITH_FIELDS for _, layout in sources):
        source, layout = sources[0]
        raise CollectionError(
            source,
            f"fields can be named of JSON lines and tables, not of {layout.value}: name the "
            "tables themselves",
        )
    if skipped is None:
        return _logged_documents(sources, fields)
    return _valid_documents(sources, skipped, fields)


def corpus_files(path: Path) -> list[Path]:
    """The files that `read_documents` reads, in order; none where `path` is `irds:NAME`.

    :raises CollectionError: As `read_documents` before the first document.
    """
    files: list[Path] = []
    for source, layout in [_recognise(each, "docs") for each in _matching(path)]:
        if layout is _Format.FOLDER:
            files += files_of(source)
        elif layout is _Format.TABLE:
            files += table_files(source)
        elif layout is not _Format.DATASET:
            files.append(source)
    return files


def unread_files(path: Path | Sequence[Path]) -> str:
    """A sentence about the files in folders that `read_documents` does not read; empty if none.

    :raises CollectionError: As `read_documents` before the first document.
    """
    counts, paths = Counter[str](), _matching(path)
    named = {real_path(each) for each in paths if not is_dataset(each)}
    for each in paths:
        counts += _unread_suffixes(each, named)
    return unread_sentence(counts, "name each file of {} to index it")


def unread_sentence(
    counts: Counter[str], way: str = "to search a file of {}, run swiftlet index FILE --out INDEX"
) -> str:
    """A sentence about files that are not read, by the numbers of their suffixes or names.

    :param way: What to do with tables and archives; the default is for a folder that is followed.
    """
    if not counts:
        return ""
    kinds = [f"{count} {each}" for each, count in counts.most_common() if each.startswith(".")]
    if names := [each for each in counts if not each.startswith(".")]:
        shown = ", ".join(names[:_MOST_NAMED]) + ", …" * (len(names) > _MOST_NAMED)
        kinds.append(f"{sum(counts[each] for each in names)} without a suffix ({shown})")
    ways = []
    if missing := sorted(counts.keys() & RICH_SUFFIXES):
        ways.append(f"to read {' and '.join(missing)}, run {way_to('files')}")
    if tables := sorted(counts.keys() & {*TABLE_SUFFIXES, *_LINES, ZIP}):
        ways.append(way.format(" or ".join(tables)))
    total = counts.total()
    return "; ".join([f"{total:,} file{'s' * (total > 1)} skipped: {', '.join(kinds)}", *ways])


def read_queries(path: Path) -> list[Query]:
    """The queries of a BEIR folder (has queries.jsonl), a .jsonl, .tsv or text file or `irds:NAME`.

    A line of JSON is an object with "_id" (or "id", "query_id") and "text"; a line of .tsv is id
    and text; a line of text is a query, with the line's number as its id. The .jsonl and .tsv files
    may be compressed (.gz, .zst).

    :raises CollectionError: As `read_documents`.
    :raises MissingExtraError: As `read_documents`.
    """
    source, layout = _recognise(path, "queries")
    if layout is _Format.FOLDER:
        raise CollectionError(path, "the folder has no queries.jsonl")
    if layout in (_Format.TABLE, _Format.FILE, _Format.ARCHIVE):
        kind = "a table" if layout is _Format.TABLE else path.suffix.lower()
        raise CollectionError(path, f"queries are read from .jsonl, .tsv or .txt, not from {kind}")
    unique = partial(SeenIds().unique, kind="query")
    if layout is _Format.TEXT:
        lines = parse_lines(source, lambda line: line)
        numbered = ((number, (f"{number}", line)) for number, line in lines)
        records = parse_records(source, numbered, lambda each: query(*each), None)
    elif layout is _Format.DATASET:
        records = parse_dataset(source, "queries", unique(query_from_record))
    else:
        read = query_from_json if layout is _Format.JSONL else query_from_columns
        records = parse_lines(source, unique(read))
    queries = [found for _, found in records]
    if not queries:
        raise CollectionError(source, "there is no valid query")
    return queries


def _unread_suffixes(path: Path, named: Collection[Path]) -> Counter[str]:
    source, layout = _recognise(path, "docs")
    if layout is _Format.ARCHIVE:
        with unzipped(source) as inside:
            return _unread_suffixes(inside, ())
    return unread_suffixes(source, named) if layout is _Format.FOLDER else Counter()


def _matching(path: Path | Sequence[Path]) -> list[Path]:
    """The paths, where one may be a pattern of files, which are in the order of their names."""
    if not isinstance(path, Path):
        return [found for each in path for found in _matching(each)]
    if not _WILD.search(f"{path}"):
        return [path]
    with read_errors(path):
        if is_dataset(path) or path.exists():
            return [path]
        found = sorted(Path(path.anchor).glob(f"{path.relative_to(path.anchor)}"))
    if not found:
        raise CollectionError(path, "no file matches this pattern")
    return found


def check_paths(paths: Sequence[Path]) -> None:
    """Check, before anything is read, that the files and folders of a corpus are there.

    :raises CollectionError: When one is not.
    """
    for path in _matching(paths):
        with read_errors(path):
            is_there = is_dataset(path) or path.exists()
        if not is_there:
            raise _missing(path)


def _missing(path: Path) -> CollectionError:
    return CollectionError(path, "there is no such file or folder")


def _recognise(path: Path, entity: Entity, fields: Fields | None = None) -> tuple[Path, _Format]:
    """The file or folder to read for a path, and its format."""
    if is_dataset(path):
        load_dataset(path, entity)
        return path, _Format.DATASET
    beir_file = "corpus.jsonl" if entity == "docs" else "queries.jsonl"
    with read_errors(path):
        exists, is_folder = path.exists(), path.is_dir()
    if not exists:
        raise _missing(path)
    if is_folder:
        for name in (beir_file, f"{beir_file}.gz"):
            if (path / name).is_file():
                return path / name, _Format.JSONL
        if is_saved_dataset(path):
            return path, _Format.TABLE
        if any((path / name).exists() for name in ("corpus.jsonl", "queries.jsonl", "qrels")):
            raise CollectionError(path, f"the BEIR folder has no {beir_file}")
        return path, _Format.FOLDER
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compressed = suffixes[-1:] and suffixes[-1] in COMPRESSED_SUFFIXES
    suffix = "".join(suffixes[-2:-1] if compressed else suffixes[-1:])
    layout = _SUFFIXES.get(suffix) or (_Format.FILE if is_known(suffix) else None)
    compressible = layout in (_Format.JSONL, _Format.TSV) or CSV in suffixes[-2:]
    if layout is None or (compressed and not compressible):
        others = TEXT_SUFFIXES if entity == "queries" else {PARQUET, ARROW, *DOCUMENT_SUFFIXES}
        raise CollectionError(
            path,
            "not recognised: it must be a BEIR folder, a folder of files, irds:NAME, or a "
            f"file that ends in {', '.join(_LINES)}{f', {CSV}' * (entity == 'docs')} "
            f"(or these with {' or '.join(COMPRESSED_SUFFIXES)}), "
            f"{', '.join(sorted(others))}" + f", {ZIP} or source code" * (entity == "docs"),
        )
    if layout is _Format.TSV and entity == "docs" and (fields or _has_head(path)):
        return path, _Format.TABLE
    return path, layout


def _has_head(path: Path) -> bool:
    """Whether the first line of tab-separated columns names an id and a text."""
    with read_errors(path), open_bytes(path) as file:
        head, encoding = file.readline(_LONGEST_HEAD), "utf-8"
    with suppress(LineError):  # then its lines are bad
        encoding = encoding_of(head, complete=False)
    names = [
        name.strip("\"' \r\n\ufeff\ufffd") for name in head.decode(encoding, "replace").split("\t")
    ]
    return "text" in names and not set(names).isdisjoint(ID_FIELDS)


def _logged_documents(
    sources: Sequence[tuple[Path, _Format]], fields: Fields | None
) -> Iterator[Document]:
    """For a program that collects nothing, the log has the files that are left out, and notes."""
    skipped = SkippedLines(lines=False)
    try:
        yield from _valid_documents(sources, skipped, fields)
    finally:
        for sentence in skipped.notes:
            logger.warning("%s", sentence)
        for message in skipped.messages:
            logger.warning("left out: %s", message)


def _valid_documents(
    sources: Sequence[tuple[Path, _Format]], skipped: SkippedLines, fields: Fields | None
) -> Iterator[Document]:
    count, seen = 0, SeenIds()
    for source, layout in sources:
        for document in _documents(source, layout, seen, skipped, fields, alone=len(sources) == 1):
            count += 1
            yield document
            if count == _DOCUMENTS_BEFORE_CHECK:
                (fields or Fields()).check(source)
    (fields or Fields()).check(sources[-1][0])
    if not count:
        folders = [source for source, layout in sources if layout is _Format.FOLDER]
        kinds = f" ({', '.join(sorted(DOCUMENT_SUFFIXES))}, source code)" if folders else ""
        if folders and (unread := unread_files(folders)):
            kinds += f"; {unread}"
        place = sources[0][0] if len(sources) == 1 else "the corpus"
        bad = f"; {skipped.messages[0]}" if folders and skipped.messages else ""
        raise CollectionError(place, f"there is no valid document{kinds}{bad}")


def _documents(
    path: Path,
    layout: _Format,
    seen: SeenIds,
    skipped: SkippedLines,
    fields: Fields | None,
    *,
    alone: bool,
) -> Iterator[Document]:
    unique = seen.unique
    records: Iterator[tuple[Any, Document]]
    match layout:
        case _Format.ARCHIVE:
            with unzipped(path, skipped) as inside:
                parts = _recognise(inside, "docs", fields)
                yield from _documents(*parts, seen, skipped, fields, alone=alone)
            return
        case _Format.FOLDER:
            files = read_folder(path, skipped, path if alone else path.parent)
            records = _unique_files(path, files, seen, skipped)
        case _Format.TEXT | _Format.FILE:
            try:
                files = iter([*read_file(path, path.parent, skipped)])
            except CollectionError as error:
                if alone:
                    raise
                refuse_file(error, skipped)
                return
            records = _unique_files(path, files, seen, skipped)
        case _Format.TABLE:
            read = partial(document_from_row, fields=fields)
            records = parse_table(path, unique(read), skipped, fields)
        case _Format.JSONL:
            read = partial(document_from_json, fields=fields)
            records = parse_lines(path, unique(read), skipped)
        case _Format.TSV:
            records = parse_lines(path, unique(documents_from_columns()), skipped)
        case _Format.DATASET:
            records = parse_dataset(path, "docs", unique(document_from_record), skipped)
    documents = (document for _, document in records)
    yield from without_vectors(documents, fields.metadata if fields else (), skipped.note)


def _unique_files(
    path: Path, documents: Iterable[Document], seen: SeenIds, skipped: SkippedLines
) -> Iterator[tuple[None, Document]]:
    """Several paths may have files of one name."""
    records = ((None, document) for document in documents)
    return parse_records(path, records, seen.unique(lambda document: document), skipped)
