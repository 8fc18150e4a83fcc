"""Sheets of Excel and OpenDocument: a document for each sheet, with the range of its cells."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

from swiftlet.corpora.files.office.packages import (
    OF_SLIDES,
    Package,
    attribute,
    blocks_of,
    joined,
    local,
    relation_of,
)
from swiftlet.corpora.files.text import Note, Part
from swiftlet.corpora.lines import LONGEST_BYTES
from swiftlet.errors import CollectionError
from swiftlet.types import Section

Cells = dict[int, str]
"""The texts of a row by the numbers of their columns, from 1."""

_ROWS_OF_SECTION = 50
_REFERENCE = re.compile("([A-Z]{1,3})([0-9]{1,7})")
_DATE_FORMATS = frozenset({*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)})
_NO_CODE = re.compile(r'"[^"]*"|\[[^\]]*\]?|\\.')
_LONGEST_CODE = 255
_FIRST_DAYS = datetime(1899, 12, 30), datetime(1904, 1, 1)  # noqa: DTZ001 - cells have no zone
_LAST_DAY = 2_950_000


def workbook_parts(path: Path, content: bytes, _: Note) -> Iterator[Part | CollectionError]:
    """The sheets of an Excel workbook that have text or numbers."""
    package = Package(content)
    main, targets = package.main()
    book, parts = package.root(main), dict(targets.values())
    shared, dates = list[str](), frozenset[str]()
    if (name := parts.get("sharedStrings", "")) in package:
        shared = [_text(each) for each in package.root(name).iter("{*}si")]
    if (name := parts.get("styles", "")) in package:
        dates = _date_styles(package.root(name))
    properties = book.find("{*}workbookPr")
    first_day = _FIRST_DAYS[properties is not None and properties.get("date1904") in {"1", "true"}]
    title, about = package.about()
    for sheet in book.iter("{*}sheet"):
        kind, target = targets.get(relation_of(sheet), ("", ""))
        if kind == "worksheet" and target in package:
            rows = _excel_rows(package.root(target), shared, dates, first_day)
            boxes = [
                block
                for kind, drawing in package.relations(target).values()
                if kind == "drawing" and drawing in package
                for block in blocks_of(package.root(drawing), OF_SLIDES)
            ]
            yield from _sheet(rows, sheet.get("name", ""), title or path.stem, about, boxes)


def table_parts(path: Path, content: bytes, _: Note) -> Iterator[Part | CollectionError]:
    """The sheets of an OpenDocument spreadsheet that have text or numbers."""
    package = Package(content)
    title, about = package.about("meta.xml")
    for table in package.root("content.xml").iterfind("{*}body/{*}spreadsheet/{*}table"):
        rows = _open_rows(table)
        yield from _sheet(rows, attribute(table, "name"), title or path.stem, about)


def _sheet(
    rows: Iterable[tuple[int, Cells]], name: str, title: str, about: Mapping[str, str],
    boxes: Sequence[str] = (),
) -> Iterator[Part]:  # fmt: skip
    """The document of a sheet; its sections are blocks of rows, named by their ranges.

    :param boxes: The paragraphs of text boxes, which come last.
    :raises ValueError: When it has more than `LONGEST_BYTES` characters, as repeated texts may.
    """
    pieces, sections, length = list[str](), list[Section](), 0
    ends = list[tuple[int, int]]()  # of all blocks
    filled = ((number, cells) for number, cells in rows if cells)
    for _, group in groupby(filled, key=lambda each: (each[0] - 1) // _ROWS_OF_SECTION):
        block = [*group]
        columns = sorted({column for _, cells in block for column in cells})
        size = sum(len(text) for _, cells in block for text in cells.values())
        if length + size + len("| ") * len(columns) * len(block) > LONGEST_BYTES:
            raise ValueError(f"its cells have more than {LONGEST_BYTES:,} characters")
        lines = (" | ".join(cells.get(column, "") for column in columns) for _, cells in block)
        pieces.append("".join(f"| {line} |\n" for line in lines))
        corners = (columns[0], block[0][0]), (columns[-1], block[-1][0])
        sections.append(Section(length, length := length + len(pieces[-1]), _range(corners)))
        ends += corners
    fields: dict[str, object] = {**about, "sheet": name}
    if ends:
        across, down = zip(*ends, strict=True)
        fields["cells"] = _range(((min(across), min(down)), (max(across), max(down))))
    if below := joined(boxes):
        pieces.append(f"\n{below}\n")
        sections.append(Section(length, length + len(pieces[-1])))
    if pieces:
        place = f"#sheet={quote(name, safe=' ')}"
        yield Part("".join(pieces), f"{title}: {name}", tuple(sections), place, fields)


def _range(corners: Iterable[tuple[int, int]]) -> str:
    return ":".join(f"{_letters(column)}{row}" for column, row in corners)


def _letters(column: int) -> str:
    found = ""
    while column:
        column, rest = divmod(column - 1, 26)
        found = chr(ord("A") + rest) + found
    return found


def _number(letters: str) -> int:
    found = 0
    for letter in letters:
        found = 26 * found + ord(letter) - ord("A") + 1
    return found


def _text(element: Any) -> str:
    """The text of a shared string or an inline one, without the reading of its signs."""
    texts = (each.text or "" for each in element.iter("{*}t") if local(each.getparent()) != "rPh")
    return "".join(texts)


def _excel_rows(
    root: Any, shared: list[str], dates: frozenset[str], first_day: datetime
) -> Iterator[tuple[int, Cells]]:
    number = 0
    for row in root.iter("{*}row"):
        said = row.get("r", "")
        number = int(said) if said.isdecimal() and len(said) < 8 else number + 1
        cells, column = Cells(), 0
        for cell in row.iterfind("{*}c"):
            found = _REFERENCE.fullmatch(cell.get("r", ""))
            column = _number(found[1]) if found else column + 1
            kind, value = cell.get("t", "n"), cell.findtext("{*}v") or ""
            if kind == "s":
                value = shared[int(value)] if value.isdecimal() and int(value) < len(shared) else ""
            elif kind == "inlineStr":
                value = _text(cell)
            elif kind == "b":
                value = {"0": "FALSE", "1": "TRUE"}.get(value, "")
            elif kind == "n" and value:
                value = _shown(value, first_day if cell.get("s", "") in dates else None)
            if value := " ".join(value.split()):
                cells[column] = value
        yield number, cells


def _shown(value: str, first_day: datetime | None) -> str:
    """A number as it is shown, with 15 digits as in Excel, or the date that it stands for."""
    try:
        number = float(value)
    except ValueError:
        return value
    if first_day is not None and 0 <= number < _LAST_DAY:
        moment = first_day + timedelta(seconds=round(number * 86_400))
        if number < 1:
            return moment.time().isoformat()
        return moment.isoformat(" ") if number % 1 else moment.date().isoformat()
    return f"{number:.15g}"


def _date_styles(root: Any) -> frozenset[str]:
    """The numbers of the styles of cells that show a date or a time."""
    codes = {each.get("numFmtId"): each.get("formatCode", "") for each in root.iter("{*}numFmt")}
    found = set[str]()
    for number, style in enumerate(root.iterfind("{*}cellXfs/{*}xf")):
        id_ = style.get("numFmtId", "0")
        code = _NO_CODE.sub("", codes.get(id_, "")[:_LONGEST_CODE]).partition(";")[0].lower()
        known = id_.isdecimal() and id_ not in codes and int(id_[:4]) in _DATE_FORMATS
        if known or ({*code} & {*"ymdhs"} and not {*code} & {*"#?"}):
            found.add(f"{number}")
    return frozenset(found)


def _open_rows(table: Any) -> Iterator[tuple[int, Cells]]:
    """The rows of a table; a cell or a row that is repeated comes once, in its first place."""
    number, column = 1, 1
    for row in table.iter("{*}table-row"):
        cells, column = Cells(), 1
        for cell in row.iterfind("{*}table-cell"):
            text = " ".join(" ".join(blocks_of(cell)).split())
            if attribute(cell, "value-type") == "date" and attribute(cell, "date-value"):
                text = attribute(cell, "date-value").replace("T", " ")
            if text:
                cells[column] = text
            column += _times(cell, "number-columns-repeated")
        yield number, cells
        number += _times(row, "number-rows-repeated")


def _times(element: Any, name: str) -> int:
    said = attribute(element, name)
    return int(said) if said.isdecimal() and len(said) < 8 else 1
