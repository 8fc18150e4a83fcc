"""What a reader of a Word file sees is read, and nothing else."""

import re
from collections.abc import Callable
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import docx
import pytest
from docx.opc.constants import CONTENT_TYPE, RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml
from docx.oxml.ns import qn
from hypothesis import given, settings
from hypothesis import strategies as st

from swiftlet.corpora.collections import read_documents
from swiftlet.corpora.lines import SkippedLines
from swiftlet.errors import CollectionError
from tests.growth import grows_evenly

NAMES = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" '
    'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
    'xmlns:x="urn:of-another-maker" '
    'xmlns:v="urn:schemas-microsoft-com:vml"'
)
R = "<w:r><w:t>{}</w:t></w:r>"
P = f"<w:p>{R}</w:p>"
RUBY = (
    f"<w:r><w:ruby><w:rt>{R.format('kana')}</w:rt><w:rubyBase>{R.format('kanji')}</w:rubyBase>"
    "</w:ruby></w:r>"
)
ONE, TWO = P.format("one"), P.format("two")


def cell(content: str) -> str:
    return f"<w:tc>{content}</w:tc>"


def row(*cells: str) -> str:
    return f"<w:tr>{''.join(map(cell, cells))}</w:tr>"


def sdt(content: str) -> str:
    return f"<w:sdt><w:sdtPr><w:alias/></w:sdtPr><w:sdtContent>{content}</w:sdtContent></w:sdt>"


def box(content: str) -> str:
    return f"<wps:txbx><w:txbxContent>{content}</w:txbxContent></wps:txbx>"


MERGED = "<w:tc><w:tcPr><w:{}/></w:tcPr>{}</w:tc>"
MARK, CODE = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>', "<w:r><w:instrText>X</w:instrText></w:r>"
BEGIN, SEPARATE, END = map(MARK.format, ("begin", "separate", "end"))
FIELD = f"{BEGIN}{CODE}{BEGIN}{CODE}{SEPARATE}{R.format('5 May')}{END}{END}"

M = "<m:r><m:t>{}</m:t></m:r>"
MR = f"<m:mr>{2 * f'<m:e>{M}</m:e>'}</m:mr>"
DROP_DOWN = (
    '<w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:ddList>{}<w:listEntry w:val="red"/>'
    '<w:listEntry w:val="blue"/></w:ddList></w:ffData></w:fldChar></w:r>'
)
ART = '<w:r><w:pict><v:shape alt="A pier"><v:textpath string="Sale"/></v:shape></w:pict></w:r>'
PICTURE = (
    '<w:r><w:drawing><wp:inline><wp:docPr descr="# A pier"/><wp:cNvPr descr="# A pier"/>'
    "</wp:inline></w:drawing></w:r>"
)
CHOSEN = '<w:{} w:val="{}"/>'
LOWERED = "<w:r><w:rPr><w:vertAlign w:val='subscript'/></w:rPr><w:t>2</w:t></w:r>"
HIDDEN = "<w:r><w:rPr><w:vanish/></w:rPr><w:t>gone</w:t></w:r>"
NOT_HIDDEN = HIDDEN.replace("vanish", 'vanish w:val="0"')
DELETED_END = "<w:pPr><w:rPr><w:del/></w:rPr></w:pPr>"
CHOICE = (
    '<mc:AlternateContent><mc:Choice Requires="{}">{}</mc:Choice>'
    f"<mc:Fallback>{R.format('instead')}</mc:Fallback></mc:AlternateContent>"
)


def text_of(folder: Path, body: str, notes: dict[str, str] | None = None) -> str:
    path = folder / "file.docx"
    document = docx.Document()
    for kind, content in (notes or {}).items():
        blob = f"<w:{kind} {NAMES}>{content}</w:{kind}>".encode()
        name = PackURI(f"/word/{kind}.xml")
        type_ = getattr(CONTENT_TYPE, f"WML_{kind.upper()}")
        part = Part(name, type_, blob, document.part.package)
        document.part.relate_to(part, getattr(RELATIONSHIP_TYPE, kind.upper()))
    root = parse_xml(f"<w:body {NAMES}>{body}</w:body>")
    for element in reversed(root):
        document.element.body.insert(0, element)
    document.save(str(path))
    (found,) = read_documents(path)
    return found.text


