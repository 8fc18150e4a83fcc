"""The larger corpus, read back as indexing reads it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.corpus import main, write_corpus
from swiftlet.corpora.collections import read_documents
from swiftlet.corpora.collections import read_queries as read_identified_queries
from swiftlet.errors import CollectionError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def collections(tmp_path: Path) -> list[Path]:
    """Two collections whose ids are the same."""
    folders = [tmp_path / "seas", tmp_path / "hills"]
    for folder in folders:
        folder.mkdir()
        documents = [
            {"_id": str(number), "title": folder.name, "text": f"{folder.name} {number}"}
            for number in range(10)
        ]
        (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)))
    queries = [{"_id": str(number), "text": f"query {number}"} for number in range(50)]
    (folders[0] / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    return folders


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def write(out: Path, collections: list[Path], *options: str) -> None:
    main([*map(str, collections), "--queries", str(collections[0]), "--out", str(out), *options])


def test_the_documents_of_all_collections_are_in_it_under_ids_of_their_own(
    collections: list[Path], tmp_path: Path
) -> None:
    write(tmp_path / "out", collections)
    documents = {document.document_id: document for document in read_documents(tmp_path / "out")}
    assert len(documents) == 20
    assert documents["seas/3"].text == "seas 3"
    assert documents["hills/3"].title == "hills"


def test_a_share_of_the_documents_and_a_sample_of_the_queries_can_be_taken(
    collections: list[Path], tmp_path: Path
) -> None:
    write(tmp_path / "out", collections, "--every", "5", "--num-queries", "7")
    ids = [document.document_id for document in read_documents(tmp_path / "out")]
    assert ids == ["seas/0", "seas/5", "hills/0", "hills/5"]
    texts = {query.text for query in read_identified_queries(tmp_path / "out")}
    assert len(texts) == 7
    assert texts < {f"query {number}" for number in range(50)}


def test_the_same_arguments_give_the_same_bytes(collections: list[Path], tmp_path: Path) -> None:
    for name in ("first", "second"):
        write(tmp_path / name, collections, "--num-queries", "9")
    for file in ("corpus.jsonl", "queries.jsonl"):
        assert (tmp_path / "first" / file).read_bytes() == (tmp_path / "second" / file).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["{0}", "{0}"], "two of the collections have the same name: seas, seas"),
        (["{0}", "/nowhere"], "/nowhere: there is no such file"),
        (["{0}", "--every", "0"], "argument --every: '0' is given; a whole number from 1 to 1e+07"),
        (["{0}", "--num-queries", "many"], "argument --num-queries: 'many' is given"),
        (["{1}", "--out", "{0}"], "--out {0} exists already; a new folder is expected"),
    ],
)
def test_what_cannot_be_a_corpus_is_one_sentence(
    collections: list[Path], tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    before = contents(collections[0])
    words = [argument.format(*collections) for argument in arguments]
    ended = subprocess.run(
        [sys.executable, "-m", "loadtests.corpus", "--queries", str(collections[0]),
         "--out", str(tmp_path / "out"), *words],
        cwd=ROOT, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"loadtests: {sentence.format(*collections)}")
    assert contents(collections[0]) == before


@pytest.mark.parametrize(
    "line",
    [
        b'{"_id": "2"}',
        b'{"_id": "2", "text": 5}',
        b'{"_id": "2", "title": 5, "text": "good"}',
        b'{"_id": "1", "text": "the same id"}',
        b'["2", "good"]',
        b'{"_id": "2", "text": "Gr\xf6\xdfe"}',
    ],
)
def test_a_line_that_is_no_document_is_named_and_no_corpus_is_made(
    collections: list[Path], tmp_path: Path, line: bytes
) -> None:
    bad = collections[1] / "corpus.jsonl"
    bad.write_bytes(b'{"_id": "1", "text": "good"}\n' + line + b"\n")
    with pytest.raises(CollectionError, match=rf"^{bad}, line 2: "):
        write_corpus(collections, tmp_path / "out", queries=collections[0], num_queries=1)
    assert {file.name for file in tmp_path.iterdir()} == {"seas", "hills"}
