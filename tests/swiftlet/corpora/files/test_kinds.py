"""Office files, books, e-mails, markup, data and code as documents, and hostile ones."""

import io
import json
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swiftlet.corpora.collections import read_documents, unread_files
from swiftlet.corpora.files import code, kinds, picture
from swiftlet.corpora.files.compound import CompoundFile
from swiftlet.corpora.files.documents import read_file
from swiftlet.corpora.files.text import Note, Part
from swiftlet.corpora.lines import SkippedLines
from swiftlet.errors import CollectionError, RetrievalError
from swiftlet.types import Document
from tests.growth import grows_evenly

RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
HEAD = "<?xml version='1.0'?>"
ODF = (
    "<o:document-content xmlns:o='urn:office' xmlns:t='urn:text' xmlns:b='urn:table' "
    "xmlns:d='urn:draw' xmlns:p='urn:presentation' xmlns:v='urn:svg'><o:body>{}</o:body>"
    "</o:document-content>"
)
META = "<m><title>Plants</title><creator>Ada</creator></m>"


def zipped(parts: dict[str, str | bytes]) -> bytes:
    content = io.BytesIO()
    with ZipFile(content, "w", ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return content.getvalue()


def relations(**targets: str) -> str:
    each = "".join(
        f"<Relationship Id='r{number}' Type='x/{kind.rstrip('123')}' Target='{target}'/>"
        for number, (kind, target) in enumerate(targets.items(), start=1)
    )
    return f"<Relationships>{each}</Relationships>"


def slide(*shapes: tuple[str, str]) -> str:
    inner = "".join(
        f"<p:sp><p:nvSpPr><p:nvPr><p:ph type='{kind}'/></p:nvPr></p:nvSpPr><p:txBody>{text}"
        "</p:txBody></p:sp>"
        for kind, text in shapes
    )
    return f"<p:sld xmlns:p='urn:p' xmlns:a='urn:a'><p:spTree>{inner}</p:spTree></p:sld>"


def paragraph(*runs: str) -> str:
    return f"<a:p>{''.join(f'<a:r><a:t>{run}</a:t></a:r>' for run in runs)}</a:p>"


def slides(**more: str | bytes) -> bytes:
    table = (
        f"<a:tbl><a:tr><a:tc>{paragraph('May')}</a:tc><a:tc>{paragraph('7')}</a:tc></a:tr></a:tbl>"
    )
    names = "".join(f"<s xmlns:r='{RELATIONS}' r:id='r{number}' id='2'/>" for number in (2, 1))
    return zipped({
        "_rels/.rels": relations(officeDocument="ppt/main.xml"),
        "docProps/core.xml": META,
        "ppt/main.xml": f"<p>{names.replace('<s ', '<sldId ')}</p>",
        "ppt/_rels/main.xml.rels": relations(slide1="/ppt/a.xml", slide2="b.xml"),
        "ppt/a.xml": slide(("body", paragraph("last")), ("sldNum", paragraph("9"))),
        "ppt/b.xml": slide(("body", paragraph("spo", "res") + table), ("title", paragraph("Fern"))),
        "ppt/_rels/b.xml.rels": relations(notesSlide="notes.xml"),
        "ppt/notes.xml": slide(("body", paragraph("say it slowly"))),
        **more,
    })  # fmt: skip


CELLS = (
    "<row r='2'><c r='B2' t='s'><v>1</v></c>"
    "<c r='D2' t='inlineStr'><is><t>in line</t></is></c></row>"
    "<row r='3'><c r='B3' s='1'><v>46000.5</v></c><c r='C3'><v>0.30000000000000004</v></c>"
    "<c r='D3' t='b'><v>1</v></c></row>"
)


def workbook(cells: str = CELLS, shared: str = "<sst><si/><si><t>when</t></si></sst>") -> bytes:
    sheet = f"<sheet xmlns:r='{RELATIONS}' name='Año 1' r:id='r1'/>"
    return zipped({
        "_rels/.rels": relations(officeDocument="xl/book.xml"),
        "xl/book.xml": f"<w>{sheet}</w>",
        "xl/_rels/book.xml.rels": relations(
            worksheet="s.xml", sharedStrings="t.xml", styles="u.xml"),
        "xl/s.xml": f"<w>{cells}</w>",
        "xl/t.xml": shared,
        "xl/u.xml": "<s><numFmts><numFmt numFmtId='170' formatCode='yyyy&quot;0&quot;'/></numFmts>"
        "<cellXfs><xf numFmtId='0'/><xf numFmtId='170'/></cellXfs></s>",
    })  # fmt: skip


def opendocument(body: str) -> bytes:
    return zipped({"content.xml": ODF.format(body), "meta.xml": META})


TEXT = (
    "<o:text><t:tracked-changes><t:p>gone</t:p></t:tracked-changes>"
    "<t:h t:outline-level='2'>Where</t:h>"
    "<t:p>in <t:span>the</t:span><t:s/>shade<t:note><t:note-citation>1</t:note-citation>"
    "<t:note-body>"
    "<t:p>a note</t:p></t:note-body></t:note></t:p><b:table><b:table-row><b:table-cell><t:p>a</t:p>"
    "</b:table-cell><b:table-cell><t:p>b</t:p></b:table-cell></b:table-row></b:table></o:text>"
)
PAGES = (
    "<o:presentation><d:page/><d:page><d:frame p:class='title'><d:text-box><t:p>Fern</t:p>"
    "</d:text-box></d:frame><d:frame><v:desc>a leaf</v:desc></d:frame></d:page></o:presentation>"
)
TABLE = (
    "<o:spreadsheet><b:table b:name='One'><b:table-row b:number-rows-repeated='1048000'>"
    "<b:table-cell b:number-columns-repeated='16384'/></b:table-row><b:table-row><b:table-cell/>"
    "<b:table-cell o:value-type='date' o:date-value='2026-05-07'><t:p>7 May</t:p></b:table-cell>"
    "</b:table-row></b:table></o:spreadsheet>"
)
BOOK = {
    "META-INF/container.xml": "<c><rootfile full-path='OPS/book.opf'/></c>",
    "OPS/book.opf": "<p><title>Herbal</title><creator>Ada</creator><item id='a' href='b%20c.xhtml' "
    "media-type='application/xhtml+xml'/><item id='d' href='gone.html' media-type='text/html'/>"
    "<itemref idref='d'/><itemref idref='a'/></p>",
    "OPS/b c.xhtml": "<html><body><h1>Ferns</h1><p>in the shade</p></body></html>",
}
MAIL = (
    "From: =?utf-8?q?Ad=C3=A8le?= <ada@x.org>\nTo: bob@x.org\nSubject: Re: tea\n"
    "Date: Thu, 7 May 2026 12:00:00 +0200\nMIME-Version: 1.0\n"
    "Content-Type: multipart/mixed; boundary=b\n\n"
    "--b\nContent-Type: text/plain; charset=iso-8859-1\n"
    "Content-Transfer-Encoding: quoted-printable\n\nth=E9 vert\n--b\nContent-Type: text/html\n\n"
    "<p>richer</p>\n--b\nContent-Type: application/pdf\n"
    "Content-Disposition: attachment; filename=menu.pdf\n\nx\n--b--\n"
)
MAILBOX = (
    "From a Mon May  4 12:00:00 2026\nSubject: one\n\nHello,\n\n>From here\n\n"
    "From there it goes uphill.\n\nFrom Mon, May 4, on\nFrom b Mon May  4 12:00:01 2026\n\n"
    "From b@x.org Tue, 5 May 2026 12:00:00 +0200\nSubject: two\n\n<p>x</p>\n"
)
NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "source": ["# Ferns\n", "in the shade"]},
        {"cell_type": "code", "source": "grow()", "outputs": [{"text": ["42\n"]}, {"data": {}}]},
    ],
    "metadata": {"language_info": {"name": "python"}, "authors": [{"name": "Ada"}]},
}
LATEX = r"""\documentclass{article} \title{On \emph{Ferns}} \author{Ada} \begin{document}
\section{Wh\"ere} In {\bf shade}, 50\% % not shown
of it\footnote{a note}. \begin{verbatim}
\x{y}
\end{verbatim} \end{document}"""
ORG = """#+TITLE: Ferns
#+FILETAGS: :green:old:
* TODO Where   :tag:
:PROPERTIES:
:ID: 1
:END:
In [[https://x.org][the shade]].
#+begin_src sh
* not a heading
#+end_src
"""
RTF = (
    rb"{\rtf1\ansi{\info{\title Ferns}{\author Ada}}{\fonttbl{\f0 Times;}}gr\'fcn \u8211? old\par}"
)
CUES = """1
00:00:01,000 --> 00:00:02,000
<i>Ferns</i>
grow

2
00:00:03,000 --> 00:00:04,000
grow
"""
SENT = "2026-05-07T10:00:00+00:00"
Fields = dict[str, object]
CASES: dict[str, tuple[str | bytes, str, str, Fields]] = {
    "a.pptx": (
        slides(), "#slide=1", "# Fern\n\nspores\n\n| May | 7 |\n\nsay it slowly",
        {"author": "Ada", "slide": 1, "slides": 2, "kind": "slides"},
    ),
    "a.xlsx": (
        workbook(), "#sheet=A%C3%B1o 1",
        "| when |  | in line |\n| 2025-12-09 12:00:00 | 0.3 | TRUE |\n",
        {"sheet": "Año 1", "cells": "B2:D3", "kind": "sheet"},
    ),
    "a.odt": (
        opendocument(TEXT), "", "## Where\n\nin the shade\n\na note\n\n| a | b |",
        {"author": "Ada"},
    ),
    "a.odp": (
        opendocument(PAGES), "#slide=2", "# Fern\n\na leaf", {"slide": 2, "slides": 2}
    ),
    "a.ods": (
        opendocument(TABLE), "#sheet=One", "| 2026-05-07 |\n", {"cells": "B1048001:B1048001"}
    ),
    "a.epub": (
        zipped(BOOK), "#chapter=2", "# Ferns\n\nin the shade",
        {"author": "Ada", "book": "Herbal", "chapter": 2, "chapters": 2},
    ),
    "a.eml": (
        MAIL, "", f"From: Adèle <ada@x.org>\nTo: bob@x.org\nDate: {SENT}\n\nthé vert",
        {"author": "Adèle", "to": "bob@x.org", "date": SENT},
    ),
    "a.mbox": (MAILBOX, "#message=1", "From there it goes", {"message": 1, "messages": 2}),
    "a.ipynb": (
        json.dumps(NOTEBOOK), "",
        "# Ferns\nin the shade\n\n```python\ngrow()\n```\n\n```\n42\n\n```", {"author": "Ada"},
    ),
    "a.tex": (LATEX, "", "## Whëre\n\n In shade, 50% of it a note.", {"author": "Ada"}),
    "a.org": (
        ORG, "", "# Where\nIn the shade.\n```\n* not a heading\n```", {"tags": ["green", "old"]}
    ),
    "a.rtf": (RTF, "", "grün \u2013 old", {"author": "Ada"}),
    "a.srt": (CUES, "", "Ferns\ngrow\n", {"kind": "subtitles"}),
    "a.json": (
        '{"name": "Fern", "size": {"cm": [3, "gr\\u00fcn"]}, "old": null}', "",
        "name: Fern\nsize:\n  cm:\n    - 3\n    - grün\nold: null", {"kind": "json"},
    ),
    "a.xml": (
        "<b><title>Ferns</title><p>in <i>the</i> shade</p></b>", "", "Ferns\nin the shade", {}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_kind_of_file_keeps_its_text_and_has_its_fields(name, tmp_path):
    if name == "a.rtf":
        pytest.importorskip("striprtf")
    content, place, text, fields = CASES[name]
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    first = next(read_documents(tmp_path, skipped=SkippedLines()))
    assert first.document_id == name + place
    assert text in first.text
    assert fields.items() <= first.metadata.items()


def test_every_part_of_a_file_is_a_document_or_is_named(tmp_path):
    for name in ("a.pptx", "a.epub", "a.eml"):
        (tmp_path / name).write_bytes(
            content if isinstance(content := CASES[name][0], bytes) else content.encode()
        )
    skipped = SkippedLines()
    found = [each.document_id for each in read_documents(tmp_path, skipped=skipped)]
    assert found == ["a.eml", "a.epub#chapter=2", "a.pptx#slide=1", "a.pptx#slide=2"]
    assert [each.split(": ", 1)[1] for each in skipped.messages] == [
        "attachments are not read: menu.pdf", "it has no part OPS/gone.html"
    ]  # fmt: skip


def test_no_line_of_a_mailbox_is_lost(tmp_path):
    body = "Hello,\n\nFrom here\n\nFrom there it goes uphill.\n\nFrom Mon, May 4, on\n"
    mails = [f"{body}From b Mon May  4 12:00:01 2026", "<p>x</p>"]
    for before, ends in (("", "\n"), ("\ufeff", "\r\n"), ("Subject: none\n\nlost?\n\n", "\n")):
        (tmp_path / "a.mbox").write_text(before + MAILBOX, newline=ends)
        found = [each.text for each in read_documents(tmp_path)]
        assert found == ["lost?"] * ("lost?" in before) + mails


def only(path: Path) -> Document:
    (document,) = read_documents(path)
    return document


PYTHON = """import x


# Grows.
@cached
def grow(a):
    pass

class Fern:
    def old(self): ...
"""
C = """#include "x.h"

int count;
static int *grow(int a)
{
  if (a) { call(a); }
}

struct fern {
  int a;
};
"""
JAVA = """package x;

public class Fern {
  @Override
  public void grow(int a) {
    call(a);
  }
}
"""
TYPESCRIPT = """export const grow = async (a: number) => {
  call(a)
}

export interface Fern {
  a: string
}
"""
RUST = "pub(crate) fn grow<T>(a: T) {}\n\nimpl<T> Fern<T> {\n    pub fn old(&self) {}\n}\n"
SOURCES = {
    "a.py": (PYTHON, ["grow", "Fern", "Fern.old"]),
    "a.c": (C, ["grow", "fern"]),
    "a.java": (JAVA, ["x", "Fern", "Fern.grow"]),
    "a.ts": (TYPESCRIPT, ["grow", "Fern"]),
    "a.rs": (RUST, ["grow", "Fern", "Fern.old"]),
    "a.go": ("func (f *Fern) Grow(a int) error {\n\treturn nil\n}\n", ["Grow"]),
    "a.sql": ("create or replace view ferns as select 1;\n", ["ferns"]),
}


@pytest.mark.parametrize("name", SOURCES)
def test_definitions_of_source_code_are_known_by_their_names(name):
    source, names = SOURCES[name]
    kind = code.LANGUAGES[Path(name).suffix]
    assert [each.path for each in code.definitions(source, kind)] == names


def test_source_code_is_cut_at_definitions_with_their_comments(tmp_path):
    body = "    pass  # " + "word " * 80 + "\n"
    (tmp_path / "a.py").write_text(
        f"import x\n{body}\n# Grows.\n@cached\ndef grow():\n{body}\ndef old():\n{body}"
        f"    # of old\n\n# All ferns.\n\n# One.\n\nclass Fern:\n{body}    '''Ferns.'''\n\n"
        f"    def new():\n{body}"
    )
    document = only(tmp_path / "a.py")
    parts = [
        (document.text[start:end].split("\n")[0], name) for start, end, name in document.sections
    ]
    assert parts == [
        ("import x", ""), ("# Grows.", "grow"), ("def old():", "old"), ("# All ferns.", "Fern"),
        ("    def new():", "Fern.new"),
    ]  # fmt: skip
    assert document.metadata["kind"] == "python"


BOMB = f"{HEAD}<!DOCTYPE a [<!ENTITY a '{'a' * 1_000}'>{{}}]><a>&j;</a>".format(
    "".join(
        f"<!ENTITY {b} '{f'&{a};' * 10}'>" for a, b in zip("abcdefghi", "bcdefghij", strict=True)
    )
)
REMOTE = f"{HEAD}<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><a>x&b;</a>"
DEEP = "<a>" * 5_000 + "x" + "</a>" * 5_000
HUGE = "<sst><si><t>" + "x" * 30_000 + "</t></si></sst>"
MANY = "<row>" + "<c t='s'><v>0</v></c>" * 10_000 + "</row>"
REFUSED: dict[str, tuple[bytes, str]] = {
    "a.pptx": (b"PK\3\4nonsense", "cannot be read as slides: File is not a zip file"),
    "b.pptx": (bytes.fromhex("d0cf11e0") + bytes(600), "it is encrypted, or of an older format"),
    "c.pptx": (zipped({"a": "b"}), "cannot be read as slides: it has no main part"),
    "d.pptx": (slides(**{"ppt/b.xml": BOMB}), "cannot be read as slides: Maximum entity amplif"),
    "e.pptx": (slides(**{"ppt/b.xml": DEEP}), "cannot be read as slides: Excessive depth"),
    "f.pptx": (slides(**{f"media/{n}": bytes(1 << 24) for n in range(16)}), "unpacked it has 268,"),
    "a.xlsx": (workbook(MANY, HUGE), "its cells have more than 268,435,456 characters"),
    "b.xlsx": (workbook("<row/>" * 5_600_000, HUGE), "XML of 33,6"),
    "a.odt": (zipped({"meta.xml": META}), "cannot be read as word: it has no part content.xml"),
    "a.rtf": (b"no rich text", r"cannot be read as word: it does not begin with {\\rtf"),
    "a.mbox": (b"no mail", 'no line is "From ADDRESS DATE"'),
    "a.msg": (b"no mail", "it is no compound file"),
    "a.json": (b"[" * 100_000, "it is nested too deeply to be read"),
    "a.ipynb": (b"[]", "a.ipynb: it has no cells, as a notebook has, so it is left out"),
    "b.ipynb": (b'{"cells":\n [', r"line 2: no valid JSON from column 3 on \(.*\), so it"),
    "a.py": (b" ", "the file is empty"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_damaged_or_hostile_file_is_named_in_a_sentence(name, tmp_path):
    content, problem = REFUSED[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CollectionError, match=problem) as caught:
        only(tmp_path / name)
    assert "\n" not in f"{caught.value}"


@pytest.mark.parametrize("content", [BOMB, REMOTE, DEEP, "<a b='said'/>", "<a>said"])
def test_xml_that_is_not_valid_or_has_only_attributes_is_read_as_it_is(content, tmp_path):
    (tmp_path / "a.xml").write_text(content)
    assert only(tmp_path / "a.xml").text in {content, "x"}


def test_json_that_is_not_valid_is_read_as_it_is_and_said(tmp_path):
    content = '{"a": 1, // the first\n]'
    (tmp_path / "a.json").write_text(content)
    skipped = SkippedLines()
    assert [each.text for each in read_documents(tmp_path, skipped=skipped)] == [content]
    (note,) = skipped.notes
    assert "a.json is read as text, since it is not valid JSON: " in note


PARTS = "Content-Type: multipart/mixed; boundary=b\n\n--b\n"
PIECES: dict[str, list[str]] = {
    "a.tex": ["{", "\\", "\\section{", "\\x[", "\\begin{verbatim}", "%", "\\'", "[", "\\title{"],
    "a.org": ["*", "* a\n", "[[", "#+begin_src\n", ":PROPERTIES:\n", "#+TITLE: a\n", " "],
    "a.srt": ["0:", "00:00:01,000 --> x\n", "<", "{\\", "x\n"],
    "a.json": ["[],", '{"a": ', '"a",'],
    "a.py": ["def ", "class a\n", " ", "(", "@a ", "a<", "# \n", "def a(\n "],
    "a.c": ["a ", "*", "a(", "a{\n", "int a(b)\n{\n", "const ", "a::"],
    "a.eml": ["a: b\n", "From: =?", 'From: <"', "--b\n", "=?utf-8?q?a?=", PARTS],
    "a.mbox": ["From a\n", "From a\n\n>From ", "\n", "\n\nFrom a Mon Jan 1", "\n\n" + MAILBOX],
    "a.rtf": ["{", "\\'41", "\\u65?", "{\\pict", "{\\*", "\\field", "a"],
}  # fmt: skip


@pytest.mark.parametrize(("name", "piece"), [(n, each) for n in PIECES for each in PIECES[n]])
def test_the_time_grows_with_the_file(name, piece, tmp_path):
    path = tmp_path / name
    head = "{\\rtf1 " if name == "a.rtf" else ""

    def read(count: int) -> None:
        path.write_text(head + piece * (count // len(piece)))
        with suppress(CollectionError):
            [*read_file(path, tmp_path, SkippedLines())]

    assert grows_evenly(read, 3_000 if name == "a.mbox" else 20_000)


def compound(streams: dict[str, bytes], folders: dict[str, dict[str, bytes]]) -> bytes:
    """A compound file with streams at its root and in folders, all in sectors of 512 bytes."""
    entries, sectors = list[bytes](), list[bytes]()
    table: list[int] = []

    def put(content: bytes) -> int:
        start, count = len(sectors), max(1, -(-len(content) // 512))
        sectors.extend(content[512 * n : 512 * n + 512].ljust(512, b"\0") for n in range(count))
        table.extend([*range(start + 1, start + count), 0xFFFFFFFE])
        return start

    def entry(name: str, kind: int, right: int, child: int, start: int, size: int) -> None:
        coded = name.encode("utf-16-le") + b"\0\0"
        head = struct.pack("<HBB3I", len(coded), kind, 1, 2**32 - 1, right, child) + bytes(36)
        entries.append(coded.ljust(64, b"\0") + head + struct.pack("<IQ", start, size))

    none = 2**32 - 1
    entry("Root Entry", 5, none, 1, 0xFFFFFFFE, 0)
    for number, (name, content) in enumerate(streams.items(), start=1):
        entry(name, 2, number + 1, none, put(content), len(content))
    child = len(entries) + len(folders)
    for left, (name, inner) in zip(range(len(folders))[::-1], folders.items(), strict=True):
        entry(name, 1, len(entries) + 1 if left else none, child, 0, 0)
        child += len(inner)
    for inner in folders.values():
        for left, (name, content) in zip(range(len(inner))[::-1], inner.items(), strict=True):
            entry(name, 2, len(entries) + 1 if left else none, none, put(content), len(content))
    first = put(b"".join(entries))
    table += [2**32 - 3]
    head = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(16) + struct.pack("<5H", 62, 3, 65534, 9, 6)
    head += bytes(10) + struct.pack("<8I", 1, first, 0, 0, 2**32 - 2, 0, 2**32 - 2, 0)
    head += struct.pack("<109I", len(sectors), *[2**32 - 1] * 108)
    fat = struct.pack("<128I", *(table + [2**32 - 1] * 128)[:128])
    return head + b"".join(sectors) + fat


OUTLOOK = compound(
    {
        "__substg1.0_0037001F": "Tea".encode("utf-16-le"),
        "__substg1.0_1000001F": "Green or black?".encode("utf-16-le"),
        "__substg1.0_0C1A001F": "Ada".encode("utf-16-le"),
        "__substg1.0_0C1F001F": "ada@x.org".encode("utf-16-le"),
        "__substg1.0_0E04001F": "Bob; Cy".encode("utf-16-le"),
        "__properties_version1.0": bytes(32) + bytes.fromhex("400039000600000000a02c0eb8ddd901"),
    },
    {
        "__attach_version1.0_#00000000": {"__substg1.0_3707001F": "menu.pdf".encode("utf-16-le")},
        "__recip_version1.0_#00000000": {
            "__substg1.0_3001001F": "Bob".encode("utf-16-le"),
            "__substg1.0_39FE001F": "bob@x.org".encode("utf-16-le"),
        },
        "__recip_version1.0_#00000001": {
            "__substg1.0_3003001F": "cy@x.org".encode("utf-16-le"),
            "__properties_version1.0": bytes(8) + b"\3\0\x15\x0c\6\0\0\0\2" + bytes(7),
        },
    },
)  # fmt: skip


def test_an_e_mail_of_outlook_is_read_and_its_attachments_are_named(tmp_path):
    (tmp_path / "a.msg").write_bytes(OUTLOOK)
    skipped = SkippedLines()
    (document,) = read_documents(tmp_path, skipped=skipped)
    assert (document.title, document.metadata["author"]) == ("Tea", "Ada")
    assert document.text == (
        "From: Ada <ada@x.org>\nTo: Bob <bob@x.org>\nDate: 2023-09-02T16:10:56+00:00\n\n"
        "Green or black?"
    )
    assert document.metadata["cc"] == "cy@x.org"
    assert skipped.messages[0].endswith("attachments are not read: menu.pdf")


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(st.integers(0, len(OUTLOOK) - 1), st.integers(0, 255), max_size=12),
    st.integers(0),
)
def test_a_damaged_e_mail_of_outlook_ends(changes, length):
    content = bytearray(OUTLOOK)
    for place, byte in changes.items():
        content[place] = byte
    with suppress(ValueError):
        file = CompoundFile(bytes(content[: len(OUTLOOK) - length % len(OUTLOOK)]))
        assert all(len(file.get(name) or b"") <= len(OUTLOOK) for name in file)


def test_the_parts_of_an_e_mail_after_a_thousand_are_named(tmp_path):
    parts = "x\n--b\n\n" * 1_000
    (tmp_path / "a.eml").write_text(f"{PARTS}\n{parts}last\n--b--\n")
    skipped = SkippedLines()
    (document,) = read_documents(tmp_path, skipped=skipped)
    assert document.text.count("x") == 999
    assert "attachments are not read: all parts after 1,000" in skipped.messages[0]


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("wc -c", ""),
        ("echo no such language >&2; exit 1", "tesseract says: no such language"),
        ("exec sleep 60", "recognising its text takes more than 1 s"),
    ],
)
def test_a_picture_is_read_by_the_engine_on_the_machine(program, problem, tmp_path, monkeypatch):
    (tmp_path / "scan.png").write_bytes(bytes(1_234))
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}")
    assert not kinds.can_read(".png")
    engine = tmp_path / "bin" / picture.PROGRAM
    engine.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{program}\n")
    engine.chmod(0o700)
    if program.startswith("exec sleep"):
        monkeypatch.setattr(picture, "MOST_SECONDS", 1)
    if problem:
        with pytest.raises(CollectionError, match=problem):
            only(tmp_path / "scan.png")
    else:
        assert only(tmp_path / "scan.png").text == "1234"


PLUGIN = """[swiftlet.readers]
.dwg = tests.swiftlet.corpora.files.test_kinds:drawing_parts
.txt = tests.swiftlet.corpora.files.test_kinds:nothing
"""


def drawing_parts(path: Path, content: bytes, note: Note) -> Iterator[Part]:
    """A reader as another package has it."""
    yield Part(content.decode()[4:], "A drawing", place="#layer=1", metadata={"layer": 1})


def test_another_package_gives_a_suffix_a_reader(tmp_path, monkeypatch):
    metadata = tmp_path / "packages/swiftlet_dwg-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: swiftlet-dwg\n")
    (metadata / "entry_points.txt").write_text(PLUGIN)
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans/a.dwg").write_text("AC10a wall")
    (tmp_path / "plans/b.md").write_text("A plan.")
    assert unread_files(tmp_path / "plans") == "1 file skipped: 1 .dwg"
    monkeypatch.syspath_prepend(tmp_path / "packages")
    kinds._plugins.cache_clear()
    try:
        assert unread_files(tmp_path / "plans") == ""
        drawing, _ = read_documents(tmp_path / "plans")
        assert (drawing.document_id, drawing.text) == ("a.dwg#layer=1", "a wall")
        assert {"kind": "dwg", "layer": 1}.items() <= drawing.metadata.items()
        (tmp_path / "plans/c.txt").write_text("x")
        with pytest.raises(RetrievalError, match=r"the plugin tests.*:nothing cannot be loaded: "):
            [*read_documents(tmp_path / "plans")]
    finally:
        kinds._plugins.cache_clear()