INLINE: dict[str, Callable[[str], str]] = {
    "run": lambda inner: inner,
    "control": sdt,
    "inserted": lambda inner: f'<w:ins w:id="1">{inner}</w:ins>',
    "moved": lambda inner: f'<w:moveTo w:id="1">{inner}</w:moveTo>',
    "smart tag": lambda inner: f'<w:smartTag w:element="x">{inner}</w:smartTag>',
    "custom XML": lambda inner: f'<w:customXml w:element="x">{inner}</w:customXml>',
    "field": lambda inner: f'<w:fldSimple w:instr="PAGE">{inner}</w:fldSimple>',
    "link": lambda inner: f'<w:hyperlink w:anchor="x">{inner}</w:hyperlink>',
    "direction": lambda inner: f'<w:dir w:val="rtl">{inner}</w:dir>',
}
BLOCKS: dict[str, Callable[[str], str]] = {
    "block": lambda inner: inner,
    "control": sdt,
    "inserted": lambda inner: f'<w:ins w:id="1">{inner}</w:ins>',
    "moved": lambda inner: f'<w:moveTo w:id="1">{inner}</w:moveTo>',
    "custom XML": lambda inner: f'<w:customXml w:element="x">{inner}</w:customXml>',
    "cell": lambda inner: f"<w:tbl>{row(inner + '<w:p/>')}</w:tbl>",
    "controlled row": lambda inner: f"<w:tbl>{sdt(row(inner + '<w:p/>'))}</w:tbl>",
    "controlled cell": lambda inner: f"<w:tbl><w:tr>{sdt(cell(inner + '<w:p/>'))}</w:tr></w:tbl>",
    "text box": lambda inner: f"<w:p><w:r><w:drawing>{box(inner)}</w:drawing></w:r></w:p>",
    "old text box": lambda inner: (
        "<w:p><w:r><w:pict><v:shape><v:textbox><w:txbxContent>"
        f"{inner}</w:txbxContent></v:textbox></v:shape></w:pict></w:r></w:p>"
    ),
    "alternatives": lambda inner: (
        '<w:p><w:r><mc:AlternateContent><mc:Choice Requires="wps"><w:drawing>'
        f"{box(inner)}</w:drawing></mc:Choice><mc:Fallback><w:pict><v:textbox><w:txbxContent>"
        f"{inner}</w:txbxContent></v:textbox></w:pict></mc:Fallback></mc:AlternateContent></w:r>"
        "</w:p>"
    ),
}


