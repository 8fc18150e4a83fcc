"""Corpora and queries in every supported format, valid and bad."""

import gzip
import json
import os
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swiftlet.corpora.collections import corpus_files, read_documents, read_queries, unread_files
from swiftlet.corpora.lines import LONGEST_BYTES, SkippedLines
from swiftlet.corpora.rows import documents_of
from swiftlet.errors import CollectionError
from swiftlet.types import Document, Query

GOOD = '{"_id": "good", "text": "fine"}'

Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def write(tmp_path) -> Write:
    """Writes a file, gzipped if its name ends in .gz, and returns its path."""

    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write_file


def refusal(read: Callable[[], object]) -> CollectionError:
    def read_all() -> None:
        result = read()
        if isinstance(result, Iterator):
            list(result)

    with pytest.raises(CollectionError) as caught:
        read_all()
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.check
@pytest.mark.parametrize("name", ["lines.jsonl", "text.txt"])
def test_a_line_or_a_text_of_too_many_bytes_is_refused(tmp_path, name):
    (tmp_path / name).touch()
    os.truncate(tmp_path / name, LONGEST_BYTES + 1)
    error = refusal(lambda: read_documents(tmp_path / name))
    assert "longer than 268,435,456 bytes" in str(error)


@pytest.mark.parametrize(
    ("record", "document"),
    [
        ({"_id": "a", "text": "t"}, Document("a", "t")),
        ({"id": "a", "text": "t", "title": None}, Document("a", "t")),
        ({"document_id": "a", "text": "t", "title": " "}, Document("a", "t")),
        ({"_id": 7, "text": "t"}, Document("7", "t")),
        ({"_id": "a b", "text": "", "title": "only"}, Document("a b", "", "only")),
        ({"_id": "a", "text": "x\0y\ny"}, Document("a", "x\0y\ny")),
        (
            {"_id": "a", "id": 7, "text": "t", "year": 1, "metadata": {"year": 2, "by": ["x"]}},
            Document("a", "t", metadata={"id": 7, "year": 2, "by": ["x"]}),
        ),
    ],
)
def test_a_json_record_is_a_document(write, record, document):
    assert list(read_documents(write("c.jsonl", json.dumps(record)))) == [document]


@pytest.mark.parametrize("name", ["c.jsonl", "c.ndjson", "C.JSONL", "c.jsonl.gz"])
def test_byte_order_mark_crlf_and_blank_lines_are_accepted(write, name):
    lines = '\ufeff{"_id": "1", "text": "é"}\r\n\r\n  \n{"_id": "2", "text": "a\u2028b"}'
    documents = list(read_documents(write(name, lines)))
    assert documents == [Document("1", "é"), Document("2", "a\u2028b")]


@pytest.mark.parametrize("name", ["collection.tsv", "collection.tsv.gz"])
def test_ms_marco_files_are_read_with_two_or_four_columns(write, name):
    passages = write(name, "1\tone\n2\ttwo \n")
    assert list(read_documents(passages)) == [Document("1", "one"), Document("2", "two ")]
    whole = write(name, "D1\thttp://x\tTitle\tBody\n")
    assert list(read_documents(whole)) == [Document("D1", "Body", "Title", {"url": "http://x"})]


def test_a_beir_folder_is_read_gzipped_or_not(write, tmp_path):
    write("beir/corpus.jsonl.gz", GOOD)
    write("beir/queries.jsonl", '{"_id": "q", "text": "why", "metadata": {}}')
    write("beir/notes.txt", "no document")
    assert [found.document_id for found in read_documents(tmp_path / "beir")] == ["good"]
    assert read_queries(tmp_path / "beir") == [Query("q", "why")]


