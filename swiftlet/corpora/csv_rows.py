"""Rows of CSV files, whose encoding, delimiter and quotes are recognised."""

import csv
import io
import math
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, Self

from swiftlet.corpora.encodings import CONTROL, UTF_8, encoding_of, name_of
from swiftlet.corpora.fields import ID_FIELDS, Fields, check_columns
from swiftlet.corpora.lines import LineError, open_bytes, read_errors
from swiftlet.errors import CollectionError
from swiftlet.text import has_lone_surrogate

_JUDGED_ROWS = 1_000
_SAMPLE_BYTES = 1 << 16
_LONGEST_ROW = 1 << 23
"""The most characters of a row of several lines, each of which is kept: a quote may be open."""

_WIDE = ("utf-16", "utf_16", "utf-32")
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical lines"}
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_LONGEST_NUMBER = 4_300  # Python reads no longer integer
_NAN = ("NaN", "nan")
_BOOLEANS = {"true": True, "false": False}
_BYTES_OF_ID = 8

Cells = list[str]
Row = dict[str, object]


class Dialect(NamedTuple):
    """How the cells of a row are separated and quoted."""

    delimiter: str
    quote: str = '"'
    escaped: bool = False
    """Whether a quote within quotes has a backslash before it, and is not doubled."""
    spaced: bool = False
    """Whether a space after each delimiter belongs to no cell."""


def csv_rows(file: Path, fields: Fields, note: Callable[[str], None]) -> Iterator[Row | LineError]:
    """The cells of each row by column, or what is wrong with the row; empty cells are left out.

    In a column that is no id, title or text, cells become numbers or booleans if all cells of the
    first thousand rows are; a number has no zeros before it, so that 007 stays a text. NaN among
    them is a missing value. Without a column of ids, the id of a row is a hash of its cells.

    After a quote that is not closed, the rows begin again at the next line.

    :param note: Is told what was recognised: another encoding, other delimiters, missing ids.
    :raises CollectionError: When the file cannot be read, or has no good head.
    """
    csv.field_size_limit(2**31 - 1)
    with read_errors(file):
        with open_bytes(file) as content:
            sample = content.read(_SAMPLE_BYTES)
        encoding = _encoding(file, sample)
        if encoding == "utf-8":
            encoding = "utf-8-sig"
        default = "\t" if ".tsv" in map(str.lower, file.suffixes[-2:]) else ","
        dialect = _recognised(sample.decode(encoding, "replace"), default, fields)
        if said := _said(encoding, dialect, default):
            note(f"{file.name} is read {said}")
        # The decoders of UTF-16 know no surrogates.
        errors = "replace" if encoding.startswith(_WIDE) else "surrogateescape"
        with open_bytes(file) as content:
            lines = io.TextIOWrapper(content, encoding, errors, newline="")
            if _names_delimiter(sample.decode(encoding, "replace")):
                lines.readline()
            rows = parsed_rows(lines, dialect)
            head = _head(file, next(rows, []))
            if needs_ids := fields.id is None and not {*head} & {*ID_FIELDS}:
                note(
                    f"{file.name} has no column with ids ({', '.join(ID_FIELDS)}), so the id of a "
                    "row is a hash of its content; --id-field names a column of ids"
                )
            first = list(islice(rows, _JUDGED_ROWS))
            good = [row for row in first if isinstance(row, list)]
            readers = [
                str if name in fields.texts else _reader([row[place] for row in good])
                for place, name in enumerate(head)
            ]
            seen, has_controls = Counter[str](), False
            for row in chain(first, rows):
                if isinstance(row, LineError):
                    yield row
                elif any(map(has_lone_surrogate, row)):
                    yield LineError(f"not valid {name_of(encoding)}: save the file as UTF-8")
                else:
                    if not has_controls and (found := CONTROL.search("".join(row))):
                        has_controls = True
                        note(f"{file.name} has control characters, such as U+{ord(found[0]):04X}")
                    cells = zip(head, readers, row, strict=True)
                    values = {
                        name: _value(read, cell)
                        for name, read, cell in cells
                        if cell and (read is str or cell not in _NAN)
                    }
                    yield {ID_FIELDS[0]: _content_id(row, seen)} | values if needs_ids else values


def _encoding(file: Path, sample: bytes) -> str:
    """The codec of a file; if its sample is ASCII, the first later part that is not says more.

    :raises LineError: When the sample is in no encoding that is known.
    """
    encoding = encoding_of(sample, complete=len(sample) < _SAMPLE_BYTES)
    if encoding != "utf-8" or not sample.isascii():
        return encoding
    with open_bytes(file) as content:
        parts = iter(lambda: content.read(_SAMPLE_BYTES) + content.readline(_SAMPLE_BYTES), b"")
        later = next((part for part in parts if not part.isascii() or b"\x1b$" in part), b"")
    with suppress(LineError):  # then the rows with these bytes are bad
        found = encoding_of(later)
        encoding = encoding if found.startswith(_WIDE) else found
    return encoding


