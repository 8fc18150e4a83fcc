"""Word files as Markdown: all text that a reader sees in the body, without what was deleted."""

import io
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from swiftlet.corpora.files.text import Part, as_text, markdown_part
from swiftlet.corpora.lines import LONGEST_BYTES, reason_of
from swiftlet.errors import CollectionError

_HEADING = re.compile(r"heading ([1-9])")
_LEFT_OUT = frozenset({"del", "moveFrom", "delText", "instrText", "pPr", "rPr", "tblPr", "sectPr"})
_SIGNS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_PARTS = frozenset({"num", "den", "e", "sub", "sup", "deg", "lim", "fName"})  # of a formula
_SAID = {"docPr": "descr", "cNvPr": "descr", "shape": "alt", "textpath": "string"}
_OF_WORD = ("http://schemas.microsoft.com/", "http://schemas.openxmlformats.org/", "urn:schemas-")
_NOTES = {"footnoteReference": "footnotes", "endnoteReference": "endnotes"}
_CODE = re.compile("[0-9A-Fa-f]{1,6}")
_MOST_LEVELS = 6
_MOST_STYLES = 100
_OF_STRICT = b"http://purl.oclc.org/ooxml/"


def word_parts(path: Path, content: bytes) -> Iterator[Part | CollectionError]:
    """The document of a Word file: paragraphs, tables, text boxes and notes.

    Headers and footers, comments, deleted text and charts are left out. An error stands for files
    of other kinds that are embedded in it as a part of the text.

    :raises CollectionError: When it is damaged, or embedded files are all that it has.
    """
    import docx

    try:
        _check_size(content)
        document = docx.Document(io.BytesIO(content))
        blocks = _Reader(document).blocks(document.element.body)
        about = document.core_properties
        title, author = about.title.strip(), about.author.strip()
    except Exception as error:  # the errors of zipfile, of lxml and of the package
        problem = f"cannot be read as a Word file: {reason_of(error)}"
        if _is_strict(content):
            problem = "it is Strict Open XML, which is not read: save it as an ordinary .docx"
        raise CollectionError(path, problem) from error
    if text := "\n\n".join(block for block in blocks if block.strip()):
        yield replace(markdown_part(text, title or path.stem), metadata={"author": author})
    if embedded := sum(1 for _ in document.element.body.iter("{*}altChunk")):
        files = "an embedded file is" if embedded == 1 else f"{embedded:,} embedded files are"
        problem = f"{files} not read (altChunk): open it in Word and save it again"
        unread = CollectionError(path, problem)
        if not text:
            raise unread
        yield unread


def _check_size(content: bytes) -> None:
    """Refuse what would fill the memory when it is unpacked.

    :raises ValueError: When it would have more than `LONGEST_BYTES`.
    """
    with ZipFile(io.BytesIO(content)) as archive:
        size = sum(each.file_size for each in archive.infolist())
    if size > LONGEST_BYTES:
        raise ValueError(f"unpacked it has {size:,} bytes, more than {LONGEST_BYTES:,}")


def _is_strict(content: bytes) -> bool:
    """Whether it is the variant of the format that has other names for everything."""
    # A damaged archive raises errors of many kinds.
    with suppress(Exception), ZipFile(io.BytesIO(content)) as archive:
        return _OF_STRICT in archive.read("_rels/.rels")
    return False


class _Reader:
    """Walks through the elements of a file; an unknown one is what is in it."""

    def __init__(self, document: Any) -> None:
        styles = document.styles.element
        self._levels = _heading_levels(styles)
        hidden = (each for each in styles.iterfind("{*}style") if _is_hidden(each))
        self._hidden = {_value(style, "styleId") for style in hidden}
        self._begun = list[str]()  # a paragraph whose end was deleted: the next one goes on with it
        self._notes = {
            (kind, _value(note, "id")): note
            for kind in _NOTES.values()
            for note in _notes(document.part, kind)
        }

    def blocks(self, element: Any) -> list[str]:
        """The paragraphs and tables in an element, in order."""
        found: list[str] = []
        for child in element:
            name = _name(child)
            if name in _LEFT_OUT:
                continue
            if name == "p":
                found += self._paragraph(child)
            elif name == "tbl":
                found += self._table(child)
            else:
                found += self.blocks(_chosen(child, name))
        return found

    def _paragraph(self, paragraph: Any) -> list[str]:
        """Its text, and below it the text boxes and the notes that are fixed to it."""
        texts, self._begun = self._begun, []
        below: list[str] = []
        if not self._is_hidden(paragraph, "{*}pPr/{*}pStyle"):
            self._add_inline(paragraph, texts, below)
        following = next(paragraph.itersiblings("{*}p", "{*}tbl"), None)
        marks = [paragraph.find(f"{{*}}pPr/{{*}}rPr/{{*}}{name}") for name in ("del", "moveFrom")]
        if marks != [None, None] and following is not None and _name(following) == "p":
            self._begun = texts
            return below
        text = "".join(texts).strip(" ")
        level = self._level(paragraph)
        return [
            f"{'#' * level} {' '.join(text.split())}" if level and text.strip() else as_text(text),
            *below,
        ]

    def _add_inline(self, element: Any, texts: list[str], below: list[str]) -> None:
        for child in element:
            name = _name(child)
            if name in _LEFT_OUT or (name == "r" and self._is_hidden(child, "{*}rPr/{*}rStyle")):
                continue
            if said := name in _SAID and child.get(_SAID[name]):
                below += [] if below[-1:] == [text := as_text(said)] else [text]
            if name == "t":
                texts.append(child.text or "")
            elif name in _SIGNS:
                texts.append(_SIGNS[name])
            elif name == "txbxContent":
                below += self.blocks(child)
            elif name in _NOTES:
                note = self._notes.pop((_NOTES[name], _value(child, "id")), None)
                below += [] if note is None else self.blocks(note)
            elif name == "sym":
                texts.append(_symbol(child))
            elif name == "ddList":
                texts.append(_choice(child))
            else:
                self._add_inline(_chosen(child, name), texts, below)
                texts += [" "] * (name in _PARTS)

    def _is_hidden(self, element: Any, of_style: str) -> bool:
        """Whether a run or a paragraph is not shown, by itself or by its style."""
        style = element.find(of_style)
        if element.find("{*}rPr/{*}vanish") is not None:
            return _is_hidden(element)
        return style is not None and _value(style, "val") in self._hidden

    def _table(self, table: Any) -> list[str]:
        lines = list[str]()
        for row in _inner(table, "tr"):
            if row.find("{*}trPr/{*}del") is None:
                kept = (e for e in _inner(row, "tc") if e.find("{*}tcPr/{*}cellDel") is None)
                cells = (" ".join(self.blocks(cell)).split() for cell in kept)
                lines.append(f"| {' | '.join(map(' '.join, cells))} |")
        return ["\n".join(lines)]

    def _level(self, paragraph: Any) -> int:
        properties = paragraph.find("{*}pPr")
        if properties is None:
            return 0
        style, outline = properties.find("{*}pStyle"), properties.find("{*}outlineLvl")
        if outline is not None:
            return _outline_level(outline)
        return 0 if style is None else self._levels.get(_value(style, "val"), 0)