def test_a_folder_of_text_files_is_read_in_order_without_hidden_files(write, tmp_path):
    write("notes/b.txt", "# no heading in text\r\nend")
    write("notes/a/z.md", "intro\n\n## The *title* ##\n# later")
    write("notes/a.rst", "=====\nTitle\n=====\n")
    write("notes/c.markdown", "```sh\n# a comment\n```\nReal title\n==\n")
    write("notes/d.md", "\ufeffwithout heading")
    for ignored in (".hidden.md", ".git/x.md", "picture.png", "a/.z.md.swp"):
        write(f"notes/{ignored}", b"\xff")
    (tmp_path / "notes/loop").symlink_to(tmp_path / "notes")
    documents = list(read_documents(tmp_path / "notes"))
    assert [(found.document_id, found.title) for found in documents] == [
        ("a/z.md", "The *title*"),
        ("a.rst", "Title"),
        ("b.txt", "b"),
        ("c.markdown", "Real title"),
        ("d.md", "d"),
    ]
    assert documents[2].text == "# no heading in text\nend"
    assert documents[4].text == "without heading"


def test_one_text_file_is_a_corpus_of_one_document(write):
    (found,) = read_documents(write("guide.txt", "Hello"))
    assert replace(found, metadata={}) == Document("guide.txt", "Hello", "guide")


@pytest.mark.parametrize(
    ("name", "content", "queries"),
    [
        ("q.jsonl", '{"query_id": "1", "text": "x", "answer": 4}', [Query("1", "x")]),
        ("q.tsv", "1\tone\n2\ttwo\n", [Query("1", "one"), Query("2", "two")]),
        ("q.tsv.gz", "1\tone", [Query("1", "one")]),
        ("q.txt", "first\n\nsecond\r\n", [Query("1", "first"), Query("3", "second")]),
    ],
)
def test_queries_are_read(write, name, content, queries):
    assert read_queries(write(name, content)) == queries


def test_metadata_are_refused_beyond_their_length(write):
    record = {"_id": "x", "text": "t", "page": "<p>" * 500_000, "year": 2020}
    expected = (
        "the metadata have 1,500,006 characters as JSON, 1,500,002 of them in 'page'; at most "
        "1,048,576 are expected"
    )
    for corpus in (write("c.jsonl", json.dumps(record)), [record]):
        with pytest.raises(CollectionError, match=expected):
            list(documents_of(corpus))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"_id": "x", "text": "t"', "not valid JSON: Expecting ',' delimiter at column 25"),
        ('["x"]', "the record is an array, not a JSON object"),
        ("null", "the record is null, not a JSON object"),
        ('{"text": "t"}', "there is no document id: none of the fields _id, id, document_id"),
        ('{"_id": "", "text": "t"}', "the document id is empty"),
        ('{"_id": 7.5, "text": "t"}', "the document id 7.5 is not a string"),
        ('{"_id": true, "text": "t"}', "the document id true is not a string"),
        ('{"_id": "..", "text": "t"}', r"'..' is a step in a path: no URL can contain it"),
        ('{"_id": "a\\tb", "text": "t"}', r"'a\tb' holds the forbidden character U+0009"),
        ('{"_id": "\\ud800", "text": "t"}', "holds half of a surrogate pair"),
        ('{"_id": "x", "body": "t"}', "there is no \"text\"; besides the id there are ['body']"),
        ('{"_id": "x", "text": 7}', '"text" is a number, not a string'),
        ('{"_id": "x", "text": "t", "title": []}', '"title" is an array, not a string'),
        ('{"_id": "x", "text": " ", "title": ""}', "'x' has neither text nor title"),
        ('{"_id": "x", "text": "a\\uDFFFb"}', "'text' holds half of a surrogate pair"),
        ('{"_id": "x", "text": "t", "n": {"k": "\\uD83D"}}', "'n' holds half of a surrogate pair"),
        ('{"_id": "x", "text": "t", "metadata": "m"}', '"metadata" is a string, not an object'),
        ('{"_id": "x", "text": "t", "n": NaN}', "not valid JSON: NaN is not a JSON number"),
        ('{"_id": "x", "text": "t", "n": 1e999}', "the number '1e999' is too large"),
        ('{"_id": "x", "text": "t", "n": ' + "9" * 5000 + "}", "an integer has more than 4,300 d"),
        ('{"_id": "x", "text": "t", "n": ' + "[" * 80 + "]" * 80 + "}", "more than 64 levels deep"),
        ("[" * 200_000, "nested more than 64 levels deep"),
        ('{"_id": "good", "text": "again"}', "the document id 'good' came before"),
        ('{"_id": "' + "x" * 10**6 + '", "text": "t"}', "1,000,000 characters; at most 2,048"),
    ],
)
def test_a_bad_json_line_is_named_or_skipped(write, line, problem):
    path = write("c.jsonl", f'{GOOD}\n\n{line}\n{{"_id": "last", "text": "t"}}')
    error = refusal(lambda: read_documents(path))
    assert (error.path, error.line_number) == (path, 3)
    assert problem in str(error)
    assert len(error.problem) < 250
    skipped = SkippedLines()
    documents = [found.document_id for found in read_documents(path, skipped=skipped)]
    assert documents == ["good", "last"]
    assert (skipped.count, skipped.messages) == (1, [str(error)])


