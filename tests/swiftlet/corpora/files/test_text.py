"""Text and Markdown as people have them: front matter, rules, line ends, encodings, odd files."""

import logging
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swiftlet.corpora.collections import read_documents
from swiftlet.corpora.encodings import decoded
from swiftlet.corpora.files.text import headings, markdown_parts
from swiftlet.corpora.lines import LineError, SkippedLines
from swiftlet.errors import CollectionError
from swiftlet.types import Document
from tests.command_line import refusal, swiftlet
from tests.growth import grows_evenly


def markdown(folder: Path, content: str) -> Document:
    (folder / "notes.md").write_text(content, newline="")
    (document,) = read_documents(folder / "notes.md")
    return document


@pytest.mark.parametrize(
    "content",
    [
        "---\n\nOpening paragraph.\n\n---\n\nSecond part.\n",
        "---\nNOTE: read this before use\n\nDo not mix acids.\n---\n# Manual\n\nBody.\n",
        "---\n# Slide one\nIntro to bees\n---\n# Slide two\nHoney\n---\n# Slide three\nWax\n",
        "---\n- a list\n- of things\n---\nText.\n",
        "---\nJust a sentence.\n---\nText.\n",
        "---\n---\nText.\n",
        "---\n'unclosed: quote\n---\nText.\n",
        "---\n" + "[" * 5_000 + "\n---\nText.\n",
        "---\nkey: " + "x" * 20_000 + "\n---\nText.\n",
        "---\nnot: closed\n\nText.\n",
        "----\ntitle: four hyphens\n----\nText.\n",
        "---\na: &a [x]\nb: *missing\n---\nText.\n",
        "---\na: !!python/object:os.system [x]\n---\n",
        '---\ntitle: "\\UFFFFFFFF"\n---\nText.\n',
        "---\nWarning: do not open the valve.\n---\n\n# Manual\n",
        "---\nRead this: twice\nNote: well\n---\nText.\n",
        "---\n{[a]: b, title: c}\n---\nText.\n",
        "---\nFor: it is small\nAgainst: it is slow\n---\nText.\n",
        "---\nSummary: it works\nNext steps: none\n---\nText.\n",
        "---\nAnna: Where to?\nBen: Home.\n---\nText.\n",
        "---\nfirst day: a walk\nsecond day: a rest\n---\nText.\n",
    ],
)
def test_what_is_no_front_matter_is_text(content, tmp_path):
    assert markdown(tmp_path, content).text == content


@pytest.mark.parametrize(
    ("block", "title"),
    [
        ('title: "Quoted" # internal', "Quoted"),
        ("title: >-\n  A very long\n  folded title\ntags: [a]", "A very long folded title"),
        ("title: 'It''s here'", "It's here"),
        ("title: 1984", "1984"),
        ("date: 2020-01-01\ntitle: Plain: no", "notes"),
        ("title: |\n  Two\n  lines", "Two lines"),
        ('"title": "Caf\\u00e9"', "Café"),
        ('title: "Emoji \\ud83d\\ude00 post"', "Emoji 😀 post"),
        ('title: "\\ud800x"', "\ufffdx"),
        ("sidebar_position: 2\nhide-title: yes", "notes"),
        ("title:", "notes"),
        ("title: ~\nslug: x", "notes"),
        ("title: [a, list]", "notes"),
        ("Title: In capitals\nDate: 2020-01-01", "In capitals"),
        ("{title: In braces, draft: true}", "In braces"),
        ("title: A\n...", "A"),
        ("title: A\ndate modified: 2020-01-01\nog.type: page\n'twitter:card': b", "A"),
        ("title:\tTabs\ndate:\t2020-01-01", "Tabs"),
    ],
)
def test_a_title_of_front_matter_comes_without_its_quotes(block, title, tmp_path):
    end = "" if block.endswith("...") else "\n---"
    document = markdown(tmp_path, f"---\n{block}{end}\nBody text.\n")
    if "Plain: no" in block:  # is no YAML
        assert document.text.startswith("---\n")
    else:
        assert document.text == "Body text.\n"
    assert document.title == title