@settings(max_examples=30)
@given(
    st.lists(st.sampled_from([*BLOCKS]), max_size=4),
    st.lists(st.sampled_from([*INLINE]), max_size=4),
)
def test_visible_text_is_read_once_in_all_that_it_may_stand_in(tmp_path_factory, blocks, inline):
    inner = R.format("needle in hay")
    for name in inline:
        inner = INLINE[name](inner)
    content = f"<w:p>{R.format('before ')}{inner}{R.format(' after')}</w:p>"
    for name in blocks:
        content = BLOCKS[name](content)
    text = text_of(tmp_path_factory.mktemp("word"), f"{ONE}{content}{TWO}")
    assert text.count("before needle in hay after") == 1
    assert text.index("one") < text.index("needle") < text.index("two")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (f"<w:p>{R.format('a')}<w:del>{R.format('gone')}</w:del></w:p>", "a"),
        (f"<w:p>{R.format('a')}<w:moveFrom>{R.format('gone')}</w:moveFrom></w:p>", "a"),
        ("<w:p><w:r><w:delText>gone</w:delText><w:t>a</w:t></w:r></w:p>", "a"),
        ("<w:p><w:r><w:instrText>PAGE</w:instrText></w:r><w:r><w:t>4</w:t></w:r></w:p>", "4"),
        (f"<w:tbl>{row(ONE)}<w:tr><w:trPr><w:del/></w:trPr>{cell(TWO)}</w:tr></w:tbl>", "| one |"),
        ("<w:p><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/><w:t>c</w:t></w:r></w:p>", "a\tb\nc"),
        ("<w:p><w:r><w:t>co</w:t><w:noBreakHyphen/><w:t>op</w:t></w:r></w:p>", "co-op"),
        ("<w:p><w:r><w:t>infor</w:t><w:softHyphen/><w:t>mation</w:t></w:r></w:p>", "information"),
        ('<w:p><w:r><w:sym w:font="Arial" w:char="00E9"/><w:t>t</w:t></w:r></w:p>', "ét"),
        ('<w:p><w:r><w:sym w:font="Symbol" w:char="F0B7"/><w:t>t</w:t></w:r></w:p>', "t"),
        ('<w:p><w:r><w:sym w:char="zz"/><w:sym w:char="110000"/><w:t>t</w:t></w:r></w:p>', "t"),
        ("<w:p><w:r><w:t>a</w:t><w:ptab/><w:t>b</w:t></w:r></w:p>", "a\tb"),
        ("<w:p><m:oMath><m:r><m:t>x=1</m:t></m:r></m:oMath></w:p>", "x=1"),
        (f"<w:p>{RUBY}</w:p>", "kanjikana"),
        (f"<w:p><w:pPr><w:outlineLvl w:val='1'/></w:pPr>{R.format('Head')}</w:p>", "## Head"),
        (f"<w:p><w:pPr><w:outlineLvl w:val='9'/></w:pPr>{R.format('Body')}</w:p>", "Body"),
        (f"<w:tbl>{row(ONE + TWO, P.format('three'))}</w:tbl>", "| one two | three |"),
        (f"<w:tbl><w:tr>{cell(ONE)}{MERGED.format('cellDel', TWO)}</w:tr></w:tbl>", "| one |"),
        (f"<w:tbl><w:tr>{MERGED.format('cellIns', TWO)}</w:tr></w:tbl>", "| two |"),
        (f"<w:p>{FIELD}</w:p>", "5 May"),
        (P.format("# no heading") + P.format("```") + P.format("#5"),
         "\\# no heading\n\n\\```\n\n#5"),
        ("<w:p><w:r><w:t>a</w:t><w:br/><w:t># b</w:t></w:r></w:p>", "a\n\\# b"),
        ('<w:p><w:r><w:t>Up</w:t><w:sym w:char="F0E1"/><w:t>Down</w:t></w:r></w:p>', "Up Down"),
        (f"<w:p><m:f><m:num>{M.format('5')}</m:num><m:den>{M.format('6')}</m:den></m:f></w:p>",
         "5 6"),
        (f"<w:p><m:m>{MR.format('p', 'q')}{MR.format('r', 's')}</m:m></w:p>", "p q r s"),
        (f"<w:p><m:sSup><m:e>{M.format('10')}</m:e><m:sup>{M.format('23')}</m:sup></m:sSup></w:p>",
         "10 23"),
        (f"<w:p>{DROP_DOWN.format(CHOSEN.format('result', 1))}</w:p>", "blue"),
        (f"<w:p>{DROP_DOWN.format(CHOSEN.format('default', 1))}</w:p>", "blue"),
        (f"<w:p>{DROP_DOWN.format('')}</w:p>", "red"),
        (f"<w:p>{DROP_DOWN.format(CHOSEN.format('result', 9))}{R.format('a')}</w:p>",
         "a"),
        (f"<w:p>{ART}{R.format('a')}</w:p>", "a\n\nA pier\n\nSale"),
        (f"<w:p>{PICTURE}{R.format('a')}</w:p>", "a\n\n\\# A pier"),
        (f"<w:p>{R.format('a')}{HIDDEN}</w:p>", "a"),
        (f"<w:p>{R.format('a ')}{NOT_HIDDEN}</w:p>", "a gone"),
        (f"<w:p>{DELETED_END}{R.format('micro')}</w:p><w:p>{R.format('scope')}</w:p>{ONE}",
         "microscope\n\none"),
        (f"<w:p>{DELETED_END}{R.format('a')}</w:p><w:tbl>{row(TWO)}</w:tbl>", "a\n\n| two |"),
        (f"<w:tbl>{row(f'<w:p>{DELETED_END}{R}</w:p>'.format('last'), TWO)}</w:tbl>",
         "| last | two |"),
        (f"<w:p>{R.format('per')}<w:permStart/><w:proofErr/>{R.format('mit')}<w:permEnd/></w:p>",
         "permit"),
        (f"<w:p>{R.format('H')}{LOWERED}{R.format('O')}</w:p>", "H2O"),
        (f"<w:p>{CHOICE.format('zzz', '')}</w:p>", "instead"),
        (f"<w:p>{CHOICE.format('x', R.format('foreign'))}</w:p>", "instead"),
        (f"<w:p>{CHOICE.format('wps v', R.format('ours'))}</w:p>", "ours"),
    ],
)  # fmt: skip
def test_signs_are_read_and_deleted_text_is_not(body, text, tmp_path):
    assert text_of(tmp_path, body) == text


