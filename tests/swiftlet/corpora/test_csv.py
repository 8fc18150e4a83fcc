"""CSV in the forms that other programs write, and with what is wrong with it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from swiftlet.corpora import csv_rows
from swiftlet.corpora.collections import read_documents
from swiftlet.corpora.fields import Fields
from swiftlet.corpora.lines import SkippedLines
from swiftlet.types import Document


def read(
    folder: Path, content: str | bytes, name: str = "rows.csv", **options: object
) -> tuple[list[Document], SkippedLines]:
    path, skipped = folder / name, SkippedLines()
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(read_documents(path, skipped=skipped, **options)), skipped


@pytest.mark.parametrize(
    "content",
    [
        '"id"\t"text"\n"1"\t"a ""b"""\n', "'id'\t'text'\n'1'\t'a \"b\"'\n",
        'id\ttext\n1\ta "b"\n'.encode("utf-16"), 'id\ttext\n1\ta "b"\n'.encode("utf-16-be"),
        '\ufeffid\ttext\r\n1\ta "b"\r\n', ' id \t text\n1\ta "b"\n', 'n\ttext\tid\n\ta "b"\t1',
    ],
)  # fmt: skip
def test_a_head_of_tabs_is_recognised(content, tmp_path):
    (found,), _ = read(tmp_path, content, "rows.tsv")
    assert (found.document_id, found.text) == ("1", 'a "b"')


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("id,text,\n1,a,\n2,b,\n", ["a", "b"]),  # a comma at the end of each line
        ("id,text\r1,a\r2,b\r", ["a", "b"]),
        ('id,text\n1,"a"\n2,"b', ["a"]),
        ("id,text\n1,a\x1a\n\n\n2,b", ["a\x1a", "b"]),
        (" id ,text , n \n1,a,5\n", ["a"]),
        ("text\na\na\n", ["a", "a"]),
    ],
)
def test_files_of_other_programs_are_read(content, texts, tmp_path):
    found, _ = read(tmp_path, content)
    assert [each.text for each in found] == texts
    assert {name for each in found for name in each.metadata} <= {"n"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("id;text;year\n1;a, b;5\n2;c, d;6\n", "with semicolons between the columns"),
        ("id\ttext\tyear\n1\ta, b\t5\n2\tc, d\t6\n", "with tabs between the columns"),
        ("id|text|year\r\n1|a, b|5\r\n2|c, d|6\r\n", "with vertical lines between the columns"),
        ('id;text;year\n1;"a, b";5\n2;"c, d";6\n', "with semicolons between the columns"),
        ("id,text,year\n1,'a, b',5\n2,'c, d',6\n", "with apostrophes for quotes"),
        ("id,year,text\r1,5,'a, b'\r2,6,'c, d'\r", "with apostrophes for quotes"),
        (
            "id;text;year\n1;'a, b';5\n2;'c, d';6\n",
            "with semicolons between the columns and with apostrophes for quotes",
        ),
        ('id,text,year\r1,"a, b",5\r2,"c, d",6\r', ""),
        (
            "sep=;\r\nid;text;year\r\n1;a, b;5\r\n2;c, d;6\r\n",
            "with semicolons between the columns",
        ),
        ('id, text, year\n1, "a, b", 5\n2, "c, d", 6\n', ""),
        ('\ufeffid,text,year\n1,"a, b",5\n2,"c, d",6\n', ""),
    ],
)
def test_delimiters_and_quotes_are_recognised_and_said(content, said, tmp_path):
    found, skipped = read(tmp_path, content)
    assert found == [
        Document("1", "a, b", metadata={"year": 5}),
        Document("2", "c, d", metadata={"year": 6}),
    ]
    assert skipped.notes == ([f"rows.csv is read {said}"] if said else [])


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ('id,text\n1,"say \\"hi\\", ok"\n2,"a\\\\b"\n', ['say "hi", ok', "a\\b"]),
        ('id,text\n1,"say ""hi"", ok"\n2,C:\\new\n', ['say "hi", ok', "C:\\new"]),
        ("id,text\n1,it's\n2,'tis fine'\n", ["it's", "'tis fine'"]),
        ("'id','text'\n'1','it\\'s, yes'\n'2','it''s'\n", ["it's, yes", "it's"]),
        ("id,text\n1,a;b;c\n2,d;e;f\n", ["a;b;c", "d;e;f"]),
        ('id,text\n1,5 inches"\n2,"b"\n', ['5 inches"', "b"]),
    ],
)
def test_cells_keep_their_quotes_and_signs(content, texts, tmp_path):
    found, _ = read(tmp_path, content)
    assert [each.text for each in found] == texts


