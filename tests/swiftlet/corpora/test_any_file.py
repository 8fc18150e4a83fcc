"""Files of every kind, damaged anywhere: they are read, or refused in one sentence."""

import io
import json
import zipfile

import docx
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure

from swiftlet.corpora.collections import read_documents
from swiftlet.corpora.lines import SkippedLines
from swiftlet.errors import CollectionError

ROWS = [{"id": "1", "text": "Ferns\ngrow", "n": 5}, {"id": "2", "text": 'a "quote", é', "n": None}]


def seeds() -> dict[str, bytes]:
    word, pdf, parquet, arrow = io.BytesIO(), io.BytesIO(), io.BytesIO(), io.BytesIO()
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
    return {
        ".docx": word.getvalue(),
        ".pdf": pdf.getvalue(),
        ".parquet": parquet.getvalue(),
        ".arrow": arrow.getvalue(),
        ".jsonl": "\n".join(map(json.dumps, ROWS)).encode(),
        ".csv": b'id,text,n\n1,"Ferns\ngrow",5\n2,"a ""quote"", \xc3\xa9",\n',
        ".tsv": b"id\ttext\n1\tFerns\n2\t\xc3\xa9\n",
        ".md": b"---\ntitle: 'A'\ntags: [x]\n---\n# One\n\ntext\n\nTwo\n---\n\n```\ncode\n```\n",
        ".html": b"<html><body><h1>A</h1><p>b_c <sub>2</sub></p><pre>x\\_y</pre></body></html>",
        ".rst": b"Title\n=====\n\ntext\n",
    }


SEEDS = seeds()
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


def changed_parts(content: bytes, changes: list[tuple[float, int, bytes]]) -> bytes:
    """A Word file of which the text is damaged, in an archive that is not."""
    damaged = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(damaged, "w") as out:
        for name in archive.namelist():
            part = archive.read(name)
            out.writestr(name, changed(part, changes) if name == "word/document.xml" else part)
    return damaged.getvalue()


@pytest.mark.parametrize("suffix", [*SEEDS])
@settings(max_examples=40)
@given(CHANGES, st.booleans())
def test_a_damaged_file_is_read_or_refused_in_one_sentence(
    tmp_path_factory: pytest.TempPathFactory,
    suffix: str,
    changes: list[tuple[float, int, bytes]],
    within: bool,
) -> None:
    path = tmp_path_factory.mktemp("damaged") / f"file{suffix}"
    change = changed_parts if suffix == ".docx" and within else changed
    path.write_bytes(change(SEEDS[suffix], changes))
    skipped = SkippedLines()
    try:
        found = list(read_documents(path, skipped=skipped))
    except CollectionError as error:
        problem = f"{error}"
    else:
        problem = "".join(skipped.messages)
        assert all(each.document_id and (each.text + each.title).strip() for each in found)
        assert len(found) + skipped.count > 0
    assert "\n" not in problem.removeprefix("\n")
    assert len(problem) < 2_000