def test_strict_open_xml_is_refused_with_the_way_out(tmp_path):
    docx.Document().save(str(tmp_path / "a.docx"))
    with ZipFile(tmp_path / "a.docx") as old, ZipFile(tmp_path / "b.docx", "w") as new:
        for name in old.namelist():
            usual, strict = b"http://schemas.openxmlformats.org/", b"http://purl.oclc.org/ooxml/"
            new.writestr(name, old.read(name).replace(usual, strict))
    with pytest.raises(CollectionError, match=r"Strict Open XML, .*: save it as an ordinary"):
        list(read_documents(tmp_path / "b.docx"))


@pytest.mark.parametrize(("words", "count"), [("", 1), ("words", 1), ("words", 2)])
def test_embedded_files_are_named_as_left_out(words, count, tmp_path):
    document = docx.Document()
    document.add_paragraph(words)
    for _ in range(count):
        document.element.body.append(parse_xml(f"<w:altChunk {NAMES}/>"))
    document.save(str(tmp_path / "a.docx"))
    skipped = SkippedLines()
    files = "an embedded file is" if count == 1 else "2 embedded files are"
    problem = f"a.docx: {files} not read (altChunk): open it in Word and save it again"
    if words:
        (found,) = read_documents(tmp_path / "a.docx", skipped=skipped)
        assert found.text == words
        assert skipped.messages == [f"{tmp_path}/{problem}"]
    else:
        with pytest.raises(CollectionError, match=re.escape(problem)):
            list(read_documents(tmp_path / "a.docx", skipped=skipped))


@pytest.mark.parametrize("encoding", ["utf-16", "iso-8859-1", "utf-8-sig"])
@pytest.mark.parametrize("place", ["word/document.xml", "word/document22.xml"])
def test_the_main_part_has_any_encoding_of_xml_and_any_name(encoding, place, tmp_path):
    document = docx.Document()
    document.add_paragraph("café")
    document.save(str(tmp_path / "a.docx"))
    with ZipFile(tmp_path / "a.docx") as old, ZipFile(tmp_path / "b.docx", "w") as new:
        for name in old.namelist():
            part = old.read(name)
            if name == "word/document.xml":
                declared = encoding.removesuffix("-sig")
                part = part.decode().replace("'UTF-8'", f"'{declared}'", 1).encode(encoding)
            elif not name.startswith("word/"):
                part = part.replace(b"word/document.xml", place.encode())
            new_name = name.replace("document.xml", place.removeprefix("word/"))
            new.writestr(new_name, part)
    (found,) = read_documents(tmp_path / "b.docx")
    assert found.text == "café"