def test_front_matter_without_a_usual_key_is_named(tmp_path):
    (tmp_path / "a.md").write_text("---\nmarp: true\ntheme: gaia\n---\n# Bees\n")
    (tmp_path / "b.md").write_text("---\ntags: x\ntheme: gaia\n---\n# Wax\n")
    skipped = SkippedLines()
    assert [each.title for each in read_documents(tmp_path, skipped=skipped)] == ["Bees", "Wax"]
    assert skipped.notes == ["a.md begins with front matter, which is no text: marp, theme"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_end_of_a_line_ends_a_heading(end, tmp_path):
    lines = ["---", "title: Old", "---", "# First", "one", "## Second", "more"]
    document = markdown(tmp_path, end.join(lines) + end)
    expected = Document("notes.md", "# First\none\n## Second\nmore\n", "Old")
    assert replace(document, metadata={}) == expected
    assert markdown(tmp_path, end.join(lines[3:])).title == "First"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("# a", "a"), ("# a #", "a"), ("# a ##  ", "a"), ("# a#", "a#"), ("# #", ""), ("# ", ""),
        ("   ###### a b", "a b"), ("#\ta\t#", "a"), ("# # a", "# a"), ("# a # b #", "a # b"),
    ],
)  # fmt: skip
def test_headings_have_their_names(line, name):
    assert [heading.name for heading in headings(line)] == [name]


# Blocks of HTML in CommonMark, section 4.6, kinds 1 and 2.
@pytest.mark.parametrize(
    "block",
    [
        "<!-- # inside\n# inside\n-->", "<!--\n\n# inside\n--> # inside", "<!-- a -->",
        "<pre>\n# inside\n</pre>", "<script>\nx\n===\n</SCRIPT>",
        "  <style media=a>\n# a\n</style>",
        "<textarea>\n\n```\n# inside\n</textarea>",
    ],
)  # fmt: skip
def test_comments_and_code_of_html_have_no_headings(block):
    found = [each.name for each in headings(f"# before\n\n{block}\n# after\n\n    <!--\n# last")]
    assert found == ["before", "after", "last"]
    assert [each.name for each in headings("```\n<!--\n```\n# after")] == ["after"]


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("````\n```\n# inside\n```\n````\n# after", ["after"]),
        ("```\n# inside\n`````\n# after", ["after"]),
        ("~~~\n```\n# inside\n~~~\n# after", ["after"]),
        ("```\n``` sh\n# inside\n```  \n# after", ["after"]),
        ("```code``` in a line\n# after", ["after"]),
        ("~~~ a`b\n# inside\n~~~\n# after", ["after"]),
    ],
)
def test_code_ends_at_a_fence_that_is_at_least_as_long(content, names):
    assert [heading.name for heading in headings(content)] == names