@pytest.mark.parametrize("number", ["inf", "-inf", "Infinity", "+inf", "1e999", "-1E+400"])
def test_a_number_that_is_not_finite_is_a_text(number, tmp_path):
    (tmp_path / "first.csv").write_text(f"id,text,v\n1,t,{number}\n2,t,1.5\n")
    many = "".join(f"{row},t,{row}.5\n" for row in range(1_001))
    (tmp_path / "late.csv").write_text(f"id,text,v\n{many}last,t,{number}\n")
    first, *_ = read_documents(tmp_path / "first.csv")
    *_, before, last = read_documents(tmp_path / "late.csv")
    assert (first.metadata, last.metadata) == ({"v": number}, {"v": number})
    assert before.metadata == {"v": 1000.5}


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("latin-1", "Windows-1252"), ("cp1252", "Windows-1252"), ("utf-16", "UTF-16"),
        ("utf-16-le", "UTF-16-LE"), ("utf-16-be", "UTF-16-BE"), ("utf-32", "UTF-32"),
    ],
)  # fmt: skip
def test_a_head_in_another_encoding_is_read_and_said(encoding, said, tmp_path):
    found, skipped = read(tmp_path, "id,text,Größe\na,schön,5\n".encode(encoding))
    assert found == [Document("a", "schön", metadata={"Größe": 5})]
    assert skipped.notes == [f"rows.csv is read as {said}"]


@pytest.mark.parametrize(
    ("last", "text", "said"),
    [
        ("schön".encode("latin-1"), "schön", ["rows.csv is read as Windows-1252"]),
        ("schön".encode(), "schön", []),
        ("新しい本".encode("iso-2022-jp"), "新しい本", ["rows.csv is read as ISO-2022-JP"]),
        (b"\x81\xff\xfe" * 9, None, []),
        (b"\xff" + b"\0" * 90_000, None, []),
    ],
)
def test_the_encoding_is_recognised_wherever_it_shows(last, text, said, tmp_path):
    rows = b"".join(b"%d,plain words\n" % number for number in range(9_000))
    found, skipped = read(tmp_path, b"id,text\n" + rows + b"last," + last)
    assert len(found) == 9_000 + (text is not None)
    assert text is None or found[-1].text == text
    assert skipped.count == (text is None)
    assert skipped.notes == said


@pytest.mark.parametrize("number", ["9" * 5_000, "1e999", "9" * 400 + ".5", "-1e-999999999999"])
def test_a_number_that_no_type_has_is_a_text(number, tmp_path):
    ((found,), _) = read(tmp_path, f"id,text,n\na,hello,{number}\n")
    assert found.metadata["n"] in {number, 0.0}


def test_nan_in_a_column_of_numbers_is_a_missing_value(tmp_path):
    rows = "1,t,NaN,nan,true,nan\n2,t,2.5,3,nan,bread\n3,t,,7,FALSE,5\n4,t,nan,NaN,,\n"
    found, skipped = read(tmp_path, f"id,text,a,b,c,d\n{rows}")
    assert [each.metadata for each in found] == [
        {"c": True, "d": "nan"}, {"a": 2.5, "b": 3, "d": "bread"},
        {"b": 7, "c": False, "d": "5"}, {},
    ]  # fmt: skip
    assert skipped.count == 0


def test_a_row_of_several_lines_has_a_bound(tmp_path):
    line = f"{'x' * 9_999}\n"
    found, skipped = read(tmp_path, f'id,text\n1,"open\n{line * 1_000}2,fine\n')
    assert [each.document_id for each in found] == ["2"]
    assert skipped.count == 1_001
    assert "a quote is not closed within 8,388,608 characters" in skipped.messages[0]
    found, skipped = read(tmp_path, f'id,text\n1,"closed\n{line * 800}"\n2,fine\n')
    assert [each.document_id for each in found] == ["1", "2"]


