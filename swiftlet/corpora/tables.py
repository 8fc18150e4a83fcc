"""Rows of Parquet, Arrow, CSV and TSV files, and of saved datasets of Hugging Face."""

import itertools
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from swiftlet.corpora.csv_rows import Row, csv_rows
from swiftlet.corpora.fields import Fields, check_columns
from swiftlet.corpora.lines import (
    LineError,
    Record,
    SkippedLines,
    parse_records,
    read_errors,
    reason_of,
)
from swiftlet.corpora.records import EMBEDDING, FEWEST_NUMBERS, left_out_vector
from swiftlet.errors import CollectionError, shown
from swiftlet.extras import extra

PARQUET, ARROW, CSV = ".parquet", ".arrow", ".csv"
TABLE_SUFFIXES = (PARQUET, ARROW, CSV)
_SAVED, _SPLITS = "state.json", "dataset_dict.json"
EXPORT = b"swiftlet"
"""The key of the metadata that `export_vectors` gives a table."""

_ROWS_AT_ONCE, _BYTES_AT_ONCE = 1_000, 1 << 24
_NANOSECONDS = 1_000
_ERRORS = (ValueError, OverflowError, ArithmeticError, TypeError, LookupError)


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
    skipped: SkippedLines,
    fields: Fields | None,
) -> Iterator[tuple[int, Record]]:
    """The result of `parse` for each row, with the row's number from 1; empty cells are left out.

    Only some rows are in memory at a time.

    :param fields: The names of the columns with the id, the title and the text.
    :raises MissingExtraError: When pyarrow is not installed.
    :raises CollectionError: When a file cannot be read; and, unless they are skipped, when `parse`
        raises `LineError` for a row.
    """
    numbers = itertools.count(1)
    for file in table_files(path):
        is_arrow = file.is_dir() or file.suffix.lower() in (PARQUET, ARROW)
        kept = fields.metadata if fields is not None else ()
        rows = (
            _rows(file, kept, skipped.note)
            if is_arrow
            else csv_rows(file, fields or Fields(), skipped.note)
        )
        numbered = ((number, row) for row, number in zip(rows, numbers, strict=False))
        yield from parse_records(file, numbered, parse, skipped, "row")


def _rows(
    file: Path, kept: Collection[str], note: Callable[[str], None]
) -> Iterator[Row | LineError]:
    """The rows of a file of Parquet or Arrow, without columns of vectors that are not `kept`."""
    left_out: list[str] | None = None
    for batch in batches_of(file):
        if left_out is None:
            if EXPORT in (batch.schema.metadata or {}):
                raise CollectionError(
                    file,
                    "its rows are passages with their vectors, which swiftlet export-vectors "
                    "wrote: swiftlet adopt makes an index of them",
                )
            found = vector_columns(batch, FEWEST_NUMBERS, share=1.0)
            left_out = [name for name in found if name not in (EMBEDDING, *kept)]
            for name in left_out:
                note(left_out_vector(name))
        yield from rows_of(batch.drop_columns(left_out), file)


def vector_columns(batch: Any, fewest: int = 2, share: float = 0.5) -> dict[str, int]:
    """The columns of a record batch with a vector in each row, and the width of each.

    They are lists of a fixed size, or lists of floats of which enough have one length.

    :param fewest: The fewest numbers of a vector whose type does not have the size.
    :param share: How many of such lists must have one length.
    """
    try:
        names = batch.schema.names
    except UnicodeDecodeError:  # then each row is bad
        return {}
    columns = zip(names, batch.columns, strict=True)
    widths = {name: _width_of(column, fewest, share) for name, column in columns}
    return {name: width for name, width in widths.items() if width}


def _width_of(column: Any, fewest: int, share: float) -> int:
    from pyarrow import compute, types

    kind = column.type
    if types.is_fixed_size_list(kind):
        value = kind.value_type
        are_numbers = types.is_floating(value) or types.is_int8(value) or types.is_uint8(value)
        return int(kind.list_size) if are_numbers else 0
    is_list = types.is_list(kind) or types.is_large_list(kind)
    if not is_list or not types.is_floating(kind.value_type):
        return 0
    lengths = compute.list_value_length(column.drop_null()).to_numpy(zero_copy_only=False)
    if not len(lengths):
        return 0
    found, counts = np.unique(lengths, return_counts=True)
    width = int(found[counts.argmax()])
    return width if width >= fewest and counts.max() >= share * len(lengths) else 0