@pytest.mark.parametrize(
    ("content", "text", "said"),
    [
        ("Grüße aus Köln".encode("latin-1"), "Grüße aus Köln", "Windows-1252"),
        ("“naïve” – it’s £5".encode("cp1252"), "“naïve” – it’s £5", "Windows-1252"),
        ("Ğ".encode("cp1254") + b"\xfeu", "Ğşu", "Windows-1254"),
        ("Привет, мир. Обычный текст.".encode("cp1251"), None, "Windows-1251"),
        ("Привет, мир. Это обычный русский текст о погоде.".encode("koi8-r"), None, "KOI8-R"),
        ("שלום עולם".encode("cp1255"), "שלום עולם", "Windows-1255"),
        ("<b>ירושלים</b> 2026".encode("cp1255"), None, "Windows-1255"),
        ("id,text\n1,ספרים\n2,לחם\n".encode("cp1255"), None, "Windows-1255"),
        ("Столица мира".encode("cp1251"), "Столица мира", "Windows-1251"),
        ("Библиотека открыта".encode("cp1251"), None, "Windows-1251"),
        ("id,text\n1,книги\n2,города\n".encode("cp1251") * 9, None, "Windows-1251"),
        ("בְּרֵאשִׁית בָּרָא אֱלֹהִים".encode("cp1255"), "בְּרֵאשִׁית בָּרָא אֱלֹהִים", "Windows-1255"),
        ("Příliš žluťoučký kůň".encode("cp1250"), "Příliš žluťoučký kůň", "Windows-1250"),
        ("これは日本語の文章です。天気がいいですね。".encode("shift_jis"), None, "SHIFT-JIS"),
        ("Plain text.".encode("utf-16"), "Plain text.", "UTF-16"),
        ("Plain text.".encode("utf-16-le"), "Plain text.", "UTF-16-LE"),
        ("Grüße aus München".encode("utf-16-be"), "Grüße aus München", "UTF-16-BE"),
        ("Plain".encode("utf-32"), "Plain", "UTF-32"),
        ("Дом city у реки".encode("utf-16-le"), "Дом city у реки", "UTF-16-LE"),
        ("Дом".encode("utf-16-be"), "Дом", "UTF-16-BE"),
        ("id,text\n1,книга\n".encode("utf-16-le"), None, "UTF-16-LE"),
        ("كتاب جديد".encode("utf-16-le"), "كتاب جديد", "UTF-16-LE"),
        ("كتاب".encode("utf-16-be"), "كتاب", "UTF-16-BE"),
        ("नई किताब".encode("utf-16-le"), "नई किताब", "UTF-16-LE"),
        ("नई किताब".encode("utf-16-be"), "नई किताब", "UTF-16-BE"),
        ("หนังสือใหม่".encode("utf-16-le"), "หนังสือใหม่", "UTF-16-LE"),
        ("หนังสือใหม่".encode("utf-16-be"), "หนังสือใหม่", "UTF-16-BE"),
        (
            "Miško takas veda prie ežero, kur gyvena ančių šeima.".encode("cp1257"),
            None,
            "Windows-1257",
        ),
        ("Þ og ð eru í orðum, en þar er líka æ.".encode("cp1252"), None, "Windows-1252"),
        ("şu ağaç ve şûra kûfî".encode("cp1254"), None, "Windows-1254"),
        ("O şosea şerpuieşte şi duce la ţărm, în vale.".encode("cp1250"), None, "Windows-1250"),
        ("El 1ºpiso, la Mª José y 2ªplanta está a 25 ºC.".encode("cp1252"), None, "Windows-1252"),
        ("هذا كتاب عن تاريخ المدينة القديمة".encode("iso8859-6"), None, "ISO-8859-6"),
        ("新しい本です。".encode("iso-2022-jp"), "新しい本です。", "ISO-2022-JP"),
        (b"a" * 100_000 + " größer".encode("latin-1"), "a" * 100_000 + " größer", "Windows-1252"),
        ("\ufeffGrüße".encode(), "Grüße", ""),
    ],
)
def test_the_encoding_is_recognised(content, text, said):
    found, encoding = decoded(content)
    assert encoding == said
    assert text is None or found == text


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        ("cp1252", "Der Prüfer – “naïve” Fälle, Ärger über Größe"),
        ("cp1252", "Això és la col·lecció de l'última sessió"),
        ("iso8859_15", "prix : 5 €, cœur et sœur, ŒUVRE"),
        ("cp1250", "A könyvtárban sok új könyv van, őszintén várunk mindenkit"),
        ("cp1250", "Včeraj smo šli na dolg sprehod čez hribe"),
        ("iso8859_2", "W bibliotece jest wiele nowych książek, zapraszamy wszystkich"),
        ("iso8859_2", "V knihovně je mnoho nových knih, všichni jsou vítáni"),
        ("cp1254", "Bütün insanlar hür doğar. İstanbul güzel bir şehir, ışık söndü."),
        ("cp1257", "Visi cilvēki piedzimst brīvi, ar saprātu un sirdsapziņu šeit"),
        ("cp1257", "Bibliotekoje yra daug naujų knygų, kviečiame visus"),
        ("cp850", "El niño comió mañana; ¿dónde está?"),
        ("cp850", "Größere Schäden an der Brücke über den Fluss"),
        ("cp852", "W bibliotece jest wiele nowych książek, zapraszamy wszystkich"),
        ("mac_roman", "Le café était fermé, la façade n'était pas prête"),
        ("mac_latin2", "V knihovně je mnoho nových knih, všichni jsou vítáni"),
        ("koi8_r", "привет мир, это текст без прописных букв"),
        ("koi8_u", "Україна має талант: діти співають, їжа смачна, ґанок високий"),
        ("cp866", "Библиотека открыта каждый день"),
        ("iso8859_5", "Вчера вечером мы пошли в кино"),
        ("mac_cyrillic", "Вчера вечером мы пошли в кино на новый фильм"),
        ("cp1251", "ПРИВЕТ МИР, ЭТО ТЕКСТ ПРОПИСНЫМИ БУКВАМИ"),
        ("cp1251", "усе людзі нараджаюцца свабоднымі і роўнымі"),
        ("cp1253", "Στη βιβλιοθήκη υπάρχουν πολλά νέα βιβλία"),
        ("iso8859_7", "Άνθρωποι, στη βιβλιοθήκη υπάρχουν νέα βιβλία"),
        ("cp1256", "في المكتبة كتب جديدة كثيرة"),
        ("iso8859_6", "في المكتبة كتب جديدة كثيرة"),
        ("cp874", "ห้องสมุดมีหนังสือใหม่มากมาย ยินดีต้อนรับทุกคน"),
        ("euc_kr", "안녕하세요. 이것은 한국어 문장입니다."),
        ("big5", "圖書館裡有很多新書，歡迎大家來借閱。"),
        ("gb18030", "图书馆里有很多新书，欢迎大家来借阅。"),
        ("utf_16_le", "你好，世界。这是一个没有标记的文件。\n第二行也是中文。"),
        ("utf_16_be", "日本語の文章です。カタカナも漢字もあります。"),
        ("utf_16_le", "안녕하세요. 이것은 한국어 문장입니다."),
        ("utf_16_be", "Python 是一种编程语言，由 Guido van Rossum 创建。"),
    ],
)  # fmt: skip
def test_a_sentence_is_read_in_the_encoding_of_its_language(codec, text):
    assert decoded(text.encode(codec))[0] == text


