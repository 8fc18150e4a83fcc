"""HTML, Word, PDF and CSV files as documents, alone and in a folder."""

import base64
import gzip
import io
import itertools
import shutil
import sqlite3
import sys
import zipfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import docx
import pytest
from matplotlib import rc_context
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure

from swiftlet import build, write
from swiftlet import open as open_searcher
from swiftlet.corpora.collections import read_documents, unread_files
from swiftlet.corpora.fields import Fields
from swiftlet.corpora.files import folder
from swiftlet.corpora.lines import SkippedLines
from swiftlet.corpora.rows import documents_of
from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.errors import CollectionError, MissingExtraError
from swiftlet.index.documents.store import DOCUMENTS_FILE, DocumentStore
from swiftlet.types import Document
from tests.command_line import refusal, swiftlet

PICTURE = "a picture"
WORDS = "Ferns grow in the shade of old trees, and their spores travel with the wind. " * 6
PAGE = f"""<html><head><title>Ferns - A site about plants</title></head><body>
<nav><ul><li><a href="/">Home</a></li><li><a href="/shop">Shop</a></li></ul></nav>
<article><h1>Ferns</h1><p>{WORDS}</p><h2>Spores</h2><p>{WORDS}</p><pre><code>water(fern)
wait(7)</code></pre></article><footer><a href="/imprint">Imprint</a></footer></body></html>"""
# An empty page that opens with the password "secret".
ENCRYPTED = base64.b64decode(
    """
    JVBERi0xLjMKJeLjz9MKMSAwIG9iago8PAovUHJvZHVjZXIgPGI3MjU5NjE3YTM+Cj4+CmVuZG9iagoyIDAgb2JqCjw8
    Ci9UeXBlIC9QYWdlcwovQ291bnQgMQovS2lkcyBbIDQgMCBSIF0KPj4KZW5kb2JqCjMgMCBvYmoKPDwKL1R5cGUgL0Nh
    dGFsb2cKL1BhZ2VzIDIgMCBSCj4+CmVuZG9iago0IDAgb2JqCjw8Ci9UeXBlIC9QYWdlCi9SZXNvdXJjZXMgPDwKPj4K
    L01lZGlhQm94IFsgMC4wIDAuMCA3MiA3MiBdCi9QYXJlbnQgMiAwIFIKPj4KZW5kb2JqCjUgMCBvYmoKPDwKL1YgMQov
    UiAyCi9MZW5ndGggNDAKL1AgNDI5NDk2NzI5MgovRmlsdGVyIC9TdGFuZGFyZAovTyA8ZTVhOGQyNjg3YmQ5ZDBjZmY5
    NDZiN2FjNTVmNTEwODFkY2YwZDExNjU1NGM0YmZjYjBhNWU0NDZmNjllYTQ4YT4KL1UgPGE3ZjY0YTU1NTI0YTcwOGJl
    NmYwYmQ3NzMxOWIxODE5Nzk0OTNkYzI1NGI1NmQwMGViNDMwZGY0Mjc1MTI5ZGM+Cj4+CmVuZG9iagp4cmVmCjAgNgow
    MDAwMDAwMDAwIDY1NTM1IGYgCjAwMDAwMDAwMTUgMDAwMDAgbiAKMDAwMDAwMDA1OSAwMDAwMCBuIAowMDAwMDAwMTE4
    IDAwMDAwIG4gCjAwMDAwMDAxNjcgMDAwMDAgbiAKMDAwMDAwMDI1OSAwMDAwMCBuIAp0cmFpbGVyCjw8Ci9TaXplIDYK
    L1Jvb3QgMyAwIFIKL0luZm8gMSAwIFIKL0lEIFsgPGY4ZTdjM2EwYTIyMGVjMjIwNjA0MDc5MDE0OTU5NmNmPiA8Zjhl
    N2MzYTBhMjIwZWMyMjA2MDQwNzkwMTQ5NTk2Y2Y+IF0KL0VuY3J5cHQgNSAwIFIKPj4Kc3RhcnR4cmVmCjQ3MwolJUVP
    Rgo=
    """
)


