"""The words of PDF files are whole, whatever glyphs and lines they are made of."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import rc_context
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure

from swiftlet.corpora.files import pdf
from swiftlet.corpora.files.pdf import cleaned, in_lines, pdf_parts, whole_words
from swiftlet.corpora.files.text import Part
from swiftlet.errors import CollectionError


def text_of(text: str, folder: Path, title: str = "") -> tuple[str, str]:
    path = folder / "file.pdf"
    metadata = {"Title": title} if title else {}
    with rc_context({"pdf.fonttype": 42}), PdfPages(path, metadata=metadata) as pages:
        figure = Figure()
        figure.text(0.1, 0.5, text)
        pages.savefig(figure)
    (part,) = pdf_parts(path, path.read_bytes())
    return part.text, part.title


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("infor-\nmation", "information"),
        ("of (infor-\nmation) here", "of (information) here"),
        ("well-known, then well-\nknown", "well-known, then well-known"),
        ("self-made, well-known, then self-\nknown", "then self-known"),
        ("Ein-\nund Zweizimmer, und mehr", "Ein- und Zweizimmer"),
        ("a floating point, a floating-\npoint number", "a floating-point number"),
        ("GTK-\n4", "GTK-4"),
        ("use --skip-bad-\nlines now", "--skip-bad-lines now"),
        ("the fﬁ ﬂow of ofﬁce", "office"),
    ],
)
def test_words_of_real_files_are_whole(text, words, tmp_path):
    assert words in " ".join(text_of(text, tmp_path)[0].split())


@pytest.mark.parametrize(
    ("text", "known", "words"),
    [
        ("infor\ufffemation", "", "information"),
        ("infor\ufffemation", "information", "information"),
        ("with\ufffeout", "with out without", "without"),
        ("twenty\ufffeone", "twenty one", "twenty-one"),
        ("re\ufffeuse", "re-use use", "re-use"),
        ("on\ufffeline", "online on-line on-line", "on-line"),
        ("on\ufffeline", "online online on-line on line", "online"),
        ("Ein\ufffeund Zweizimmer", "und", "Ein- und Zweizimmer"),
        ("Haus\ufffe und Hof", "und", "Haus- und Hof"),
        ("pre\ufffeor postfix", "or", "pre- or postfix"),
        ("end\ufffeto-end", "end to", "end-to-end"),
        ("end\ufffeto\ufffeend", "end to", "end-to-end"),
        ("mai\ufffeor", "mai", "maior"),
        ("thou\ufffesand and more", "and", "thousand and more"),
        ("thous\ufffeand and more", "and thousand", "thousand and more"),
        ("ELE\ufffeMENT", "", "ELEMENT"),
        ("Vitamin\ufffeC", "", "Vitamin-C"),
        ("x\ufffeaxis", "axis", "x-axis"),
        ("a/b\ufffec", "", "a/b-c"),
        ("2010\ufffe2020", "", "2010-2020"),
        ("infor\u2010\r\nmation", "", "information"),
        ("with\u2010 \nout", "with out without", "without"),
        ("re\u2010\nuse", "re-use use", "re-use"),
        ("twenty\u2010one", "", "twenty-one"),
        ("end\ufffe", "", "end-"),
        ("\ufffe", "", "-"),
        ("infor\xadmation", "infor mation", "information"),
        ("infor\xad\nmation", "", "information"),
        ("o\ufb03ce \ufb01ve \ufb02at e\ufb00ect", "", "office five flat effect"),
        ("\uf761\uf762c \uf731", "", "abc " + "1"),
        ("\uf0b7 item", "", "• item"),
        ("a\ue001b", "", "a b"),
        ("I N T R O D U C T I O N", "", "INTRODUCTION"),
        ("T h e  E n d", "", "The End"),
        ("x y", "", "x y"),
        ("H H H H H H", "", "H H H H H H"),
        ("a\x00b\ud83dc\x02", "", "a b c"),
    ],
)
def test_signs_become_words(text, known, words):
    assert cleaned(in_lines(text), Counter(known.split())) == words


def test_parts_of_divided_words_are_not_known_but_parts_of_compounds_are():
    found = {*whole_words(in_lines("infor\u2010\nmation well\u2010known so\xadmething"))}
    assert found == {"well-known", "well", "known"}


def plain_pdf(
    content: bytes, title: bytes = b"()", differences: bytes = b"", *more: bytes
) -> bytes:
    """A page of this content, with a font F; its objects from 8 on are more."""
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding << /BaseEncoding "
        b"/WinAnsiEncoding /Differences [65 " + differences + b"] >> >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 5 0 R /Resources 7 0 R >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
        b"<< /Title " + title + b" >>",
        b"<< /Font << /F 3 0 R >> /XObject << /X 8 0 R >> >>",
        *more,
    ]
    body, places = b"%PDF-1.7\n", []
    for number, each in enumerate(objects, start=1):
        places.append(b"%010d 00000 n \n" % len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + b"".join(places)
    trailer = b"trailer << /Size %d /Root 1 0 R /Info 6 0 R >>" % (len(objects) + 1)
    return body + table + trailer + b"\nstartxref\n%d\n%%%%EOF" % len(body)


AT = b"BT /F 12 Tf 50 700 Td "
FORM = AT + b"(in a form) Tj ET"


# Ways to show text in ISO 32000: sections 9.3, 9.4, 9.6, 8.10 and 14.9.4.
@pytest.mark.parametrize(
    ("content", "differences", "text"),
    [
        (AT + b"(infor\\255) Tj 0 -14 Td (mation) Tj ET", b"", "information"),
        (AT + b"(self-) Tj 0 -14 Td (made and self-made) Tj ET", b"", "self-made and self-made"),
        (AT + b"[(W)80(A)120(VE) -600 (two)] TJ ET", b"", "WAVE two"),
        (AT + b"10 Tc (spaced) Tj ET", b"", "spaced"),
        (AT + b"3 Tr (as OCR hides it) Tj ET", b"", "as OCR hides it"),
        (AT + b"(oBce A) Tj ET", b"/fi /ffi", "office fi"),
        (AT + b"(A\\240B) Tj ET", b"/uni0041 /u00042", "A B"),
        (b"/Span << /ActualText <FEFF00E9> >> BDC " + AT + b"(x) Tj ET EMC", b"", "é"),
        (b"/X Do", b"", "in a form"),
        (AT + b"(one) Tj 90 0 Td (two) Tj 0 -20 Td (three) Tj ET", b"", "one two\nthree"),
        (b"BT /F 12 Tf 0 1 -1 0 90 90 Tm (upwards) Tj ET", b"", "upwards"),
    ],
)
def test_text_is_read_in_each_way_to_show_it(content, differences, text):
    form = (
        b"<< /Type /XObject /Subtype /Form /BBox [0 0 612 792] /Resources << /Font << /F 3 0 R >> "
        b">> /Length %d >>\nstream\n%s\nendstream" % (len(FORM), FORM)
    )
    (part,) = pdf_parts(Path("a.pdf"), plain_pdf(content, b"()", differences, form))
    assert isinstance(part, Part)
    assert part.text == text


@pytest.mark.parametrize(
    ("title", "shown"),
    [(b"(\xef\xbb\xbf\xc3\xa9t\xc3\xa9)", "été"), (b"(\\222 \\204 \\240)", "™ — €"),
     (b"<4142>", "AB"), (b"(a\\(b\\)\\\nc)", "a(b)c"), (b"<feff00e9>", "é"),
     (b"[(x)]", "a"), (b"6 0 R", "a")],
)  # fmt: skip
def test_a_title_has_any_encoding_of_pdf(title, shown):
    (part,) = pdf_parts(Path("a.pdf"), plain_pdf(FORM, title))
    assert isinstance(part, Part)
    assert part.title == shown


@pytest.mark.parametrize(
    ("title", "shown"),
    [("A\x00B  C", "A B C"), (" \x00 ", "file"), ("A\n\tB", "A B"), ("", "file")],
)
def test_a_title_is_one_clean_line(title, shown, tmp_path):
    assert text_of("words", tmp_path, title)[1] == shown


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        (b"\xd8\x3dAB", "\ufffd䅂"), (b"\0A\xdc\0\0B", "A\ufffdB"), (b"\0A\0\0\0B", "A B"),
        (b"\0 \0 ", "file"), (b"\0A", "A"),
    ],
)  # fmt: skip
def test_a_title_of_broken_utf_16_stops_nothing(title, shown, tmp_path):
    text_of("words", tmp_path, "MARK")
    content = (tmp_path / "file.pdf").read_bytes()
    assert content.count(b"(MARK)") == 1
    content = content.replace(b"(MARK)", b"<feff" + title.hex().encode() + b">")
    (part,) = pdf_parts(tmp_path / "file.pdf", content)
    assert (part.text, part.title) == ("words", shown)


@given(
    st.text(st.sampled_from("ab \n-\ufffe\xad\ufb01\ue000\ud800\x00Z9")),
    st.text("ab ").map(str.split),
)
def test_no_odd_sign_is_left(text, known):
    found = cleaned(in_lines(text), Counter(known))
    assert not {*found} & {*"\ufffe\xad\ufb01\ue000\ud800\x00"}
    found.encode()
    letters = [each for each in text if each in "abZ9"]
    assert [each for each in found if each in "abZ9"] == letters


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_or_read(tail):
    with pytest.raises(CollectionError):
        list(pdf_parts(Path("a.pdf"), b"%PDF-1.4\n" + tail))


def drawn(content: bytes, form: bytes) -> bytes:
    """A PDF of a page and a form, both of which can draw the form by `/X Do`."""
    form_of = b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X 5 0 R>>>>"
    streams = (content, b""), (form, form_of)
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<</XObject<</X 5 0 R>>>>>>",
        *(b"<</Length %d%s>>stream\n%s\nendstream" % (len(each), of, each) for each, of in streams),
    ]
    numbered = (
        b"%d 0 obj\n%s\nendobj\n" % (number, each) for number, each in enumerate(objects, 1)
    )
    return b"%PDF-1.7\n" + b"".join(numbered) + b"trailer\n<</Size 6/Root 1 0 R>>\n%%EOF"


@pytest.mark.parametrize(
    ("size", "seconds"), [(2**28, 60), pytest.param(2**40, 0, marks=pytest.mark.check)]
)
def test_a_form_that_draws_itself_costs_no_more_than_the_bounds(
    size, seconds, tmp_path, monkeypatch
):
    pdf._reader.cache_clear()
    monkeypatch.setattr(pdf, "MOST_BYTES", size)
    monkeypatch.setattr(pdf, "MOST_SECONDS", seconds)
    with pytest.raises(CollectionError, match=r"takes more than [\d,]+ bytes of memory, or"):
        [*pdf_parts(tmp_path / "bomb.pdf", drawn(b"/X Do", b"/X Do /X Do"))]
    assert text_of("lichens", tmp_path)[0] == "lichens"  # the next file is read


def test_an_interruption_of_a_pdf_leaves_no_answer_for_the_next_one(tmp_path, monkeypatch):
    text_of("ferns", tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("swiftlet.corpora.files.pdf.json.loads", interrupt)
        with pytest.raises(KeyboardInterrupt):
            text_of("mosses", tmp_path)
    assert text_of("lichens", tmp_path)[0] == "lichens"


def interrupt(_line: bytes) -> None:
    raise KeyboardInterrupt