def test_invalid_utf8_is_named_by_line_and_byte(write):
    path = write("c.jsonl", GOOD.encode() + b'\n{"_id": "\xe9"}\n')
    error = refusal(lambda: read_documents(path))
    assert str(error) == f"{path}, line 2: not valid UTF-8: byte 10 is 0xe9"
    text = write("folder/a.txt", "ä\nbö".encode() + b"\xff")
    error = refusal(lambda: read_documents(text))
    assert str(error) == f"{text}: line 2: not valid UTF-8: byte 4 is 0xff"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("1\ta\n2\tb\tc\n", "line 2: 3 columns where 2 are expected"),
        ("1\ta\n2\tu\tt\tb\n", "line 2: 4 columns where 2 are expected"),
        ("1\tu\tt\tb\n2\tb\n", "line 2: 2 columns where 4 are expected"),
        ("text\n", "line 1: 1 column where 2 or 4 are expected"),
        ("1\t\n", "line 1: the document '1' has neither text nor title"),
        ("\ta\n", "line 1: the document id is empty"),
        ("1\ta\n1\tb\n", "line 2: the document id '1' came before"),
    ],
)
def test_a_bad_line_of_columns_is_named(write, content, problem):
    path = write("c.tsv", content)
    assert str(refusal(lambda: read_documents(path))) == f"{path}, {problem}"


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("q.tsv", "1\ta\n1\tb", "line 2: the query id '1' came before"),
        ("q.tsv", "1\ta\tb", "line 1: 3 columns where 2 are expected"),
        ("q.jsonl", '{"_id": "1", "text": " "}', "line 1: the query '1' has no text"),
        ("q.jsonl", '{"document_id": "1", "text": "t"}', "line 1: there is no query id"),
        ("q.txt", "ok\na\0b", "line 2: the query '2' holds a NUL character"),
        ("q.txt", "\u00a0", "line 1: the query '1' has no text"),
    ],
)
def test_bad_queries_are_named(write, name, content, problem):
    path = write(name, content)
    assert f"{path}, {problem}" in str(refusal(lambda: read_queries(path)))


@pytest.mark.parametrize("read", [partial(read_documents, skipped=SkippedLines()), read_queries])
@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("missing.jsonl", None, "there is no such file or folder"),
        ("empty.jsonl", "", "the file is empty"),
        ("blank.tsv", "\n \r\n", "the file is empty"),
        ("empty.txt", "", "the file is empty"),
        ("table.xls", "1,2", "not recognised: it must be a BEIR folder, a folder of files"),
        ("records.odd", "[]", " (or these with .gz or .zst), "),
        ("book.txt.gz", "text", "not recognised"),
        ("noextension", "text", "not recognised"),
        ("x" * 300, None, "cannot be read: File name too long"),
    ],
)
def test_a_bad_file_is_refused(write, tmp_path, read, name, content, problem):
    path = tmp_path / name if content is None else write(name, content)
    assert problem in str(refusal(lambda: read(path)))


def test_a_path_that_is_no_corpus_is_refused_before_the_first_document(tmp_path):
    with pytest.raises(CollectionError):
        read_documents(tmp_path / "missing.jsonl")