def batches_of(file: Path) -> Iterator[Any]:
    """The record batches of a file of Parquet or Arrow."""
    with extra("arrow"):
        import pyarrow
        import pyarrow.parquet
    with read_errors(file, pyarrow.ArrowException, UnicodeDecodeError):
        if file.suffix.lower() == PARQUET:
            with pyarrow.parquet.ParquetFile(file, memory_map=True) as table:
                groups = map(table.metadata.row_group, range(table.num_row_groups))
                size = sum(group.total_byte_size for group in groups)
                yield from table.iter_batches(rows_at_once(size, table.metadata.num_rows))
            return
        with pyarrow.memory_map(str(file)) as source:
            try:
                reader = pyarrow.ipc.open_file(source)
            except pyarrow.ArrowInvalid:
                source.seek(0)
                yield from _parts(pyarrow.ipc.open_stream(source))
            else:
                yield from _parts(map(reader.get_batch, range(reader.num_record_batches)))


def count_rows(file: Path) -> int:
    """The number of rows of a file of Parquet or Arrow.

    :raises CollectionError: When it cannot be read.
    """
    with extra("arrow"):
        import pyarrow
        import pyarrow.parquet
    if file.suffix.lower() == PARQUET:
        with read_errors(file, pyarrow.ArrowException, UnicodeDecodeError):
            return int(pyarrow.parquet.read_metadata(file).num_rows)
    return sum(batch.num_rows for batch in batches_of(file))


def _parts(batches: Iterator[Any]) -> Iterator[Any]:
    """Batches of any size in parts."""
    for batch in batches:
        batch.validate()
        step = rows_at_once(batch.nbytes, batch.num_rows)
        for first in range(0, batch.num_rows, step):
            yield batch.slice(first, step)