def test_notes_stand_below_what_they_are_fixed_to(tmp_path):
    notes = {
        "footnotes": f'<w:footnote w:id="0" w:type="separator">{P.format("no")}</w:footnote>'
        f'<w:footnote w:id="2">{P.format("a footnote")}</w:footnote>',
        "endnotes": f'<w:endnote w:id="2">{P.format("an endnote")}{TWO}</w:endnote>',
    }
    foot = '<w:r><w:footnoteReference w:id="2"/></w:r>'
    end = '<w:r><w:endnoteReference w:id="2"/></w:r>'
    body = f"<w:p>{R.format('text')}{foot}</w:p><w:tbl>{row(f'<w:p>{end}</w:p>')}</w:tbl>"
    assert text_of(tmp_path, body, notes) == "text\n\na footnote\n\n| an endnote two |"


def test_styles_that_come_from_headings_are_headings(tmp_path):
    document = docx.Document()
    for name, parent in (("Mine", "Heading 2"), ("Ours", "Mine")):
        style = document.styles.add_style(name, docx.enum.style.WD_STYLE_TYPE.PARAGRAPH)
        style.base_style = document.styles[parent]
    document.add_paragraph("Deep", style="Ours")
    document.save(str(tmp_path / "a.docx"))
    (found,) = read_documents(tmp_path / "a.docx")
    assert (found.text, found.title) == ("## Deep", "Deep")


@pytest.mark.parametrize("kind", ["CHARACTER", "PARAGRAPH"])
def test_text_of_a_hidden_style_is_left_out(kind, tmp_path):
    document = docx.Document()
    kind_of_style = docx.enum.style.WD_STYLE_TYPE[kind]
    document.styles.add_style("Unseen", kind_of_style).font.hidden = True
    document.add_paragraph("seen")
    paragraph = document.add_paragraph()
    run = paragraph.add_run("gone")
    (run if kind == "CHARACTER" else paragraph).style = "Unseen"
    document.save(str(tmp_path / "a.docx"))
    (found,) = read_documents(tmp_path / "a.docx")
    assert found.text == "seen"


def test_the_time_grows_with_the_pictures_of_a_paragraph(tmp_path):
    def read(count: int) -> None:
        pictures = (PICTURE.replace("A pier", f"Pier {number}") for number in range(count))
        text_of(tmp_path, f"<w:p>{''.join(pictures)}</w:p>")

    assert grows_evenly(read, 1_000)


def test_the_time_grows_with_the_paragraphs_whose_ends_were_deleted(tmp_path):
    one = f"<w:p>{DELETED_END}{R.format('one')}</w:p>"
    assert grows_evenly(lambda count: text_of(tmp_path, one * count), 2_000)


def test_the_time_grows_with_the_paragraphs(tmp_path):
    assert grows_evenly(lambda count: text_of(tmp_path, ONE * count), 2_000)


def test_the_time_grows_with_the_styles(tmp_path):
    def read(count: int) -> None:
        document = docx.Document()
        styles = document.styles.element
        for number in range(count):
            style = styles.makeelement(qn("w:style"), {qn("w:styleId"): f"s{number}"})
            style.append(styles.makeelement(qn("w:basedOn"), {qn("w:val"): f"s{number + 1}"}))
            styles.append(style)
        document.add_paragraph("text")
        document.save(str(tmp_path / "a.docx"))
        list(read_documents(tmp_path / "a.docx"))

    assert grows_evenly(read, 300)


def test_a_file_that_would_fill_the_memory_is_refused(tmp_path):
    docx.Document().save(str(tmp_path / "a.docx"))
    with ZipFile(tmp_path / "a.docx", "a", ZIP_DEFLATED) as archive:
        for number in range(16):
            archive.writestr(f"word/media/{number}.bin", bytes(1 << 24))
    assert (tmp_path / "a.docx").stat().st_size < 1 << 20
    with pytest.raises(CollectionError, match=r"unpacked it has 269,.* more than 268,435,456$"):
        list(read_documents(tmp_path / "a.docx"))