def broken_word_file() -> bytes:
    """An archive of which a part is no XML."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        # Without the time, which would be in the names of tests: each worker would have others.
        archive.writestr(zipfile.ZipInfo("[Content_Types].xml"), "<bad")
    return content.getvalue()


def write_pdf(path: Path, *texts: str) -> None:
    with rc_context({"pdf.fonttype": 42}), PdfPages(path) as pages:
        for text in texts:
            figure = Figure()
            if text == PICTURE:
                figure.figimage([[0.0, 1.0], [1.0, 0.0]])
            else:
                figure.text(0.1, 0.5, text)
            pages.savefig(figure)


def write_word(path: Path) -> None:
    document = docx.Document()
    document.add_heading("Mosses", 0)
    document.add_heading("Where", 1)
    document.add_paragraph(WORDS)
    document.add_heading("When", 1)
    document.add_paragraph(WORDS)
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "March", "green"
    document.save(str(path))


def only(path: Path) -> Document:
    (document,) = read_documents(path)
    return document


def sections(document: Document) -> list[str]:
    return [document.text[start:end] for start, end, _ in document.sections]


@pytest.mark.parametrize("name", ["a.html", "a.md", "a.txt", "a.jsonl", "a.csv", "a.tsv"])
def test_a_file_of_gzip_is_read_whatever_its_suffix(name, tmp_path):
    tables = {
        ".jsonl": b'{"id": "1", "text": "words"}',
        ".csv": b"id,text\n1,words\n",
        ".tsv": b"id\ttext\n1\twords\n",
    }
    path = tmp_path / name
    content = tables.get(path.suffix, b"words\n")
    path.write_bytes(gzip.compress(content[:9]) + gzip.compress(content[9:]))  # two members
    (found,) = read_documents(path)
    assert found.text.strip() == "words"
    path.write_bytes(gzip.compress(content)[:-9])
    with pytest.raises(CollectionError, match=rf"{name}: cannot be read: Compressed file ended"):
        list(read_documents(path))


def test_a_web_page_is_its_main_text_cut_at_headings(tmp_path):
    (tmp_path / "ferns.html").write_text(PAGE)
    document = only(tmp_path / "ferns.html")
    assert (document.document_id, document.title) == ("ferns.html", "Ferns")
    assert "Ferns grow in the shade" in document.text
    assert not any(word in document.text for word in ("Home", "Shop", "Imprint"))
    first, second = sections(document)
    assert first.startswith("# Ferns")
    assert second.startswith("## Spores")
    assert "water(fern)\nwait(7)" in second


def test_a_word_file_has_headings_paragraphs_and_tables(tmp_path):
    write_word(tmp_path / "mosses.docx")
    document = only(tmp_path / "mosses.docx")
    assert document.title == "Mosses"
    first, second = sections(document)
    assert first.startswith("# Mosses\n\n# Where\n\nFerns")
    assert second.startswith("# When")
    assert second.endswith("| March | green |")


def test_each_page_of_a_pdf_that_has_text_is_a_document(tmp_path):
    write_pdf(tmp_path / "book.pdf", "Lichens live on stones", "", "Algae live in water")
    first, last = read_documents(tmp_path / "book.pdf")
    assert (first.document_id, first.title) == ("book.pdf#page=1", "book")
    assert (first.text, last.text) == ("Lichens live on stones", "Algae live in water")
    assert {"file": "book.pdf", "page": 3, "pages": 3}.items() <= last.metadata.items()


def test_markdown_is_cut_at_headings_but_not_within_code(tmp_path):
    text = f"# One\n\n## Two\n\n{WORDS}\n```sh\n# no heading\n{WORDS}\n```\n## Three\n\nEnd.\n"
    (tmp_path / "a.md").write_text(text)
    found = sections(only(tmp_path / "a.md"))
    assert [each.partition("\n")[0] for each in found] == ["# One", "## Three"]
    assert "".join(found) == text


def test_hits_have_the_headings_above_their_passage(tmp_path):
    parts = [f"# Manual\n\n## Install\n\n### Linux\n\n{WORDS}", f"### Windows\n\n{WORDS}glass"]
    (tmp_path / "a.md").write_text("\n\n".join([*parts, f"## Remove\n\n{WORDS}stone", "End."]))
    document = only(tmp_path / "a.md")
    paths = ["Install > Linux", "Install > Windows", "Remove"]
    assert [section.heading for section in document.sections] == paths
    index = tmp_path / "index"
    built = {"encoder": LOOKUP_QUERY_ENCODER, "passage_tokens": 64}
    build([document], index, **built)

    def found() -> list[str]:
        return [
            searcher.search(query, 1, mode="lexical")[0].passage.heading
            for query in ("glass", "stone")
        ]

    for change in ("none", "put", "compact"):
        with write(index, encoder=LOOKUP_QUERY_ENCODER) as writer:
            if change == "put":
                writer.put([replace(document, text=document.text + " water")])
                document = replace(document, text=document.text + " water")
            if change == "compact":
                writer.compact()
        with open_searcher(index) as searcher:
            assert found() == paths[1:]
            assert searcher.document("a.md").sections == document.sections
    shown = swiftlet("search", index, "glass", "--mode", "lexical").stdout
    assert "Install > Windows" in map(str.strip, shown.splitlines())


def test_stores_of_earlier_versions_have_no_headings(small_index, tmp_path):
    path = Path(shutil.copy(small_index / DOCUMENTS_FILE, tmp_path))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE passages DROP COLUMN heading")
        connection.commit()
    earlier, now = DocumentStore(path), DocumentStore(small_index / DOCUMENTS_FILE)
    assert earlier.passages([3, 1]) == now.passages([3, 1])


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.pdf", ENCRYPTED, "the PDF is encrypted: save it without a password"),
        ("a.pdf", b"%PDF-1.4 nonsense", "cannot be read as a PDF: Failed to load document"),
        ("a.docx", b"PK\3\4nonsense", "cannot be read as a Word file: File is not a zip file"),
        ("a.docx", broken_word_file(), "cannot be read as a Word file: Couldn't find end of"),
        ("a.html", b"<html><body></body></html>", "the file has no text"),
        ("a.html", bytes(1000), "it has NUL characters: it is no text"),
    ],
)
def test_a_bad_file_is_named_and_the_others_are_read(name, content, problem, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CollectionError, match=problem):
        list(read_documents(tmp_path / name))
    (tmp_path / "good.txt").write_text("Good.")
    skipped = SkippedLines()
    assert [each.text for each in read_documents(tmp_path, skipped=skipped)] == ["Good."]
    assert problem in skipped.messages[0]
    assert f"{tmp_path / name}" in skipped.messages[0]


def test_pages_of_pictures_are_named_and_the_others_are_read(tmp_path):
    write_pdf(tmp_path / "half.pdf", "Lichens", PICTURE, "", PICTURE)
    with pytest.raises(CollectionError, match=r"no text on pages 2, 4, only pictures: have its"):
        list(read_documents(tmp_path, skipped=SkippedLines(files=False)))
    for path in (tmp_path, tmp_path / "half.pdf"):
        skipped = SkippedLines()
        assert [each.text for each in read_documents(path, skipped=skipped)] == ["Lichens"]
        assert skipped.count == 1
    write_pdf(tmp_path / "scan.pdf", PICTURE, "")
    with pytest.raises(CollectionError, match=r"no text: if it is scanned, .* \(OCR\)"):
        only(tmp_path / "scan.pdf")


def test_files_of_every_kind_that_is_not_read_are_counted(tmp_path):
    kinds = [f"{number}.x{number}" for number in range(12)]
    for name in ("a.txt", "b.bin", "c.bin", "d.csv", "d2.csv", "e", ".hidden.bin", *kinds):
        (tmp_path / name).write_text("x")
    sentence = unread_files([tmp_path, tmp_path / "d2.csv"])
    named, _, way = sentence.removeprefix("16 files skipped: ").partition("; ")
    others = {f"1 .x{number}" for number in range(12)}
    assert {*named.split(", ")} == {"2 .bin", "1 .csv", "1 without a suffix (e)", *others}
    assert way == "name each file of .csv to index it"
    result = swiftlet("index", tmp_path, "--out", tmp_path.with_name("index"))
    assert "17 files skipped: 2 .bin, 2 .csv, 1" in result.stderr.replace("\n", " ")
    assert unread_files(tmp_path / "a.txt") == ""


def test_without_the_packages_a_folder_says_what_it_needs(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "can_read", lambda suffix: suffix != ".pdf")
    (tmp_path / "a.txt").write_text("x")
    write_pdf(tmp_path / "b.pdf", "Lichens")
    assert [each.document_id for each in read_documents(tmp_path)] == ["a.txt"]
    sentence = unread_files(tmp_path)
    assert sentence.startswith("1 file skipped: 1 .pdf; to read .pdf, run pip install")
    assert sentence.endswith("'.[files]' in Swiftlet's source")
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    with pytest.raises(MissingExtraError, match="'pypdfium2' is not installed"):
        only(tmp_path / "b.pdf")


CSV = """isbn,name,abstract,note,year
007,First,"About ferns,
and ice",cold,2019
008,Second,,warm,2020
009,Third,Trees,,2021
"""


def test_columns_of_csv_are_named(tmp_path):
    (tmp_path / "books.csv").write_text(CSV)
    skipped = SkippedLines()
    fields = Fields(id="isbn", title="name", text=("abstract", "note"))
    found = list(documents_of(tmp_path / "books.csv", skipped=skipped, fields=fields))
    assert found == [
        Document("007", "About ferns,\nand ice\ncold", "First", {"year": 2019}),
        Document("008", "warm", "Second", {"year": 2020}),
        Document("009", "Trees", "Third", {"year": 2021}),
    ]
    assert skipped.count == 0


def test_json_lines_have_fields_of_other_names(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"key": "k", "id": 5, "body": "Text", "a": 1, "b": 2}\n')
    fields = Fields(id="key", text=("body",), metadata=("b", "id"))
    (found,) = documents_of(tmp_path / "a.jsonl", fields=fields)
    assert found == Document("k", "Text", "", {"b": 2, "id": 5})


def test_fields_are_named_of_a_table_beside_a_folder(tmp_path):
    (tmp_path / "books.csv").write_text(CSV)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("A note.")
    fields = Fields(id="isbn", text=("name",))
    found = documents_of([tmp_path / "books.csv", tmp_path / "notes"], fields=fields)
    assert [each.document_id for each in found] == ["007", "008", "009", "notes/a.txt"]
    with zipfile.ZipFile(tmp_path / "books.zip", "w") as archive:
        archive.writestr("books.csv", CSV)
    zipped = documents_of(tmp_path / "books.zip", fields=fields)
    assert [each.text for each in zipped] == ["First", "Second", "Third"]


@pytest.mark.parametrize("fields", [Fields(title="nosuch"), Fields(metadata=("a", "nosuch"))])
@pytest.mark.parametrize("lines", [3, 1_500])
def test_a_field_that_no_document_has_is_named(lines, fields, tmp_path):
    rows = (f'{{"id": "{number}", "text": "Text", "a": 1}}' for number in range(lines))
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    documents = documents_of(tmp_path / "a.jsonl", fields=fields)
    good = list(itertools.islice(documents, min(lines, 1_000)))
    with pytest.raises(CollectionError, match=r"no 'nosuch'; the fields are id, text, a$"):
        next(documents)
    assert len(good) == min(lines, 1_000)


def test_columns_between_tabs_have_a_head_or_are_ms_marcos(tmp_path):
    headed, plain = tmp_path / "headed.tsv", tmp_path / "plain.tsv"
    headed.write_text("id\ttitle\ttext\tyear\n1\tFerns\tGrow, slowly\t2019\n")
    plain.write_text("7\tThe text of a passage\n")
    assert only(headed) == Document("1", "Grow, slowly", "Ferns", {"year": 2019})
    assert only(plain) == Document("7", "The text of a passage", "", {})
    plain.write_text("key\tbody\n7\tThe text\n")
    fields = Fields(id="key", text=("body",))
    assert [each.text for each in documents_of(plain, fields=fields)] == ["The text"]
    for name in ("a.csv.gz", "a.tsv.gz"):
        between = "," if "csv" in name else "\t"
        with gzip.open(tmp_path / name, "wt") as file:
            file.write(f"id{between}text\n8{between}Packed\n")
        assert only(tmp_path / name) == Document("8", "Packed", "", {})


def test_the_command_names_fields_and_what_is_missing(tmp_path):
    (tmp_path / "books.csv").write_text(CSV)
    out = "--out", tmp_path / "index"
    plain = refusal(swiftlet("index", tmp_path / "books.csv", *out))
    assert 'there is no "text"; besides the id there are ' in plain
    assert "; --id-field, --title-field and --text-field name other fields" in plain
    named = "--id-field", "isbn", "--text-field"
    missing = refusal(swiftlet("index", tmp_path / "books.csv", *out, *named, "body"))
    assert "there is no 'body'; the fields are isbn, name, abstract, note, year; the" in missing
    refused = refusal(swiftlet("index", tmp_path / "books.csv", *out, *named, "abstract"))
    assert "row 2: there is no 'abstract'" in refused
    assert "--skip-bad-lines" in refused
    result = swiftlet("index", tmp_path / "books.csv", *out, *named, "note", "--metadata", "year")
    assert "row 3" in refusal(result)
    done = swiftlet(
        "index", tmp_path / "books.csv", *out, *named, "name", "--metadata", "year", "--dense-only"
    )
    assert "3 documents" in done.stdout
    (tmp_path / "a.txt").write_text("x")
    text = refusal(swiftlet("index", tmp_path / "a.txt", *out, "--id-field", "isbn"))
    assert "fields can be named of JSON lines and tables, not of text" in text


def test_of_many_columns_only_some_are_listed(tmp_path):
    names = [f"c{number}" for number in range(300)]
    rows = [",".join(names), ",".join("x" for _ in names)]
    (tmp_path / "wide.csv").write_text("\n".join(rows) + "\n")
    with pytest.raises(CollectionError, match=r"c19 and 280 more; the option --skip"):
        list(documents_of(tmp_path / "wide.csv", fields=Fields(id="c0", text=("body",))))


def test_bad_rows_of_csv_are_left_out_and_columns_of_numbers_are_numbers(tmp_path):
    rows = [
        "_id,text,year,price,code,open,mixed",
        '007,"bees, and\nwasps",1999,1.50,01234,True,1',
        "too,short",
        "8,tea,-3,2,98765,false,x",
        "9,,2000,1e3,00000,true,",
        "10,a\xff,2000,1,1,true,1",
        "11,honey,unknown,,,,",
    ]
    content = "\ufeff" + "\r\n".join(rows)
    file = tmp_path / "rows.csv"
    file.write_bytes(content.encode().replace("\xff".encode(), b"\xff"))
    skipped = SkippedLines()
    found = {each.document_id: each for each in documents_of(file, skipped=skipped)}
    assert skipped.count == 3
    assert [*found] == ["007", "8", "11"]
    assert found["007"].text == "bees, and\nwasps"
    assert found["007"].metadata == {
        "year": "1999", "price": 1.5, "code": "01234", "open": True, "mixed": "1"
    }  # fmt: skip
    assert found["8"].metadata == {
        "year": "-3", "price": 2, "code": "98765", "open": False, "mixed": "x"
    }  # fmt: skip
    assert found["11"].metadata == {"year": "unknown"}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"_id,text\n1,a,b\n", "row 1: there are 3 columns where 2 are expected"),
        ("_id,text\n1,ä\n2,".encode() + b"\xff\n", "row 2: not valid UTF-8: save the file as"),
        (b'_id,text\n1,a\n2,"b\n3,c\n', "row 2: a quote is not closed"),
        (b"_id,text\n", "there is no valid document"),
        (b"", "there is no head"),
        (b"_id,text,text\n1,a,b\n", "the column 'text' is there twice"),
    ],
)
def test_bad_csv_is_refused_in_a_sentence(content, problem, tmp_path):
    (tmp_path / "bad.csv").write_bytes(content)
    with pytest.raises(CollectionError, match=problem) as caught:
        list(read_documents(tmp_path / "bad.csv"))
    assert "\n" not in f"{caught.value}"


@pytest.mark.parametrize("inside", ["{}", "<div>{}</div>", "<main>{}</main>"])
@pytest.mark.parametrize("count", [2, 40])
def test_headings_and_code_of_a_page_stay_in_every_layout(inside, count, tmp_path):
    words = " ".join(f"Sentence {n} says how the program is installed." for n in range(count))
    content = inside.format(
        f"<h1>Guide</h1><p>{words}</p><h2>Install</h2><p>{words}</p><pre># x\nrun me</pre>"
        f"<h2>Use</h2><p>{words}</p>"
    )
    page = f"<nav><ul><li><a href='/'>Home</a></li></ul></nav>{content}<footer>Imprint</footer>"
    (tmp_path / "page.html").write_text(f"<html><body>{page}</body></html>")
    (document,) = documents_of(tmp_path)
    assert document.title == "Guide"
    assert document.sections[-1].heading == "Use"
    assert document.text.count(words) == 3
    assert "run me" in document.text
    assert "Imprint" not in document.text


def test_only_the_heading_that_is_the_title_is_left_out_of_paths(tmp_path):
    long = "Many words about this. " * 20
    (tmp_path / "two.md").write_text(
        f"# Alpha\n{long}\n## Sub\n{long}\n# Beta\n{long}\n## Sub\n{long}\n### Deep\n{long}\n"
    )
    (document,) = documents_of(tmp_path)
    assert document.title == "Alpha"
    found = [section.heading for section in document.sections]
    assert found == ["", "Sub", "Beta", "Beta > Sub", "Beta > Sub > Deep"]


def test_underlined_headings_cut_markdown_and_front_matter_is_not_text(tmp_path):
    rule = f"{WORDS}\n\n---\n\n- item\n---\n\n"
    (tmp_path / "a.md").write_text(
        "---\ntitle: 'Ferns: a guide'\ntags: [a]\n---\n"
        f"Shade\n-----\n\n{rule}Water\n=====\n\n{WORDS}\n\nRain\n----\n\n{WORDS}\n"
    )
    document = only(tmp_path / "a.md")
    assert document.title == "Ferns: a guide"
    assert document.text.startswith("Shade\n")
    found = [(section.heading, document.text[section.start :][:5]) for section in document.sections]
    assert found == [("Shade", "Shade"), ("Water", "Water"), ("Water > Rain", "Rain\n")]
    (tmp_path / "b.md").write_text("Mosses\n======\n\nSmall.\n")
    assert only(tmp_path / "b.md").title == "Mosses"