def _heading_levels(styles: Any) -> dict[str, int]:
    """The level of headings of each style, by its id; 0 for a style of other text."""
    by_id = {_value(style, "styleId"): style for style in styles.iterfind("{*}style")}
    levels = dict[str, int]()
    for id_, style in by_id.items():
        for _ in range(_MOST_STYLES):  # those that it is based on may form a circle
            level, parent = _own_level(style), style.find("{*}basedOn")
            style = None if parent is None else by_id.get(_value(parent, "val"))  # noqa: PLW2901
            if level is not None or style is None:
                levels[id_] = level or 0
                break
    return levels


def _own_level(style: Any) -> int | None:
    """The level of a style, if it does not come from another style."""
    name, outline = style.find("{*}name"), style.find("{*}pPr/{*}outlineLvl")
    called = "" if name is None else _value(name, "val").lower()
    if found := _HEADING.fullmatch(called):
        return min(int(found[1]), _MOST_LEVELS)
    if called == "title":
        return 1
    return None if outline is None else _outline_level(outline)


def _outline_level(element: Any) -> int:
    """Level 0 is a heading of the first level, and 9 is none."""
    value = _value(element, "val")
    return min(int(value) + 1, _MOST_LEVELS) if value.isdecimal() and int(value) < 9 else 0


def _notes(part: Any, kind: str) -> list[Any]:
    from docx.oxml import parse_xml

    for relation in part.rels.values():
        if relation.reltype.endswith(f"/{kind}") and not relation.is_external:
            return [*parse_xml(relation.target_part.blob)]
    return []


def _inner(element: Any, wanted: str) -> Iterator[Any]:
    """The rows of a table or the cells of a row, also those in content controls."""
    for child in element:
        name = _name(child)
        if name == wanted:
            yield child
        elif name not in _LEFT_OUT:
            yield from _inner(child, wanted)


def _chosen(element: Any, name: str) -> Any:
    """Of a content control its content, and of alternatives the first one that Word knows."""
    if name == "sdt":
        return element.iterfind("{*}sdtContent")
    if name == "AlternateContent":
        known = filter(_is_known, element.iterfind("{*}Choice"))
        return [*known, *element.iterfind("{*}Fallback")][:1]
    return reversed(element) if name == "ruby" else element  # the reading comes before the word


def _is_known(choice: Any) -> bool:
    """Whether the namespaces that it requires are those of Word."""
    prefixes = choice.get("Requires", "").split()
    return all(choice.nsmap.get(prefix, "").startswith(_OF_WORD) for prefix in prefixes)


def _is_hidden(element: Any) -> bool:
    """Whether a run or a style says that its text is not shown."""
    vanish = element.find("{*}rPr/{*}vanish")
    return vanish is not None and _value(vanish, "val") not in {"0", "false", "off"}


def _choice(element: Any) -> str:
    """What is chosen in a list of the older kind, or else its default, or its first entry."""
    found = [element.find(f"{{*}}{name}") for name in ("result", "default")]
    number = next((_value(each, "val") for each in found if each is not None), "0")
    entries = [_value(entry, "val") for entry in element.iterfind("{*}listEntry")]
    return next(iter(entries[int(number) :]), "") if re.fullmatch("[0-9]{1,4}", number) else ""


def _symbol(element: Any) -> str:
    """A character of a font; those of symbol fonts, such as bullets, are a space."""
    digits = _value(element, "char")
    code = int(digits, 16) if _CODE.fullmatch(digits) else 0
    return chr(code) if 0x20 <= code < 0xD800 or 0xF8FF < code <= sys.maxunicode else " "


def _name(element: Any) -> str:
    """The name of an element without its namespace; empty for a comment."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else "pPr"


def _value(element: Any, name: str) -> str:
    """An attribute of an element of Word."""
    return str(element.get(f"{element.tag.partition('}')[0]}}}{name}", ""))