def test_integers_beyond_all_floats_stay_exact(tmp_path):
    ids = [2**53 + 1, 2**63 - 1, -(2**64) - 1, 10**30 + 1]
    rows = "".join(f"{place},t,{each}\n" for place, each in enumerate([*ids, 0.5]))
    found, _ = read(tmp_path, f"id,text,user\n{rows}")
    assert [each.metadata["user"] for each in found] == [*ids, 0.5]


def test_rows_without_ids_have_ids_that_stay(tmp_path):
    found, skipped = read(tmp_path, "title,text\nA,one\nB,two\nA,one\n")
    first, second, again = (each.document_id for each in found)
    assert again == f"{first}-2"
    assert (
        "no column with ids (_id, id, document_id), so the id of a row is a hash"
        in (skipped.notes[0])
    )
    later, _ = read(tmp_path, "title,text\nnew,new\nB,two\nA,one\n")
    assert [each.document_id for each in later[1:]] == [second, first]
    named, skipped = read(tmp_path, "key,text\n5,one\n", fields=Fields(id="key"))
    assert (named[0].document_id, skipped.notes) == ("5", [])


@pytest.mark.parametrize(
    ("content", "ids", "count"),
    [
        ('id,text\n1,"open\n2,two\n3,three\n', ["2", "3"], 1),
        ('id,text\n1,"open\n2,two\n3,"three"\n', ["2", "3"], 1),
        ('id,text\n1,"open\n2,"open\n3,"open\n4,four\n', ["4"], 3),
        ('id,text\n0,"a\nb"\n1,"open\n2,"two, ""2"""\n', ["0", "2"], 1),
        ('id,text\n1,"a"b\n2,two\n', ["2"], 1),
        ('id,text\n1,"a\nb\nc",x\n2,two\n', ["2"], 3),
        ('id,text\r\n1,"open\r\n2,two\r\n', ["2"], 1),
        ('id,text\r1,"open\r2,two\r', ["2"], 1),
    ],
)
def test_after_a_quote_that_is_not_closed_rows_begin_again(content, ids, count, tmp_path):
    found, skipped = read(tmp_path, content)
    assert [each.document_id for each in found] == ids
    assert skipped.count == count


LINES = st.lists(
    st.text("a\",;'\\\x00\x85 é", max_size=6) | st.sampled_from(['a","', '"', 'x,"y', '","']),
    max_size=12,
)


@given(LINES, st.sampled_from(["\n", "\r\n", "\r"]))
@example(['a","'] * 5, "\n")
@example(["\x00", "\x00"], "\n")
def test_no_line_is_lost_without_a_count(tmp_path_factory, lines, end):
    rows = [f"{number},{line}" for number, line in enumerate(lines)]
    content = end.join(["id,text", *rows, "last,fine"]) + end
    found, skipped = read(tmp_path_factory.mktemp("rows"), content)
    read_lines = sum(1 + each.text.count(end) for each in found)
    assert read_lines + skipped.count >= len(rows) + 1
    assert found[-1].document_id == "last" or "last,fine" in found[-1].text


def test_lines_are_parsed_a_few_times_at_most(monkeypatch):
    steps = 0
    parse = csv_rows.csv.reader

    def counting(lines: Iterator[str], **options: Any) -> Iterator[list[str]]:
        class Counted:
            def __iter__(self) -> "Counted":
                return self

            def __next__(self) -> str:
                nonlocal steps
                steps += 1
                return next(lines)

        return parse(Counted(), **options)

    monkeypatch.setattr(csv_rows.csv, "reader", counting)
    for lines in (['a","\n'] * 2_000, ['"open\n'] * 2_000, ['x,"a\n', 'y,""\n'] * 1_000):
        steps = 0
        rows = list(csv_rows.parsed_rows(iter(lines), csv_rows.Dialect(",")))
        assert len(rows) >= 2_000
        assert steps < 4 * 2_000
