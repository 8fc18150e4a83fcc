"""Rows of CSV files, and of files with tabs in place of the commas."""

import csv
import io
import re
from collections.abc import Collection, Iterator
from itertools import chain, islice
from pathlib import Path

from swiftlet.corpora.lines import LineError, open_bytes, read_errors
from swiftlet.errors import CollectionError, shown
from swiftlet.text import has_lone_surrogate

_JUDGED_ROWS = 1_000
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_BOOLEANS = {"true": True, "false": False}
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")

Cells = list[str]
Row = dict[str, object]


def csv_rows(file: Path, texts: Collection[str] = ()) -> Iterator[Row | LineError]:
    """The filled cells of each row by column, or what is wrong with the row.

    In a column that is not in `texts`, cells become numbers or booleans if all cells of the first
    thousand rows are; a number has no zeros before it, so that 007 stays a text.

    :raises CollectionError: When the file cannot be read, or has no good head.
    """
    csv.field_size_limit(2**31 - 1)
    with read_errors(file), open_bytes(file) as content:
        if content.peek(2)[:2] in _UTF_16:
            raise CollectionError(file, "the text is UTF-16: save it as UTF-8")
        lines = io.TextIOWrapper(content, "utf-8-sig", "surrogateescape", newline="")
        separator = "\t" if ".tsv" in map(str.lower, file.suffixes[-2:]) else ","
        rows = _parsed(csv.reader(lines, strict=True, delimiter=separator))
        head = _head(file, next(rows, []), separator)
        first = list(islice(rows, _JUDGED_ROWS))
        good = [row for row in first if isinstance(row, list) and len(row) == len(head)]
        kinds = [
            str if name in texts else _kind([row[place] for row in good if row[place]])
            for place, name in enumerate(head)
        ]
        for row in chain(first, rows):
            yield row if isinstance(row, LineError) else _row(head, kinds, row)


def _parsed(reader: Iterator[Cells]) -> Iterator[Cells | LineError]:
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            ends = "unexpected end" in f"{error}"
            yield LineError("a quote is not closed" if ends else f"not valid CSV: {error}")
            continue
        if row:  # a blank line is none
            yield row


def _head(file: Path, head: Cells | LineError, separator: str) -> Cells:
    if isinstance(head, LineError) or not head:
        raise CollectionError(file, "there is no head with the names of the columns")
    if len(head) == 1 and (found := re.search("[;\t|,]", head[0])):
        wanted = "commas" if separator == "," else "tabs"
        raise CollectionError(
            file, f"the columns are separated by {found[0]!r}: separate them by {wanted}"
        )
    if twice := sorted({name for name in head if head.count(name) > 1}):
        raise CollectionError(file, f"the column {shown(twice[0])} is there twice: rename one")
    return head


def _kind(cells: Cells) -> type:
    """The type of a column: float for numbers, bool, or str."""
    if cells and all(map(_NUMBER.fullmatch, cells)):
        return float
    return bool if cells and all(cell.lower() in _BOOLEANS for cell in cells) else str


def _row(head: Cells, kinds: list[type], row: Cells) -> Row | LineError:
    if len(row) != len(head):
        return LineError(f"there are {len(row)} columns where {len(head)} are expected")
    if any(map(has_lone_surrogate, row)):
        return LineError("not valid UTF-8: save the file as UTF-8")
    cells = zip(head, kinds, row, strict=True)
    return {name: _value(kind, cell) for name, kind, cell in cells if cell}


def _value(kind: type, cell: str) -> object:
    if kind is float and (found := _NUMBER.fullmatch(cell)):
        return float(cell) if found[2] or found[3] else int(cell)
    return _BOOLEANS.get(cell.lower(), cell) if kind is bool else cell
