"""Write access to an artefact allows to change its answers, but not to run code."""

import pickle
import shutil
import sqlite3
import struct
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.encoders.encoder import MODEL_FILES, OnnxEncoder
from swiftlet.errors import CorruptArtefactError, CorruptIndexError
from swiftlet.index.changes.log import CHANGES_FILE, make_changes
from swiftlet.index.columns.columns import COLUMN_FILES
from swiftlet.index.directory import documents
from swiftlet.index.documents.numbers import PASSAGE_TO_DOCUMENT_FILE
from swiftlet.index.documents.store import DOCUMENTS_FILE
from swiftlet.index.updates.directory_writer import IndexWriter
from swiftlet.index.vectors.faiss_index import FaissIndex
from swiftlet.manifest import describe_files, read_manifest, write_manifest
from swiftlet.search.searcher import Searcher


def sign(directory: Path) -> None:
    """Write the manifest again, as an attacker could after altering the files."""
    names = [
        str(path.relative_to(directory))
        for path in directory.rglob("*")
        if path.is_file() and path.name != "manifest.json"
    ]
    manifest = replace(read_manifest(directory), files=describe_files(directory, names))
    write_manifest(directory, manifest)


@pytest.mark.parametrize("listed", [True, False])
def test_a_model_that_keeps_weights_in_another_file_is_refused(tmp_path, listed, monkeypatch):
    directory = tmp_path / "encoder"
    shutil.copytree(DEFAULT_ENCODER, directory)
    path = directory / MODEL_FILES["int8"]
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=0)
    if listed:
        sign(directory)
    monkeypatch.chdir(directory)
    with pytest.raises(CorruptArtefactError, match=r"model_int8\.onnx is not a usable ONNX model"):
        OnnxEncoder.load(directory, precision="int8", verify=listed)


class Intruder:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.trace,)


def test_nothing_is_ever_unpickled(small_index, tmp_path):
    directory, trace = tmp_path / "index", tmp_path / "trace"
    shutil.copytree(small_index, directory)
    np.save(directory / PASSAGE_TO_DOCUMENT_FILE, np.array([Intruder(trace)], dtype=object))
    pickle.loads((directory / PASSAGE_TO_DOCUMENT_FILE).read_bytes()[128:])
    assert trace.exists()
    trace.unlink()
    sign(directory)
    with pytest.raises(CorruptIndexError, match="is damaged"):
        Searcher.open(directory, DEFAULT_ENCODER)
    assert not trace.exists()


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT * FROM {}, c"


@pytest.mark.parametrize(
    ("file", "script", "named"),
    [
        ("documents.sqlite", f"CREATE VIEW more AS {ENDLESS.format('documents')}", "view 'more'"),
        (
            "documents.sqlite",
            f"ALTER TABLE documents RENAME TO d; CREATE VIEW documents AS {ENDLESS.format('d')}",
            "view 'documents'",
        ),
        ("documents.sqlite", "CREATE INDEX other ON passages (abs(number))", "index 'other'"),
        ("documents.sqlite", "CREATE VIRTUAL TABLE t USING fts5(a)", "table 't'"),
        (
            "documents.sqlite",
            "ALTER TABLE documents ADD COLUMN c AS (hex(zeroblob(title)))",
            "computed column 'c'",
        ),
        (
            CHANGES_FILE,
            "CREATE TRIGGER t AFTER INSERT ON changes BEGIN DELETE FROM changes; END",
            "trigger 't'",
        ),
    ],
)
def test_nothing_in_a_sqlite_file_runs(small_index, tmp_path, file, script, named):
    index = tmp_path / "index"
    shutil.copytree(small_index, index)
    if file == CHANGES_FILE:
        make_changes(index, read_manifest(index).content)
    with closing(sqlite3.connect(index / file)) as connection:
        connection.executescript(script)
    if file != CHANGES_FILE:
        names = read_manifest(index).files
        write_manifest(index, replace(read_manifest(index), files=describe_files(index, [*names])))
    said = rf"{file} is not as Swiftlet wrote it: it has the {named}"
    with pytest.raises(CorruptIndexError, match=said):
        Searcher.open(index, DEFAULT_ENCODER)
    with (
        pytest.raises(CorruptIndexError, match=said),
        IndexWriter(index, DEFAULT_ENCODER) as writer,
    ):
        writer.put([{"id": "new", "text": "new"}])