class _Lines:
    """The lines of a file for one record after the other; those of a bad record come again.

    `taken` are the lines of the last record, and `length` is how many characters they have.
    """

    def __init__(self, lines: Iterable[str], dialect: Dialect) -> None:
        self._lines, self._again = iter(lines), deque[str]()
        self.taken: list[str] = []
        self._next = self._hopeless = self.length = 0
        self._doubled = (f"\\{dialect.quote}", dialect.quote * 2) if dialect.escaped else None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        # A record goes on only within quotes. If an earlier record was within quotes here and came
        # to no good end, neither does this one: so no line is read more than three times.
        if self.taken and (self._next <= self._hopeless or self.length > _LONGEST_ROW):
            raise StopIteration
        line = self._again.popleft() if self._again else next(self._lines)
        self.taken.append(line)
        self.length += len(line)
        self._next += 1
        if self._doubled is None:
            return line
        # Two backslashes are one, and the second of them escapes no quote.
        return "\\".join(part.replace(*self._doubled) for part in line.split("\\\\"))

    def begin_record(self) -> None:
        self.taken.clear()
        self.length = 0

    def give_back(self) -> None:
        """The lines after the first one of the last record come again."""
        self._hopeless = max(self._hopeless, self._next - 1)
        self._next -= len(self.taken) - 1
        self._again.extendleft(reversed(self.taken[1:]))
        del self.taken[1:]


def parsed_rows(lines: Iterable[str], dialect: Dialect) -> Iterator[Cells | LineError]:
    """The cells of each row, or what is wrong with it; the head is the first."""
    source = _Lines(lines, dialect)
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
            open_quote = "a quote is not closed"
            if source.length > _LONGEST_ROW:
                open_quote += f" within {_LONGEST_ROW:,} characters, the most of a row"
            yield LineError(open_quote if ends else f"not valid CSV: {error}")
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


def _recognised(sample: str, default: str, fields: Fields) -> Dialect:
    """The dialect that explains a sample best; if some do, the first of them."""
    lines = [*islice(io.StringIO(sample, newline=""), _JUDGED_ROWS)]
    lines = lines[_names_delimiter(sample) :]
    lines = lines[:-1] or lines  # the last line may be cut
    known = {*fields.texts, *fields.metadata}
    dialects = [
        Dialect(delimiter, quote, escaped, _has_spaces(lines, delimiter))
        for delimiter in dict.fromkeys((default, *_DELIMITERS))
        for quote in ("\"'" if "'" in sample and not _has_quotes(lines, delimiter) else '"')
        for escaped in sorted({False, f"\\{quote}" in sample})
    ]
    return max(dialects, key=lambda dialect: _score(lines, dialect, known))


def _names_delimiter(sample: str) -> bool:
    """Whether the first line is `sep=;`, as Excel writes it."""
    return re.match('"?sep=.', sample, re.IGNORECASE) is not None


def _has_quotes(lines: list[str], delimiter: str) -> bool:
    return any(line.startswith('"') or f'{delimiter}"' in line for line in lines)


def _has_spaces(lines: list[str], delimiter: str) -> bool:
    """Whether a space stands after each delimiter of the head."""
    _, *cells = lines[0].split(delimiter) if lines else [""]
    return bool(cells) and all(cell.startswith(" ") for cell in cells)


def _score(lines: list[str], dialect: Dialect, known: set[str]) -> tuple[int, int, int]:
    """How many columns are known and how many rows are good; less bad rows and kept apostrophes."""
    head, *rows = [*parsed_rows(lines, dialect)] or [[]]
    named = 0
    if isinstance(head, list) and len(head) > 1:
        named = len(known.intersection(map(str.strip, head)))
    good = [row for row in rows if isinstance(row, list) and len(row) > 1]
    around = sum(
        any(column) and all(re.fullmatch("('.*')?", cell, re.DOTALL) for cell in column)
        for column in zip(*good, strict=True)
    )
    return named, len(good), len(good) - len(rows) - around


def _said(encoding: str, dialect: Dialect, default: str) -> str:
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
    head = [name.strip() for name in head]
    check_columns(file, head)
    return head


def _reader(cells: Cells) -> Callable[[str], object]:
    """What makes the values of a column: of numbers, booleans or texts; None for another cell."""
    filled = [cell for cell in cells if cell and cell not in _NAN] or [""]
    readers = (_number, lambda cell: _BOOLEANS.get(cell.lower()), str)
    return next(read for read in readers if all(read(cell) is not None for cell in filled))


def _value(read: Callable[[str], object], cell: str) -> object:
    value = read(cell)
    return cell if value is None else value


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