@pytest.mark.parametrize(
    "content",
    [
        b"\x89PNG\r\n\x1a\n", bytes(1000), b"\x7fELF\2\1\1" + bytes(50), b"\xff\xfea",
        "ä\nbö".encode() + b"\xff", "ä".encode() + b"a" * 100_000 + b"\xe9",
        b"a" * 1_000 + b"\0", b"\1\2plain", "a\0".encode("utf-16"), "새 책".encode("iso-2022-kr"),
        "a book".encode("utf-32-le"), b"x=foo\0bar", b'print("\0")', b"import\1this",
    ],
)  # fmt: skip
def test_what_is_no_text_is_refused(content):
    with pytest.raises(LineError):
        decoded(content)


def test_a_few_control_characters_are_said(tmp_path):
    for name, content in {"a.txt": "long " * 20 + "\x08", "b.txt": "\x1b[31mred\x1b[0m"}.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "a.csv").write_text("id,text\n1,a\x02b\n2,\x03\n")
    skipped = SkippedLines()
    assert len([*read_documents(sorted(tmp_path.iterdir()), skipped=skipped)]) == 4
    assert skipped.notes == [
        "a.csv has control characters, such as U+0002",
        "a.txt has control characters, such as U+0008",
    ]


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be"])
def test_lines_in_utf_16_are_refused_by_name(codec, tmp_path):
    for name, content in {"a.jsonl": '{"id": "1", "text": "дом"}\n', "b.tsv": "1\tдом\n"}.items():
        (tmp_path / name).write_bytes(content.encode(codec))
        with pytest.raises(CollectionError, match="UTF-16: save it as UTF-8"):
            list(read_documents(tmp_path / name, skipped=SkippedLines()))


@given(st.binary(max_size=200) | st.text().map(lambda text: text.encode("utf-16-le")))
def test_any_bytes_are_a_text_or_refused(content):
    with suppress(LineError):
        text, _ = decoded(content)
        text.encode()