def rows_at_once(size: int, count: int) -> int:
    """How many of `count` rows with `size` bytes are read at a time: fewer where they are large."""
    return max(1, min(_ROWS_AT_ONCE, _BYTES_AT_ONCE * count // max(1, size)))


def _read(path: Path) -> Any:
    with read_errors(path, ValueError):
        return json.loads(path.read_bytes())


def rows_of(batch: Any, source: Path | str) -> Iterator[dict[str, Any] | LineError]:
    """The filled cells of each row by column, or what is wrong with the row.

    Times in nanoseconds are texts, as in ISO 8601.

    :raises CollectionError: When two columns have one name; it names the source.
    """
    try:
        names, types = batch.schema.names, [f"{column.type}" for column in batch.columns]
    except UnicodeDecodeError:
        yield from [LineError("the name of a column is not valid UTF-8")] * batch.num_rows
        return
    check_columns(source, names)
    columns = [_values(*each) for each in zip(batch.columns, types, strict=True)]
    for cells in zip(*columns, strict=True):
        bad = next((place for place, cell in enumerate(cells) if isinstance(cell, Exception)), None)
        if bad is not None:
            yield LineError(f"{shown(names[bad])} cannot be read: {reason_of(cells[bad])}")
        else:
            named = zip(names, cells, strict=True)
            yield {name: cell for name, cell in named if cell is not None}


def _values(column: Any, kind: str) -> list[Any]:
    """The values of a column; an error stands for each that Python cannot have."""
    from pyarrow import ArrowException

    is_sound = False
    try:
        is_sound = _is_sound(column)
        if kind.startswith("dictionary<"):  # each value once: else few bytes would fill the memory
            numbers = column.indices.unique()
            values = _values(column.dictionary.take(numbers), f"{column.dictionary.type}")
            found = dict(zip(numbers.to_pylist(), values, strict=True))
            return [found[number] for number in column.indices.to_pylist()]
        if is_sound and "[ns" not in kind:
            return list(column.to_pylist())
    except (*_ERRORS, ArrowException) as error:
        if isinstance(error, ArrowException):
            return [error] * len(column)
    # One of them is bad, or has nanoseconds.
    return [_value_or_error(column, place, is_sound) for place in range(len(column))]


def _is_sound(column: Any) -> bool:
    """Whether all values are valid, not only within the memory of a file that may be damaged.

    :raises ArrowException: When a value would be read beyond its memory.
    """
    from pyarrow import ArrowInvalid

    try:
        column.validate(full=True)
    except ArrowInvalid:
        column.view(_stored_as(column.type)).validate(full=True)
        return False
    return True


def _stored_as(kind: Any) -> Any:
    """A type with bytes for texts and decimals, integers for times: any memory is valid for it."""
    import pyarrow
    from pyarrow import types

    def inner(field: Any) -> Any:
        return field.with_type(_stored_as(field.type))

    if types.is_struct(kind):
        return pyarrow.struct([inner(kind.field(place)) for place in range(len(kind))])
    if types.is_map(kind):
        return pyarrow.map_(inner(kind.key_field), inner(kind.item_field))
    if types.is_fixed_size_list(kind):
        return pyarrow.list_(inner(kind.value_field), kind.list_size)
    if types.is_dictionary(kind):
        return pyarrow.dictionary(kind.index_type, _stored_as(kind.value_type), kind.ordered)
    for list_of in (pyarrow.list_, pyarrow.large_list, pyarrow.list_view, pyarrow.large_list_view):
        if types.is_nested(kind) and type(kind) is type(list_of(pyarrow.null())):
            return list_of(inner(kind.value_field))
    of_bytes = {
        pyarrow.string(): pyarrow.binary(),
        pyarrow.large_string(): pyarrow.large_binary(),
        pyarrow.string_view(): pyarrow.binary_view(),
    }
    stored = of_bytes.get(kind, kind)
    if types.is_decimal(kind):
        stored = pyarrow.binary(kind.byte_width)
    elif types.is_time(kind) or types.is_date64(kind):
        stored = pyarrow.int32() if kind.bit_width == 32 else pyarrow.int64()
    return stored


def _value_or_error(column: Any, place: int, is_sound: bool) -> Any:
    try:
        value = _value(column[place])
        if not is_sound:
            row = column.slice(place, 1)
            # What is taken of views has the values of all rows.
            of_views = f"{column.type}".startswith(("list_view<", "large_list_view<"))
            (row.flatten() if of_views else row.take([0])).validate(full=True)
    except _ERRORS as error:
        return error
    return value


def _value(scalar: Any) -> Any:
    """The value of a scalar; pandas, which Arrow would ask for nanoseconds, may be missing."""
    from pyarrow import types

    kind = scalar.type
    if not scalar.is_valid:
        return None
    if types.is_dictionary(kind):
        return _value(scalar.value)
    if types.is_struct(kind):
        if len({field.name for field in kind}) < len(kind):
            raise ValueError("two of its fields have one name")
        return {kind.field(place).name: _value(scalar[place]) for place in range(len(kind))}
    if types.is_nested(kind) and hasattr(scalar, "values"):
        values = [_value(each) for each in scalar.values]
        return [(*pair.values(),) for pair in values] if types.is_map(kind) else values
    in_nanoseconds = getattr(kind, "unit", "") == "ns" and not types.is_duration(kind)
    return _iso_text(scalar) if in_nanoseconds else scalar.as_py()


def _iso_text(scalar: Any) -> str:
    """A moment or a time of day in ISO 8601, with three more digits if they are not 0."""
    import pyarrow
    from pyarrow import types

    microseconds, more = divmod(scalar.value, _NANOSECONDS)
    is_moment = types.is_timestamp(scalar.type)
    kind = pyarrow.timestamp("us", scalar.type.tz) if is_moment else pyarrow.time64("us")
    value = pyarrow.scalar(microseconds, kind).as_py()
    if not more:
        return str(value.isoformat())
    return re.sub(r"\.\d{6}", rf"\g<0>{more:03}", value.isoformat(timespec="microseconds"))
