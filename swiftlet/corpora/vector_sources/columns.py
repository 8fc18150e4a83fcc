"""Tables with a column of vectors: Parquet, Arrow, saved datasets, and lines of JSON."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, get_args

import numpy as np

from swiftlet.corpora.fields import Fields, check_columns
from swiftlet.corpora.lines import LineError, parse_lines, read_errors
from swiftlet.corpora.records import record_of
from swiftlet.corpora.tables import (
    EXPORT,
    batches_of,
    count_rows,
    rows_of,
    table_files,
    vector_columns,
)
from swiftlet.corpora.vector_sources.place import Place
from swiftlet.corpora.vector_sources.source import (
    Pairs,
    Row,
    Source,
    as_float32,
    bad_row,
    checked_dim,
    chosen,
    named,
    of_pairs,
    wrong_width,
)
from swiftlet.corpora.vectors import Metric, VectorBlock
from swiftlet.errors import CollectionError, shown
from swiftlet.types import Embeddings

_FEWEST_NUMBERS = 2
_LINES_LOOKED_AT = 100


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
) -> Source:
    """The rows of record batches of Arrow.

    :raises CollectionError: As `open_table`.
    """
    head = next((batch for batch in batches() if batch.num_rows), None)
    if head is None:
        raise CollectionError(name, "there is no vector")
    with read_errors(name, UnicodeDecodeError):
        check_columns(name, head.schema.names)
    widths = vector_columns(head)
    column = chosen(name, "column", [*widths], vector_field, others=head.schema.names)
    dim = checked_dim(name, widths[column])
    with read_errors(name, ValueError, TypeError, RecursionError):
        about: dict[str, Any] = dict(json.loads((head.schema.metadata or {}).get(EXPORT, b"{}")))
    if about.get("metric") not in (None, *get_args(Metric)):
        raise CollectionError(
            name,
            f"its metadata name the metric {shown(about['metric'])}, where one of "
            f"{', '.join(get_args(Metric))} is expected",
        )

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

    return Source(name, dim, about.get("metric"), num_rows, read)


def open_lines(place: Place, vector_field: str | None, fields: Fields | None) -> Source:
    """The rows of a file of JSON lines, plain or compressed.

    :raises CollectionError: As `open_table`.
    """

    def records() -> Iterator[dict[str, Any]]:
        return (record for _, record in parse_lines(place.folder, record_of))

    name = place.name
    field = chosen_field(name, islice(records(), _LINES_LOOKED_AT), vector_field)

    def pairs(first: int) -> Pairs:
        for record in islice(records(), first, None):
            vector = record.pop(field, None)
            yield record, vector

    return of_pairs(name, pairs, fields)


def chosen_field(name: str, records: Iterable[Mapping[str, Any]], vector_field: str | None) -> str:
    """The field of records with the vectors: a list of numbers, mostly of one length.

    :raises CollectionError: As `chosen`.
    """
    widths: dict[str, Counter[int]] = {}
    for record in records:
        for field, value in record.items():
            widths.setdefault(field, Counter())[_width(value)] += 1
    if vector_field in widths:
        return vector_field
    commonest = {field: found.most_common(1)[0] for field, found in widths.items()}
    candidates = [
        field
        for field, (width, count) in commonest.items()
        if width >= _FEWEST_NUMBERS and 2 * count >= widths[field].total()
    ]
    return chosen(name, "field", candidates, vector_field, others=widths)


def _width(value: object) -> int:
    """The numbers of a list; 0 for anything else."""
    if not isinstance(value, list) or not {type(each) for each in value} <= {int, float}:
        return 0
    return len(value)


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
            with read_errors(f"{name}: row {number + 1:,}", ValueError, TypeError, RecursionError):
                row["metadata"] = json.loads(row.get("metadata", "{}"))
        rows.append(named(name, number, row, fields))
    return rows
