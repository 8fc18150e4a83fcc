"""Rows of Parquet, Arrow, CSV and TSV files, and of saved datasets of Hugging Face."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from swiftlet.corpora.arrow_rows import rows_of
from swiftlet.corpora.csv_rows import csv_rows
from swiftlet.corpora.fields import Fields
from swiftlet.corpora.lines import LineError, SkippedLines, read_errors, refuse
from swiftlet.errors import CollectionError
from swiftlet.extras import extra

Record = TypeVar("Record")

PARQUET, ARROW, CSV = ".parquet", ".arrow", ".csv"
TABLE_SUFFIXES = (PARQUET, ARROW, CSV)
_SAVED, _SPLITS = "state.json", "dataset_dict.json"
_ROWS_AT_ONCE = 1_000


def is_saved_dataset(folder: Path) -> bool:
    """Whether `save_to_disk` of Hugging Face's datasets wrote the folder."""
    return (folder / _SAVED).is_file() or (folder / _SPLITS).is_file()


def table_files(path: Path) -> list[Path]:
    """The files of a table, or of a saved dataset, in order.

    :raises CollectionError: When a dataset is several splits, or cannot be read.
    """
    if path.is_file():
        return [path]
    if not (path / _SAVED).is_file():
        names = _read(path / _SPLITS)["splits"]
        raise CollectionError(
            path, f"the dataset has several splits: name one, such as {path / names[0]}"
        )
    return [path / each["filename"] for each in _read(path / _SAVED)["_data_files"]]


def parse_table(
    path: Path,
    parse: Callable[[Mapping[str, Any]], Record],
    skipped: SkippedLines | None = None,
    fields: Fields | None = None,
) -> Iterator[tuple[int, Record]]:
    """The result of `parse` for each row, with the row's number from 1; empty cells are left out.

    Only some rows are in memory at a time.

    :param fields: The names of the columns with the id, the title and the text.
    :raises MissingExtraError: When pyarrow is not installed.
    :raises CollectionError: When a file cannot be read; and, unless there is `skipped`, when
        `parse` raises `LineError` for a row.
    """
    number, note = 0, (skipped or SkippedLines()).note
    for file in table_files(path):
        of_arrow = file.is_dir() or file.suffix.lower() in (PARQUET, ARROW)
        for row in _rows(file) if of_arrow else csv_rows(file, fields, note):
            number += 1
            try:
                if isinstance(row, LineError):
                    raise row
                record = parse(row)
            except LineError as error:
                problem = CollectionError(file, f"row {number:,}: {error}")
                refuse(problem, skipped, lines=error.lines)
                continue
            yield number, record


def _rows(file: Path) -> Iterator[dict[str, Any] | LineError]:
    for batch in _batches(file):
        yield from rows_of(batch)


def _batches(file: Path) -> Iterator[Any]:
    """The record batches of a file of Parquet or Arrow."""
    with extra("arrow"):
        import pyarrow
        import pyarrow.parquet
    with read_errors(file), _library_errors(file, pyarrow.ArrowException):
        if file.suffix.lower() == PARQUET:
            with pyarrow.parquet.ParquetFile(file, memory_map=True) as table:
                yield from table.iter_batches(_ROWS_AT_ONCE)
            return
        with pyarrow.memory_map(str(file)) as source:
            try:
                reader = pyarrow.ipc.open_file(source)
            except pyarrow.ArrowInvalid:
                source.seek(0)
                yield from _parts(pyarrow.ipc.open_stream(source))
            else:
                yield from _parts(map(reader.get_batch, range(reader.num_record_batches)))


def _parts(batches: Iterator[Any]) -> Iterator[Any]:
    """Batches of any size in parts."""
    for batch in batches:
        batch.validate()
        for first in range(0, batch.num_rows, _ROWS_AT_ONCE):
            yield batch.slice(first, _ROWS_AT_ONCE)


def _read(path: Path) -> Any:
    with read_errors(path):
        try:
            return json.loads(path.read_bytes())
        except ValueError as error:
            raise CollectionError(path, f"not valid JSON: {error}") from error


@contextmanager
def _library_errors(file: Path, kind: type[Exception]) -> Iterator[None]:
    """Turn an error of pyarrow into one sentence."""
    try:
        yield
    except (kind, UnicodeDecodeError) as error:  # of a name, or of the message of an error
        reason = str(error).partition("\n")[0]
        raise CollectionError(file, f"cannot be read: {reason}") from error