@pytest.mark.parametrize("damage", [lambda data: data[:-12], lambda data: b"plain", lambda d: b""])
def test_a_damaged_gzip_file_is_refused(tmp_path, damage):
    path = tmp_path / "c.jsonl.gz"
    path.write_bytes(damage(gzip.compress(GOOD.encode() * 3)))
    assert str(refusal(lambda: read_documents(path))).startswith(str(path))


def test_folders_without_the_needed_files_are_refused(write, tmp_path):
    folder = write("folder/data.bin", b"\x00").parent
    assert "no valid document (.docx, .eml" in str(refusal(lambda: read_documents(folder)))
    assert "no queries.jsonl" in str(refusal(lambda: read_queries(folder)))
    queries_only = write("beir/queries.jsonl", GOOD).parent
    write("beir/SOURCE.txt", "where it is from")
    assert "has no corpus.jsonl" in str(refusal(lambda: read_documents(queries_only)))
    (tmp_path / "folder.jsonl").mkdir()
    assert "no valid document" in str(refusal(lambda: read_documents(tmp_path / "folder.jsonl")))


def test_an_unreadable_file_is_refused(tmp_path):
    path = tmp_path / "c.jsonl"
    path.symlink_to("/proc/self/mem")
    assert (
        str(refusal(lambda: read_documents(path))) == f"{path}: cannot be read: Input/output error"
    )


def test_bad_files_of_a_folder_can_be_skipped(write, tmp_path):
    write("folder/good.md", "fine")
    write("folder/blank.md", " \n")
    write("folder/binary.txt", b"\x89PNG\r\n\x1a\n")
    write("folder/tab\there.md", "fine")
    (tmp_path / os.fsdecode(b"folder/latin\xe9.md")).write_text("fine")
    (tmp_path / "folder/gone.md").symlink_to("nowhere")
    skipped = SkippedLines()
    found = list(read_documents(tmp_path / "folder", skipped=skipped))
    assert [document.document_id for document in found] == ["good.md"]
    assert skipped.count == 5
    assert all(message.encode() for message in skipped.messages)
    assert "skip-bad-lines" not in "".join(skipped.messages)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("c.jsonl", '{"_id": "a"}', ', line 1: there is no "text"'),
        ("c.jsonl", '{"_id": "a", "text": ""}', ", line 1: the document 'a' has neither text nor"),
        ("c.tsv", "a", ", line 1: 1 column where 2 or 4 are expected"),
    ],
)
def test_bad_documents_are_refused_with_the_way_to_leave_them_out(write, name, content, problem):
    path = write(f"folder/{name}", content)
    error = str(refusal(lambda: documents_of(path)))
    assert error.startswith(f"{path}{problem}")
    assert "; the option --skip-bad-lines (in Python skipped=" in error


def test_what_cannot_be_left_out_is_refused_without_that_way(tmp_path):
    assert "skip-bad-lines" not in str(refusal(lambda: documents_of(tmp_path / "absent")))


def test_links_that_lead_out_of_a_folder_and_pipes_are_bad_files(write, tmp_path):
    secret = write("secret.txt", "secret")
    inside = write("folder/inner/fine.md", "fine")
    (inside.parent / "out.txt").symlink_to(secret)
    (inside.parent / "far.txt").symlink_to("/etc/hostname")
    (inside.parent / "in.md").symlink_to("fine.md")
    (inside.parent / "same.md").hardlink_to(inside)
    write("folder/inner/.hidden", "seen by its links")
    for name in ("first.txt", "second.txt"):
        (inside.parent / name).symlink_to(".hidden")
    (inside.parent / "again").symlink_to("../inner")
    (inside.parent / "away").symlink_to("/etc")
    for name in ("loop.txt", "loop.odd"):
        (inside.parent / name).symlink_to(name)
    os.mkfifo(inside.parent / "pipe.txt")
    skipped = SkippedLines()
    found = read_documents(tmp_path / "folder", skipped=skipped)
    assert [document.document_id for document in found] == ["inner/fine.md", "inner/first.txt"]
    reasons = sorted(message.split(": ")[1] for message in skipped.messages)
    assert reasons == [
        "cannot be read", *["it is a link to a place outside the folder"] * 3,
        "it is no regular file",
    ]  # fmt: skip
    assert unread_files([tmp_path / "folder"]) == "1 file skipped: 1 .odd"