@pytest.mark.parametrize(
    "change",
    [
        "title = x'ff'", "metadata = '['", "metadata = '5'", f"metadata = '{'[' * 100_000}'",
        "text = NULL", "document = document + 1",
    ],
)  # fmt: skip
def test_odd_values_in_a_store_are_refused_when_they_are_read(small_index, tmp_path, change):
    index = tmp_path / "index"
    shutil.copytree(small_index, index)
    with closing(sqlite3.connect(index / DOCUMENTS_FILE)) as connection:
        sql = connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'documents'")
        (table,) = sql.fetchone()
        rows = connection.execute("SELECT * FROM documents").fetchall()
        connection.executescript(f"DROP TABLE documents; {table.replace(' NOT NULL', '')}")
        connection.executemany("INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?)", rows)
        last = "(SELECT max(document) FROM documents)"
        connection.execute(f"UPDATE documents SET {change} WHERE document = {last}")
        connection.commit()
    sign(index)

    def read() -> None:
        [*documents(index)]
        with Searcher.open(index, DEFAULT_ENCODER) as searcher:
            searcher.search("water", 1000)

    with pytest.raises(CorruptIndexError, match=r"documents\.sqlite (is damaged|has no passage)"):
        read()


@pytest.mark.parametrize(
    "name", [PASSAGE_TO_DOCUMENT_FILE, *(f"columns/{each}" for each in COLUMN_FILES)]
)
def test_arrays_that_do_not_fit_are_refused_by_name(small_index, tmp_path, name):
    array = np.load(small_index / name)
    most = np.full_like(array, np.iinfo(array.dtype).max)
    wrong = [most, array[:0], array.reshape(1, -1), array.astype(float), np.tile(array, 2)]
    if array.dtype.kind == "i":
        wrong.append(np.full_like(array, -5))
    index = Path(shutil.copytree(small_index, tmp_path / "index"))
    for each in wrong:
        np.save(index / name, each)
        sign(index)
        with pytest.raises(CorruptIndexError, match=name.partition("/")[0].partition(".")[0]):
            Searcher.open(index, DEFAULT_ENCODER)


def test_an_index_file_that_claims_more_than_it_has_is_refused(tmp_path):
    path = tmp_path / "index.faiss"
    index = FaissIndex.create("SQ8", 8)
    embeddings = np.eye(8, dtype=np.float32)
    index.train(embeddings)
    index.add(embeddings)
    index.save(path)
    content = path.read_bytes()
    # The codes are at the end of the file, after their number of bytes.
    assert content[-72:-64] == struct.pack("<Q", 64)
    path.write_bytes(content[:-72] + struct.pack("<Q", 1 << 36) + content[-64:])
    with pytest.raises(CorruptIndexError, match=r"index\.faiss is no FAISS index: "):
        FaissIndex.load(path)


def test_a_loaded_index_is_mapped_and_not_copied(tmp_path):
    path = tmp_path / "index.faiss"
    index = FaissIndex.create("Flat", 256)
    index.add(np.random.default_rng(0).normal(size=(20_000, 256)).astype(np.float32))
    index.save(path)
    before = anonymous_kilobytes()
    loaded = FaissIndex.load(path)
    assert str(path) in Path("/proc/self/maps").read_text()
    assert anonymous_kilobytes() - before < 5_000 < path.stat().st_size / 1024
    # A removed file can still be read by a process that has it open.
    path.unlink()
    scores, rows = loaded.search(index.embeddings(np.array([7]))[0], 1)
    assert (rows[0], len(scores)) == (7, 1)


def anonymous_kilobytes() -> int:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))
