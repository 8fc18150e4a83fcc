"""Zip archives of XML: slides of PowerPoint, and OpenDocument's texts and slides, as Markdown.

One walk reads the formats, since their paragraphs, tables and signs have names of their own.
"""

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from swiftlet.corpora.files.text import Note, Part, as_text, markdown_part
from swiftlet.corpora.lines import LONGEST_BYTES
from swiftlet.errors import CollectionError

_SIGNS = {"tab": "\t", "br": "\n", "line-break": "\n", "s": " "}
_TABLES, _ROWS = frozenset({"tbl", "table"}), frozenset({"tr", "table-row"})
_CELLS = frozenset({"tc", "table-cell", "covered-table-cell"})
_LEFT_OUT = frozenset(
    [
        "tracked-changes",
        "forms",
        "sequence-decls",
        "annotation",
        "annotation-end",
        "note-citation",
        "variable-decls",
        "user-field-decls",
        "scripts",
        "font-face-decls",
        "automatic-styles",
        "ruby-text",
        "pPr",
        "rPr",
        "endParaRPr",
        "tblPr",
        "tblGrid",
        "index-title-template",
        "Fallback",
    ]
)
OF_SLIDES = frozenset({"t"})  # the only element of PowerPoint's with text
_TITLES = ("title", "ctrTitle")
_MOST_LEVELS = 6


LONGEST_XML = 32 * 2**20
"""Bytes of XML that are read at once: their elements take up to twenty times as many."""


class Package:
    """The parts of an archive, each of which is XML."""

    def __init__(self, content: bytes) -> None:
        """Open it.

        :raises ValueError: When unpacked it would have more than `LONGEST_BYTES`, or is encrypted.
        """
        if content.startswith(b"\xd0\xcf\x11\xe0"):
            raise ValueError("it is encrypted, or of an older format: save it without a password")
        self._archive = ZipFile(BytesIO(content))
        size = sum(each.file_size for each in self._archive.infolist())
        if size > LONGEST_BYTES:
            raise ValueError(f"unpacked it has {size:,} bytes, more than {LONGEST_BYTES:,}")
        self._names = {each.casefold(): each for each in self._archive.namelist()}

    def __contains__(self, name: str) -> bool:
        """Whether it has a part."""
        return name.casefold() in self._names

    def read(self, name: str) -> bytes:
        """The bytes of a part; names of parts are alike in lower and upper case.

        :raises ValueError: When it has none.
        """
        if name not in self:
            raise ValueError(f"it has no part {name}")
        return self._archive.read(self._names[name.casefold()])

    def root(self, name: str) -> Any:
        """The first element of a part."""
        return tree_of(self.read(name))

    def relations(self, name: str) -> dict[str, tuple[str, str]]:
        """What a part of Office's formats refers to: the kind and the part, by id."""
        folder, file = posixpath.split(name)
        place = f"{folder}/_rels/{file}.rels".lstrip("/")
        found = {}
        for each in self.root(place) if place in self else ():
            if local(each) == "Relationship" and each.get("TargetMode") != "External":
                target = posixpath.normpath(posixpath.join("/", folder, each.get("Target", "")))
                kind = each.get("Type", "").rpartition("/")[2]
                found[each.get("Id", "")] = kind, target.lstrip("/")
        return found

    def main(self) -> tuple[str, dict[str, tuple[str, str]]]:
        """The main part of Office's formats, and what it refers to."""
        found = [part for kind, part in self.relations("").values() if kind == "officeDocument"]
        if not found:
            raise ValueError("it has no main part")
        return found[0], self.relations(found[0])

    def about(self, name: str = "docProps/core.xml") -> tuple[str, dict[str, str]]:
        """The title of a document, and its author, from the part that says them."""
        said = (
            {local(each): (each.text or "").strip() for each in self.root(name).iter()}
            if name in self
            else {}
        )
        author = said.get("creator") or said.get("initial-creator") or ""
        return " ".join(said.get("title", "").split()), {"author": " ".join(author.split())}


def tree_of(content: bytes) -> Any:
    """The first element of XML, without what a declaration would load.

    :raises ValueError: When it has more than `LONGEST_XML`.
    :raises XMLSyntaxError: When it is damaged, or its entities would multiply.
    """
    if len(content) > LONGEST_XML:
        raise ValueError(
            f"it has XML of {len(content):,} bytes, more than {LONGEST_XML:,}: divide it into "
            "several files"
        )
    from lxml import etree  # type: ignore[import-untyped]

    parser = etree.XMLParser(
        resolve_entities="internal",
        no_network=True,
        load_dtd=False,
        remove_comments=True,
        remove_pis=True,
    )
    return etree.fromstring(content, parser)


