"""Files of every kind, damaged anywhere: they are read, or refused in one sentence."""

import gzip
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docx
import pyarrow
import pyarrow.parquet
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure

from swiftlet.corpora.collections import read_documents, read_queries
from swiftlet.corpora.lines import SkippedLines
from swiftlet.corpora.trec import read_qrels, read_run
from swiftlet.errors import CollectionError
from swiftlet.types import Document

ROWS = [{"id": "1", "text": "Ferns\ngrow", "n": 5}, {"id": "2", "text": 'a "quote", é', "n": None}]


def seeds() -> dict[str, bytes]:
    word, pdf, parquet, arrow, archive = (io.BytesIO() for _ in range(5))
    document = docx.Document()
    document.add_heading("Mosses", 1)
    document.add_table(1, 2).cell(0, 0).text = "cell"
    document.save(word)
    with PdfPages(pdf) as pages:
        figure = Figure()
        figure.text(0.1, 0.5, "Lichens live on infor-\nmation")
        pages.savefig(figure)
    table = pyarrow.Table.from_pylist(ROWS)
    pyarrow.parquet.write_table(table, parquet)
    with pyarrow.ipc.new_file(arrow, table.schema) as writer:
        writer.write_table(table)
    lines = "\n".join(map(json.dumps, ROWS)).encode()
    markdown = b"---\ntitle: 'A'\ntags: [x]\n---\n# One\n\ntext\n\nTwo\n---\n\n```\ncode\n```\n"
    with zipfile.ZipFile(archive, "w") as files:
        files.writestr("a.md", markdown)
        files.writestr("b.txt", "Mosses")
    return {
        ".docx": word.getvalue(),
        ".pdf": pdf.getvalue(),
        ".parquet": parquet.getvalue(),
        ".arrow": arrow.getvalue(),
        ".jsonl": lines,
        ".jsonl.gz": gzip.compress(lines),
        ".zip": archive.getvalue(),
        ".csv": b'id,text,n\n1,"Ferns\ngrow",5\n2,"a ""quote"", \xc3\xa9",\n',
        ".tsv": b"id\ttext\n1\tFerns\n2\t\xc3\xa9\n",
        ".md": markdown,
        ".html": b"<html><body><h1>A</h1><p>b_c <sub>2</sub></p><pre>x\\_y</pre></body></html>",
        ".rst": b"Title\n=====\n\ntext\n",
        ".txt": b"Ferns grow.\n\nMosses, too: \xc3\xa9\n",
    }


SEEDS = seeds()
OTHERS: dict[str, tuple[Callable[[Path], Any], bytes]] = {
    "queries.jsonl": (
        read_queries,
        b'{"_id": "1", "text": "ferns"}\n{"_id": 2, "text": "\xc3\xa9"}\n',
    ),
    "queries.tsv": (read_queries, b"1\tferns\n2\tmosses\n"),
    "queries.txt": (read_queries, b"ferns\nmosses\n"),
    "qrels.tsv": (read_qrels, b"query-id\tcorpus-id\tscore\n1\ta\t1\n1\tb\t0\n"),
    "qrels.trec": (read_qrels, b"1 0 a 1\n1 0 b 0\n"),
    "run.trec": (read_run, b"1 Q0 a 1 0.5 tag\n1 Q0 b 2 0.25 tag\n"),
}
"""Files of queries, judgements and runs, with what reads them."""

PIECES = [b'"', b"'", b",", b"\n", b"\r", b"---\n", b"\x00", b"\xff", b"\xfe\xff", b"`", b"[", b"{"]
PIECES += [b"<", b">", b"\\", b"\t", b";", b"9" * 30, b"\xef\xbb\xbf", b"&amp;", b": ", b"#"]
CHANGES = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.integers(0, 3),
        st.sampled_from(PIECES) | st.binary(max_size=3),
    ),
    max_size=4,
)


def changed(content: bytes, changes: list[tuple[float, int, bytes]]) -> bytes:
    for place, cut, piece in changes:
        at = int(place * len(content))
        content = content[:at] + piece + content[at + cut :]
    return content


def changed_within(suffix: str, content: bytes, changes: list[tuple[float, int, bytes]]) -> bytes:
    """A file of which the text is damaged, in a compression or an archive that is not."""
    if suffix == ".jsonl.gz":
        return gzip.compress(changed(gzip.decompress(content), changes))
    if suffix not in (".docx", ".zip"):
        return changed(content, changes)
    damaged = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(damaged, "w") as out:
        for name in archive.namelist():
            part = archive.read(name)
            is_text = name in ("word/document.xml", "a.md")
            out.writestr(name, changed(part, changes) if is_text else part)
    return damaged.getvalue()


def check_nothing_is_lost(suffix: str, content: bytes, found: list[Document], bad: int) -> None:
    """Each line of JSON is read or counted; UTF-8 is read, but for YAML at its beginning."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    if suffix == ".jsonl" and not content.startswith(b"\x1f\x8b"):
        assert len(found) + bad == sum(bool(line.strip()) for line in content.split(b"\n"))
    if suffix not in (".txt", ".rst", ".md") or b"\x00" in content or not found:
        return
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    assert text.endswith(found[0].text)
    if lost := text.removesuffix(found[0].text):
        assert suffix == ".md"
        block = lost.rstrip("\n").rstrip("-.\t ").replace(":\t", ": ")
        assert isinstance(yaml.load(block, yaml.BaseLoader), dict)


def check_is_a_sentence(problem: str) -> None:
    assert "\n" not in problem.removeprefix("\n")
    assert len(problem) < 2_000


@pytest.mark.parametrize("suffix", [*SEEDS])
@settings(max_examples=40)
@given(CHANGES, st.booleans())
def test_a_damaged_file_is_read_or_refused_in_one_sentence(
    tmp_path_factory, suffix, changes, within
):
    path = tmp_path_factory.mktemp("damaged") / f"file{suffix}"
    seed = SEEDS[suffix]
    content = changed_within(suffix, seed, changes) if within else changed(seed, changes)
    path.write_bytes(content)
    skipped = SkippedLines()
    try:
        found = list(read_documents(path, skipped=skipped))
    except CollectionError as error:
        problem = f"{error}"
    else:
        problem = "".join(skipped.messages)
        assert all(each.document_id and (each.text + each.title).strip() for each in found)
        assert len(found) + skipped.count > 0
        check_nothing_is_lost(suffix, content, found, skipped.count)
    check_is_a_sentence(problem)


@pytest.mark.parametrize("name", [*OTHERS])
@settings(max_examples=40)
@given(CHANGES)
def test_damaged_queries_judgements_and_runs_are_read_or_refused_in_one_sentence(
    tmp_path_factory, name, changes
):
    read, content = OTHERS[name]
    path = tmp_path_factory.mktemp("damaged") / name
    path.write_bytes(changed(content, changes))
    problem = ""
    try:
        assert read(path)
    except CollectionError as error:
        problem = f"{error}"
    check_is_a_sentence(problem)