def test_an_id_is_bounded(write):
    def ids(length: int) -> list[str]:
        path = write("c.jsonl", f'{{"_id": "{"a" * length}", "text": "fine"}}')
        return [document.document_id for document in read_documents(path)]

    assert ids(2_048) == ["a" * 2_048]
    assert "has 2,049 characters; at most 2,048 are expected" in str(refusal(lambda: ids(2_049)))


def test_only_the_first_messages_of_skipped_lines_are_kept(write):
    path = write("c.jsonl", "{\n" * 1000 + GOOD)
    skipped = SkippedLines()
    assert len(list(read_documents(path, skipped=skipped))) == 1
    assert skipped.count == 1000
    assert [message.split(": ")[0] for message in skipped.messages] == [
        f"{path}, line {number}" for number in range(1, 21)
    ]


def test_a_corpus_of_bad_lines_only_is_refused_even_when_they_are_skipped(write):
    path = write("c.jsonl", "{\n{")
    error = refusal(lambda: read_documents(path, skipped=SkippedLines()))
    assert str(error) == f"{path}: there is no valid document"


def test_a_document_of_10_megabytes_is_read(write):
    text = "word " * 2_000_000
    path = write("c.jsonl", json.dumps({"_id": "big", "text": text}) + "\n" + GOOD)
    assert [len(found.text) for found in read_documents(path)] == [len(text), 4]


def test_memory_does_not_grow_with_the_corpus(write):
    path = write(
        "c.jsonl", "".join(f'{{"_id": "{n}", "text": "{"x" * 3000}"}}\n' for n in range(5000))
    )
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_documents(path)) == 5000
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < path.stat().st_size / 15


IDS = st.text(
    st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\ufeff"), min_size=1
).filter(lambda text: text.strip() not in ("", ".", ".."))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
METADATA = st.dictionaries(
    TEXTS, st.none() | st.booleans() | st.integers() | st.lists(TEXTS), max_size=3
)


@settings(max_examples=50)
@given(
    st.lists(
        st.builds(
            Document,
            IDS.filter(lambda text: text.strip() not in ("", ".", "..")),
            TEXTS,
            TEXTS.filter(str.strip),
            METADATA,
        ),
        min_size=1,
        max_size=5,
        unique_by=lambda document: document.document_id,
    ),
    st.booleans(),
)
def test_documents_written_as_json_lines_are_read_the_same(tmp_path_factory, documents, escaped):
    path = tmp_path_factory.mktemp("documents") / "c.jsonl"
    fields = [
        {"_id": d.document_id, "title": d.title, "text": d.text, "metadata": dict(d.metadata)}
        for d in documents
    ]
    lines = (json.dumps(record, ensure_ascii=escaped) + "\n" for record in fields)
    path.write_text("".join(lines), encoding="utf-8", newline="")
    assert list(read_documents(path)) == documents


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "documents", "queries"),
    [
        ("scifact", 5183, 1109),
        ("squad-dev-v1.1", 2067, 10570),
        ("boolq", 5481, 6515),
        ("medquad", 15809, 16407),
        ("qmsum", 232, 1576),
        ("covid-qa", 98, 1365),
    ],
)
def test_the_real_collections_are_read_whole(shared_data, name, documents, queries):
    skipped = SkippedLines()
    assert sum(1 for _ in read_documents(shared_data / name, skipped=skipped)) == documents
    assert len(read_queries(shared_data / name)) == queries
    assert skipped.count == 0


ROWS = [
    {"_id": "1", "title": "One", "text": "first", "year": 1999},
    {"_id": "2", "title": None, "text": "second", "year": None},
    {"_id": "3", "title": "", "text": "third", "year": 2001},
]
DOCUMENTS = [
    Document("1", "first", "One", {"year": 1999}),
    Document("2", "second"),
    Document("3", "third", metadata={"year": 2001}),
]


