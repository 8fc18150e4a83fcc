"""Rows of CSV files, whose encoding, delimiter and quotes are recognised."""

import csv
import io
import math
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, Self

from swiftlet.corpora.encodings import UTF_8, encoding_of, name_of
from swiftlet.corpora.fields import ID_FIELDS, Fields
from swiftlet.corpora.lines import LONGEST_BYTES, LineError, open_bytes, read_errors
from swiftlet.errors import CollectionError, shown
from swiftlet.text import has_lone_surrogate

_JUDGED_ROWS = 1_000
_SAMPLE_BYTES = 1 << 16
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical lines"}
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_LONGEST_NUMBER = 4_300  # Python reads no longer integer
_BOOLEANS = {"true": True, "false": False}
_ESCAPED = re.compile(r'\\([\\"])')
_BYTES_OF_ID = 8

Cells = list[str]
Row = dict[str, object]


class _Dialect(NamedTuple):
    delimiter: str
    quote: str = '"'
    escaped: bool = False
    """Whether a quote within quotes has a backslash before it, and is not doubled."""
    spaced: bool = False
    """Whether a space after each delimiter belongs to no cell."""


def csv_rows(
    file: Path, fields: Fields | None = None, note: Callable[[str], None] = lambda _: None
) -> Iterator[Row | LineError]:
    """The cells of each row by column, or what is wrong with the row; empty cells are left out.

    In a column that is no id, title or text, cells become numbers or booleans if all cells of the
    first thousand rows are; a number has no zeros before it, so that 007 stays a text. Without a
    column of ids, the id of a row is a hash of its cells.

    After a quote that is not closed, the rows begin again at the next line.

    :param note: Is told what was recognised: another encoding, other delimiters, missing ids.
    :raises CollectionError: When the file cannot be read, or has no good head.
    """
    fields = fields or Fields()
    csv.field_size_limit(2**31 - 1)
    with read_errors(file):
        with open_bytes(file) as content:
            sample = content.read(_SAMPLE_BYTES)
        try:
            encoding = encoding_of(sample, complete=len(sample) < _SAMPLE_BYTES)
        except LineError as error:
            raise CollectionError(file, f"{error}") from error
        if encoding == "utf-8":
            encoding = "utf-8-sig"
        default = "\t" if ".tsv" in map(str.lower, file.suffixes[-2:]) else ","
        dialect = _recognised(sample.decode(encoding, "replace"), default, fields)
        if said := _said(encoding, dialect, default):
            note(f"{file.name} is read {said}")
        # The decoders of UTF-16 know no surrogates.
        wide = encoding.startswith(("utf-16", "utf_16", "utf-32"))
        errors = "replace" if wide else "surrogateescape"
        with open_bytes(file) as content:
            lines = io.TextIOWrapper(content, encoding, errors, newline="")
            if _names_delimiter(sample.decode(encoding, "replace")):
                lines.readline()
            rows = _parsed(lines, dialect)
            head = _head(file, next(rows, []))
            if needs_ids := fields.id is None and not {*head} & {*ID_FIELDS}:
                note(
                    f"{file.name} has no column with ids ({', '.join(ID_FIELDS)}), so the id of a "
                    "row is a hash of its content; --id-field names a column of ids"
                )
            first = list(islice(rows, _JUDGED_ROWS))
            good = [row for row in first if isinstance(row, list)]
            kinds = [
                str if name in fields.texts else _kind([row[place] for row in good if row[place]])
                for place, name in enumerate(head)
            ]
            seen = Counter[str]()
            for row in chain(first, rows):
                if isinstance(row, LineError):
                    yield row
                elif any(map(has_lone_surrogate, row)):
                    yield LineError(f"not valid {name_of(encoding)}: save the file as UTF-8")
                else:
                    cells = zip(head, kinds, row, strict=True)
                    found = {name: _value(kind, cell) for name, kind, cell in cells if cell}
                    yield {ID_FIELDS[0]: _content_id(row, seen)} | found if needs_ids else found


class _Lines:
    """The lines of a file for one record after the other; those of a bad record come again.

    `taken` are the lines of the last record.
    """

    def __init__(self, lines: Iterable[str], *, escaped: bool) -> None:
        self._lines, self._again = iter(lines), deque[str]()
        self.taken: list[str] = []
        self._length = self._next = self._hopeless = 0
        self._escaped = escaped

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        # A record goes on only within quotes. If an earlier record was within quotes here and came
        # to no good end, neither does this one: so no line is read more than three times.
        if self.taken and (self._next <= self._hopeless or self._length > LONGEST_BYTES):
            raise StopIteration
        line = self._again.popleft() if self._again else next(self._lines)
        self.taken.append(line)
        self._length += len(line)
        self._next += 1
        return _ESCAPED.sub(_unescaped, line) if self._escaped else line

    def begin_record(self) -> None:
        self.taken.clear()
        self._length = 0

    def give_back(self) -> None:
        """The lines after the first one of the last record come again."""
        self._hopeless = max(self._hopeless, self._next - 1)
        self._next -= len(self.taken) - 1
        self._again.extendleft(reversed(self.taken[1:]))
        del self.taken[1:]


def _unescaped(found: re.Match[str]) -> str:
    return '""' if found[1] == '"' else found[1]