def local(element: Any) -> str:
    """The name of an element without its namespace; empty if it is none."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def attribute(element: Any, name: str) -> str:
    """An attribute, whatever its namespace; empty if there is none."""
    found = (value for key, value in element.items() if key.rpartition("}")[2] == name)
    return next(found, "")


def slide_parts(path: Path, content: bytes, _: Note) -> Iterator[Part | CollectionError]:
    """The slides of a PowerPoint file that have text, with their notes."""
    package = Package(content)
    main, targets = package.main()
    slides = [
        targets[id_][1]
        for each in package.root(main).iter("{*}sldId")
        if (id_ := relation_of(each)) in targets
    ]
    title, about = package.about()
    for number, name in enumerate(slides, start=1):
        blocks = _slide_blocks(package.root(name))
        for kind, target in package.relations(name).values():
            if kind in {"notesSlide", "diagramData", "chart"} and target in package:
                blocks += _slide_blocks(package.root(target))
        yield from _numbered(blocks, title or path.stem, about, number, len(slides))


def page_parts(path: Path, content: bytes, _: Note) -> Iterator[Part | CollectionError]:
    """The slides of an OpenDocument presentation that have text, with their notes."""
    package = Package(content)
    title, about = package.about("meta.xml")
    pages = [*package.root("content.xml").iter("{*}page")]
    for number, page in enumerate(pages, start=1):
        blocks = list[str]()
        for shape in page:
            inner = blocks_of(shape)
            if attribute(shape, "class") == "title" and inner:
                inner = [f"# {' '.join(' '.join(inner).split())}"]
            blocks += inner
        yield from _numbered(blocks, title or path.stem, about, number, len(pages))


def text_parts(path: Path, content: bytes, _: Note) -> Iterator[Part | CollectionError]:
    """The document of an OpenDocument text: headings, paragraphs, tables, text boxes and notes."""
    package = Package(content)
    title, about = package.about("meta.xml")
    text = joined(blocks_of(package.root("content.xml").find("{*}body")))
    if text:
        yield _with(markdown_part(text, title or path.stem), about)


def _with(part: Part, fields: Mapping[str, object], place: str = "") -> Part:
    return Part(part.text, part.title, part.sections, place, {**part.metadata, **fields})


def relation_of(element: Any) -> str:
    """The id of the part that an element stands for; it has a number of its own, too."""
    found = (value for key, value in element.items() if key.endswith("relationships}id"))
    return next(found, "")


def _numbered(
    blocks: Collection[str], title: str, about: Mapping[str, str], number: int, count: int
) -> Iterator[Part]:
    if text := joined(blocks):
        fields = {**about, "slide": number, "slides": count}
        yield _with(markdown_part(text, title), fields, f"#slide={number}")


def _slide_blocks(root: Any) -> list[str]:
    """The blocks of a slide; the text of a shape that is its title is a heading, and first."""
    titles, blocks = list[str](), list[str]()
    for shape in root.iter("{*}sp", "{*}graphicFrame", "{*}pt", "{*}chart"):
        if any(local(each) in {"Fallback", "pt"} for each in shape.iterancestors()):
            continue
        kind = shape.find("{*}nvSpPr/{*}nvPr/{*}ph")
        kind = "" if kind is None else kind.get("type", "")
        if kind in {"sldNum", "dt", "ftr", "sldImg"}:
            continue
        inner = blocks_of(shape, OF_SLIDES)
        if kind in _TITLES:
            titles += [f"# {text}"] if (text := " ".join(" ".join(inner).split())) else []
        else:
            blocks += inner
    return titles + blocks


def joined(blocks: Collection[str]) -> str:
    """Blocks as the text of a document."""
    return "\n\n".join(block for block in blocks if block.strip())


def blocks_of(element: Any, texts: Collection[str] | None = None) -> list[str]:
    """The paragraphs, headings and tables in an element, in order.

    :param texts: The elements that alone have text; None stands for all.
    """
    found: list[str] = []
    for child in element:
        name = local(child)
        if not name or name in _LEFT_OUT:
            continue
        if name in {"p", "h"}:
            line, below = list[str](), list[str]()
            _add_inline(child, texts, line, below)
            text = "".join(line).strip()
            if name == "h" and text:
                level = attribute(child, "outline-level")
                depth = min(int(level), _MOST_LEVELS) if level.isdecimal() and len(level) < 3 else 1
                found.append(f"{'#' * max(depth, 1)} {' '.join(text.split())}")
            else:
                found.append(as_text(text))
            found += below
        elif name in _TABLES:
            found.append(table_of(child, texts))
        elif name in {"title", "desc"} and child.text:  # of a picture
            found.append(as_text(" ".join(child.text.split())))
        else:
            found += blocks_of(child, texts)
    return found


def _add_inline(
    element: Any, texts: Collection[str] | None, line: list[str], below: list[str]
) -> None:
    if element.text and (texts is None or local(element) in texts):
        line.append(element.text if texts else re.sub(r"\s+", " ", element.text))
    for child in element:
        name = local(child)
        if name in {"frame", "custom-shape", "note-body", "text-box", "table"}:
            below += blocks_of(child, texts)
        elif name in _SIGNS:
            line.append(_SIGNS[name])
        elif name and name not in _LEFT_OUT:
            _add_inline(child, texts, line, below)
        if child.tail and texts is None:
            line.append(re.sub(r"\s+", " ", child.tail))


def table_of(table: Any, texts: Collection[str] | None = None) -> str:
    """The rows of a table that have text, as rows of Markdown."""
    rows = list[str]()
    for row in _inner(table, _ROWS):
        cells = [" ".join(" ".join(blocks_of(cell, texts)).split()) for cell in _inner(row, _CELLS)]
        if any(cells):
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _inner(element: Any, wanted: Collection[str]) -> Iterator[Any]:
    """The rows of a table or the cells of a row, also those in groups and heads."""
    for child in element:
        name = local(child)
        if name in wanted:
            yield child
        elif name and name not in _LEFT_OUT and name not in _TABLES:
            yield from _inner(child, wanted)
