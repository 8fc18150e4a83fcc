"""Tables with a column of vectors: Parquet, Arrow, saved datasets, and lines of JSON."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

import numpy as np

from swiftlet.corpora.fields import Fields
from swiftlet.corpora.lines import LineError, parse_lines, read_errors
from swiftlet.corpora.records import record_of
from swiftlet.corpora.tables import batches_of, count_rows, rows_of, table_files
from swiftlet.corpora.vector_sources.place import Place
from swiftlet.corpora.vector_sources.source import (
    Pairs,
    Row,
    Source,
    as_float32,
    bad_row,
    checked_dim,
    chosen,
    of_pairs,
    wrong_width,
)
from swiftlet.corpora.vectors import Metric, VectorBlock
from swiftlet.errors import CollectionError
from swiftlet.types import Embeddings

_FEWEST_NUMBERS = 2
_LINES_LOOKED_AT = 100
_ABOUT = b"swiftlet"


def open_table(place: Place, vector_field: str | None, fields: Fields | None) -> Source:
    """The rows of a file of Parquet or Arrow, or of a saved dataset.

    :raises CollectionError: When there is no column of vectors, or several of which `vector_field`
        names none.
    :raises MissingExtraError: When pyarrow is not installed.
    """
    files = table_files(place.folder)
    return of_batches(
        place.name,
        lambda: chain.from_iterable(batches_of(file) for file in files),
        sum(count_rows(file) for file in files),
        vector_field,
        fields,
    )


def of_batches(
    name: str,
    batches: Callable[[], Iterable[Any]],
    num_rows: int,
    vector_field: str | None,
    fields: Fields | None,
    metric: Metric | None = None,
) -> Source:
    """The rows of record batches of Arrow.

    :raises CollectionError: As `open_table`.
    """
    head = next((batch for batch in batches() if batch.num_rows), None)
    if head is None:
        raise CollectionError(name, "there is no vector")
    column = chosen(name, "column", vector_columns(head), vector_field)
    filled = head[column].drop_null()
    dim = checked_dim(name, len(filled[0]) if len(filled) else 0)
    about = json.loads((head.schema.metadata or {}).get(_ABOUT, b"{}"))

    def read(first: int) -> Iterator[VectorBlock]:
        start = 0
        for batch in batches():
            if start + batch.num_rows > first:
                batch = batch.slice(max(0, first - start))  # noqa: PLW2901
                row = max(first, start)
                embeddings = _embeddings(name, batch[column], row, dim)
                rows = _rows(name, batch.drop_columns([column]), row, fields, bool(about))
                yield VectorBlock(rows, embeddings)
                start = row
            start += batch.num_rows

    return Source(name, dim, about.get("metric", metric), num_rows, read)


def open_lines(place: Place, vector_field: str | None, fields: Fields | None) -> Source:
    """The rows of a file of JSON lines, plain or compressed.

    :raises CollectionError: As `open_table`.
    """

    def records() -> Iterator[dict[str, Any]]:
        return (record for _, record in parse_lines(place.folder, record_of))

    name = place.name
    field = chosen_field(name, islice(records(), _LINES_LOOKED_AT), vector_field)

    def pairs(first: int) -> Pairs:
        for number, record in enumerate(islice(records(), first, None), first):
            vector = record.pop(field, None)
            yield named(name, number, record, fields), vector

    return of_pairs(name, pairs)


def chosen_field(name: str, records: Iterable[Mapping[str, Any]], vector_field: str | None) -> str:
    """The field of records with the vectors: a list of numbers, of one length in all records.

    :raises CollectionError: As `chosen`.
    """
    widths: dict[str, set[int]] = {}
    for record in records:
        for field, value in record.items():
            is_vector = (
                isinstance(value, list)
                and len(value) >= _FEWEST_NUMBERS
                and all(type(each) in (int, float) for each in value)
            )
            widths.setdefault(field, set()).add(len(value) if is_vector else 0)
    if vector_field in widths:
        return vector_field
    candidates = [field for field, found in widths.items() if len(found) == 1 and 0 not in found]
    return chosen(name, "field", candidates, vector_field)


def named(name: str, number: int, record: dict[str, Any], fields: Fields | None) -> Row:
    """A record with the names that a line of JSON has.

    :raises CollectionError: When a field that `fields` name is missing.
    """
    try:
        return record if fields is None else fields.of(record)
    except LineError as error:
        raise bad_row(name, number, f"{error}") from error


def vector_columns(batch: Any) -> list[str]:
    """The columns of a record batch with lists of numbers of one length."""
    return [
        name
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if _is_vectors(column)
    ]


def _is_vectors(column: Any) -> bool:
    from pyarrow import compute, types

    kind = column.type
    if types.is_fixed_size_list(kind):
        value = kind.value_type
        are_numbers = types.is_floating(value) or types.is_int8(value) or types.is_uint8(value)
        return bool(are_numbers and kind.list_size >= _FEWEST_NUMBERS)
    if not (types.is_list(kind) or types.is_large_list(kind)) or not types.is_floating(
        kind.value_type
    ):
        return False
    lengths = compute.unique(compute.list_value_length(column).drop_null())
    return len(lengths) == 1 and bool(lengths[0].as_py() >= _FEWEST_NUMBERS)


def _embeddings(name: str, column: Any, first: int, dim: int) -> Embeddings:
    """The vectors (n, dim) of a column.

    :raises CollectionError: When a row has none, or one of another width.
    """
    import pyarrow
    from pyarrow import compute

    with read_errors(name, pyarrow.ArrowException):
        column.validate(full=True)
        lengths = compute.fill_null(compute.list_value_length(column), 0).to_numpy(
            zero_copy_only=False
        )
        flat = compute.fill_null(column.flatten().cast(pyarrow.float32(), safe=False), np.nan)
    if (lengths != dim).any():
        place = int(np.argmax(lengths != dim))
        if not column[place].is_valid:
            raise bad_row(name, first + place, "it has no vector")
        raise wrong_width(name, first + place, int(lengths[place]), dim)
    return as_float32(flat.to_numpy(zero_copy_only=False).reshape(len(column), dim))


def _rows(name: str, batch: Any, first: int, fields: Fields | None, is_export: bool) -> list[Row]:
    rows: list[Row] = []
    if not batch.num_columns:
        return [{} for _ in range(batch.num_rows)]
    for number, row in enumerate(rows_of(batch, name), first):
        if isinstance(row, LineError):
            raise bad_row(name, number, f"{row}")
        if is_export:  # `export_vectors` writes metadata as JSON
            row["metadata"] = json.loads(row["metadata"])
        rows.append(named(name, number, row, fields))
    return rows