@pytest.fixture
def folder(tmp_path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, content in {
        "a.txt": b"Fine.",
        "b.txt": b"",
        "c.txt": "Grüße".encode("latin-1"),
        "d.md": "# Wide".encode("utf-16-le"),
        "e.md": b"\x89PNG\r\n\x1a\n" + bytes(9),
    }.items():
        (folder / name).write_bytes(content)
    return folder


def test_one_odd_file_does_not_stop_a_folder(folder, caplog):
    skipped = SkippedLines(lines=False)
    for sources in (folder, sorted(folder.iterdir()), folder / "*"):
        skipped = SkippedLines(lines=False)
        found = [each.text for each in read_documents(sources, skipped=skipped)]
        assert found == ["Fine.", "Grüße", "# Wide"]
        assert [message.split("/")[-1] for message in skipped.messages] == [
            "b.txt: the file is empty", "e.md: it has NUL characters: it is no text",
        ]  # fmt: skip
        assert skipped.notes == ["c.txt is read as Windows-1252", "d.md is read as UTF-16-LE"]
    with caplog.at_level(logging.WARNING):
        assert len([*read_documents(folder)]) == 3
    assert [message.split(": ")[0] for message in caplog.messages] == [
        "c.txt is read as Windows-1252", "d.md is read as UTF-16-LE", "left out", "left out",
    ]  # fmt: skip
    with pytest.raises(CollectionError, match=r"b\.txt: the file is empty$"):
        list(read_documents(folder, skipped=SkippedLines(files=False)))
    with pytest.raises(CollectionError, match=r"b\.txt: the file is empty$"):
        list(read_documents(folder / "b.txt", skipped=SkippedLines()))
    for name in ("a.txt", "c.txt", "d.md"):
        (folder / name).unlink()
    with pytest.raises(CollectionError, match=r"no valid document \(.*b\.txt: the file is empty$"):
        list(read_documents(folder))


def test_the_command_names_what_it_leaves_out_or_stops(folder, tmp_path):
    out = "--out", tmp_path / "index", "--dense-only"
    done = swiftlet("index", folder, *out)
    said = " ".join(done.stderr.split())
    assert "3 documents" in done.stdout
    assert "Note: c.txt is read as Windows-1252" in said
    assert "2 files left out:" in said
    assert "b.txt: the file is empty" in said
    other = "--out", tmp_path / "other"
    assert "b.txt: the file is empty" in refusal(swiftlet("index", folder, "--strict", *other))
    both = swiftlet("index", folder, *other, "--strict", "--skip-bad-lines")
    assert "choose one" in both.stderr
    (tmp_path / "a.jsonl").write_text("{}\n")
    assert "there is no document id" in refusal(swiftlet("index", tmp_path / "a.jsonl", *other))


@pytest.mark.parametrize(
    "piece", [" ", "# ", "#", "---\n", "```\n", "`", "a\n---\n", "# a\n", "[", "title: ", "\r", "'"]
)
@pytest.mark.parametrize("start", ["# a", "---\n"])
def test_the_time_grows_with_the_text(start, piece, tmp_path):
    def read(count: int) -> None:
        [*markdown_parts(tmp_path / "a.md", f"{start}{piece * count}x\n---\n".encode(), print)]

    assert grows_evenly(read, 20_000)


@pytest.mark.parametrize("piece", ["{", "[", "{a: ", "- ", "? ", "&a ", "!", "a: b\n"])
def test_the_time_grows_with_the_front_matter(piece, tmp_path):
    def read(count: int) -> None:
        content = f"---\n{piece * (count // len(piece))}\n---\nx".encode()
        [*markdown_parts(tmp_path / "a.md", content, print)]

    assert grows_evenly(read, 4_000)


def test_the_parts_below_a_long_heading_have_its_beginning(tmp_path):
    text = f"# {'h' * 1_000_000}\n" + f"## a\n{'word ' * 50}\n" * 2_000
    (part,) = markdown_parts(tmp_path / "a.md", f"---\ntitle: t\n---\n{text}".encode(), print)
    assert len(part.sections) == 2_001
    assert part.sections[-1].heading == f"{'h' * 1_000} > a"