def write_arrow(path: Path, rows: list[dict[str, Any]], *, stream: bool = False) -> Path:
    table = pyarrow.Table.from_pylist(rows)
    kind = pyarrow.ipc.new_stream if stream else pyarrow.ipc.new_file
    with pyarrow.OSFile(str(path), "wb") as sink, kind(sink, table.schema) as writer:
        writer.write_table(table)
    return path


def write_table(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".arrow":
        return write_arrow(path, rows)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def write_saved_dataset(folder: Path, rows: list[dict[str, Any]]) -> Path:
    """As `save_to_disk` of Hugging Face's datasets writes it, in two parts."""
    folder.mkdir(parents=True)
    names = ["data-00000-of-00002.arrow", "data-00001-of-00002.arrow"]
    for name, part in zip(names, (rows[:1], rows[1:]), strict=True):
        write_arrow(folder / name, part, stream=True)
    state = {"_data_files": [{"filename": name} for name in names]}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text("{}")
    return folder


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ""])
def test_the_rows_of_a_table_are_documents(suffix, tmp_path):
    path = tmp_path / f"table{suffix}"
    path = write_table(path, ROWS) if suffix else write_saved_dataset(path, ROWS)
    assert list(read_documents(path)) == DOCUMENTS


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ""])
def test_bad_rows_of_a_table_are_named_and_skipped(suffix, tmp_path):
    rows = [*ROWS, {"_id": "1", "text": "again"}, {"_id": None, "text": "no id"}]
    path = tmp_path / f"table{suffix}"
    path = write_table(path, rows) if suffix else write_saved_dataset(path, rows)
    assert "row 4: the document id '1' came before" in str(refusal(lambda: read_documents(path)))
    skipped = SkippedLines()
    assert list(read_documents(path, skipped=skipped)) == DOCUMENTS
    assert skipped.count == 2


def test_tables_that_cannot_be_read_are_refused(write, tmp_path):
    for name in ("bad.parquet", "bad.arrow"):
        path = write(name, "no table")
        assert str(refusal(lambda path=path: read_documents(path))).startswith(f"{path}: cannot be")
    (tmp_path / "several").mkdir()
    (tmp_path / "several" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    said = str(refusal(lambda: read_documents(tmp_path / "several")))
    assert f"several splits: name one, such as {tmp_path / 'several' / 'train'}" in said
    table = write_table(tmp_path / "table.parquet", ROWS)
    assert "queries are read from .jsonl" in str(refusal(lambda: read_queries(table)))


def test_a_file_compressed_by_zstd_is_read(tmp_path):
    path = tmp_path / "corpus.jsonl.zst"
    with pyarrow.output_stream(str(path), compression="zstd") as file:
        file.write("\n".join(map(json.dumps, ROWS)).encode())
    assert [document.document_id for document in read_documents(path)] == ["1", "2", "3"]
    path.write_bytes(path.read_bytes()[:20])
    assert "cannot be read" in str(refusal(lambda: read_documents(path)))


def test_a_pattern_of_files_is_read_in_the_order_of_their_names(write, tmp_path, monkeypatch):
    write_table(tmp_path / "part-3.parquet", ROWS[2:])
    for number in (2, 1):
        filled = {name: value for name, value in ROWS[number - 1].items() if value is not None}
        write(f"part-{number}.jsonl.gz", json.dumps(filled))
    pattern = tmp_path / "part-*"
    assert list(read_documents(pattern)) == DOCUMENTS
    assert [file.name[:6] for file in corpus_files(pattern)] == ["part-1", "part-2", "part-3"]
    monkeypatch.chdir(tmp_path)
    assert list(read_documents(Path("part-[12].*"))) == DOCUMENTS[:2]
    write("part-4.jsonl", json.dumps(ROWS[0]))
    assert "the document id '1' came before" in str(refusal(lambda: read_documents(pattern)))
    said = str(refusal(lambda: read_documents(tmp_path / "nothing*")))
    assert said == f"{tmp_path / 'nothing*'}: no file matches this pattern"