def _parsed(lines: Iterable[str], dialect: _Dialect) -> Iterator[Cells | LineError]:
    source = _Lines(lines, escaped=dialect.escaped)
    reader = csv.reader(
        source,
        strict=True,
        delimiter=dialect.delimiter,
        quotechar=dialect.quote,
        skipinitialspace=dialect.spaced,
    )
    columns = 0
    while True:
        source.begin_record()
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            source.give_back()
            ends = "unexpected end" in f"{error}"
            yield LineError("a quote is not closed" if ends else f"not valid CSV: {error}")
            continue
        if not row:  # a blank line is none
            continue
        columns = columns or len(row)
        if len(row) == columns:
            yield row
        else:
            # Within a quote that is closed too late, there may be a row on each line.
            problem = f"there are {len(row)} columns where {columns} are expected"
            yield LineError(problem, lines=len(source.taken))


def _recognised(sample: str, default: str, fields: Fields) -> _Dialect:
    """The dialect that explains a sample best: names of columns that are known, and good rows."""
    lines = [*islice(io.StringIO(sample, newline=""), _JUDGED_ROWS)]
    lines = lines[_names_delimiter(sample) :]
    lines = lines[:-1] or lines  # the last line may be cut
    known = {*fields.texts, *fields.metadata}
    dialect, most = _Dialect(default), (-1, -1)
    for delimiter in (default, *_DELIMITERS):
        head, *rows = [*_parsed(lines, _Dialect(delimiter))] or [[]]
        cells = head if isinstance(head, list) and len(head) > 1 else []
        named = len(known.intersection(map(str.strip, cells)))
        found = named, sum(isinstance(row, list) and len(row) > 1 for row in rows)
        if found > most:
            spaced = bool(cells) and all(cell[:1] == " " for cell in cells[1:])
            dialect, most = _Dialect(delimiter, spaced=spaced), found
    rows = [*_parsed(lines, dialect)]
    bad = _num_bad(rows)
    if bad and '\\"' in sample and _num_bad(_parsed(lines, dialect._replace(escaped=True))) < bad:
        return dialect._replace(escaped=True)
    return dialect._replace(quote="'") if _has_apostrophes(lines, rows, dialect) else dialect


def _names_delimiter(sample: str) -> bool:
    """Whether the first line is `sep=;`, as Excel writes it."""
    return re.match('"?sep=.', sample, re.IGNORECASE) is not None


def _has_apostrophes(lines: list[str], rows: list[Cells | LineError], dialect: _Dialect) -> bool:
    """Whether apostrophes are around cells in place of quotes."""
    good = [row for row in rows if isinstance(row, list)]
    if not any("'" in line for line in lines) or any(
        line.startswith('"') or f'{dialect.delimiter}"' in line for line in lines
    ):
        return False
    around = [
        all(cell[:1] == cell[-1:] == "'" and len(cell) > 1 for cell in column if cell)
        and any(column)
        for column in zip(*good[1:], strict=True)
    ]
    if not any(around) and len(good) == len(rows):
        return False
    return _num_bad(_parsed(lines, dialect._replace(quote="'"))) == 0


def _num_bad(rows: Iterable[Cells | LineError]) -> int:
    return sum(isinstance(row, LineError) for row in rows)


def _said(encoding: str, dialect: _Dialect, default: str) -> str:
    """What a reader should know of how a file is read; empty if all is usual."""
    said = [] if encoding in UTF_8 else [f"as {name_of(encoding)}"]
    if dialect.delimiter != default:
        said.append(f"with {_DELIMITERS[dialect.delimiter]} between the columns")
    if dialect.quote != '"':
        said.append("with apostrophes for quotes")
    if dialect.escaped:
        said.append("with a backslash before a quote in a cell")
    return " and ".join(said)


def _head(file: Path, head: Cells | LineError) -> Cells:
    if isinstance(head, LineError) or not head:
        raise CollectionError(file, "there is no head with the names of the columns")
    if any(map(has_lone_surrogate, head)):
        raise CollectionError(file, "the head is not valid UTF-8: save the file as UTF-8")
    twice = sorted(name for name, count in Counter(head).items() if count > 1)
    if twice:
        raise CollectionError(file, f"the column {shown(twice[0])} is there twice: rename one")
    return head


def _kind(cells: Cells) -> type:
    """The type of a column: float for numbers, bool, or str."""
    if cells and all(_number(cell) is not None for cell in cells):
        return float
    return bool if cells and all(cell.lower() in _BOOLEANS for cell in cells) else str


def _value(kind: type, cell: str) -> object:
    if kind is float:
        number = _number(cell)
        return cell if number is None else number
    return _BOOLEANS.get(cell.lower(), cell) if kind is bool else cell


def _number(cell: str) -> float | None:
    found = _NUMBER.fullmatch(cell)
    if found is None or len(cell) > _LONGEST_NUMBER:
        return None
    if not (found[2] or found[3]):
        return int(cell)
    number = float(cell)
    return number if math.isfinite(number) else None


def _content_id(row: Cells, seen: Counter[str]) -> str:
    """An id that stays if other rows come or go; equal rows are numbered."""
    content = "".join(f"{len(cell)}:{cell}" for cell in row)
    found = sha256(content.encode()).digest()[:_BYTES_OF_ID].hex()
    seen[found] += 1
    return f"{found}-{seen[found]}" if seen[found] > 1 else found
