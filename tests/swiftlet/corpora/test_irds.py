"""Collections by their ir_datasets names: real datasets of ir_datasets, made of local files."""

import itertools
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import ir_datasets
import pytest
from ir_datasets.formats import TrecQrels, TsvDocs, TsvQueries
from ir_datasets.util import Download, LocalDownload, RequestsDownload

from swiftlet.corpora.collections import corpus_files, read_documents, read_queries
from swiftlet.corpora.irds import document_from_record, query_from_record
from swiftlet.corpora.lines import SkippedLines
from swiftlet.corpora.trec import read_qrels
from swiftlet.errors import CollectionError, MissingExtraError
from swiftlet.types import Document, Query

DOCS = "d1\tone\nd2\ttwo\n"
QUERIES = "q1\twhich?\nq2\twhat?\n"
QRELS = "q1 0 d1 1\nq1 0 d2 0\nq2 0 d2 2\n"

Register = Callable[..., Path]
_numbers = itertools.count()


class TitledDoc(NamedTuple):
    doc_id: str
    title: str
    text: str
    url: str

    def default_text(self) -> str:
        return f"{self.title} {self.text}"


@pytest.fixture
def register(tmp_path) -> Iterator[Register]:
    """Registers a dataset of local files with ir_datasets and gives its name with irds:."""
    registered = ir_datasets.registry._registered
    before = set(registered)

    def register_dataset(*constituents: object, **contents: str) -> Path:
        paths = {}
        for name, content in contents.items():
            paths[name] = tmp_path / name
            paths[name].write_text(content)
        name = f"swiftlet-test-{next(_numbers)}/train"
        dataset = (
            ir_datasets.Dataset(*constituents)
            if constituents
            else ir_datasets.create_dataset(**paths)
        )
        ir_datasets.registry.register(name, dataset)
        return Path(f"irds:{name}")

    yield register_dataset
    for name in set(registered) - before:
        del registered[name]


def refusal(read: Callable[[Path], object], path: Path) -> str:
    def read_all() -> None:
        result = read(path)
        if isinstance(result, Iterator):
            list(result)

    with pytest.raises(CollectionError) as caught:
        read_all()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_documents_queries_and_qrels_are_read_by_name(register):
    path = register(docs_tsv=DOCS, queries_tsv=QUERIES, qrels_trec=QRELS)
    assert list(read_documents(path)) == [Document("d1", "one"), Document("d2", "two")]
    assert read_queries(path) == [Query("q1", "which?"), Query("q2", "what?")]
    assert read_qrels(path) == {"q1": {"d1": 1, "d2": 0}, "q2": {"d2": 2}}
    assert corpus_files(path) == []


def test_title_text_and_url_go_where_they_belong(register, tmp_path):
    (tmp_path / "titled").write_text("d1\tTides\tThe moon.\thttp://a\nd2\t\tNo title.\t\n")
    path = register(TsvDocs(LocalDownload(tmp_path / "titled"), doc_cls=TitledDoc))
    assert list(read_documents(path)) == [
        Document("d1", "The moon.", "Tides", {"url": "http://a"}),
        Document("d2", "No title."),
    ]


@pytest.mark.parametrize(
    ("dataset", "values", "document"),
    [
        ("beir/scifact", {"text": "t", "title": "T"}, Document("d", "t", "T")),
        ("msmarco-passage", {"text": "t"}, Document("d", "t")),
        (
            "msmarco-document",
            {"url": "u", "title": "T", "body": "b"},
            Document("d", "b", "T", {"url": "u"}),
        ),
        ("nyt", {"headline": "T", "body": "b"}, Document("d", "b", "T")),
        ("cord19", {"title": "T", "abstract": "a"}, Document("d", "a", "T")),
        ("tripclick/logs", {"title": "T", "url": "u"}, Document("d", "", "T", {"url": "u"})),
        (
            "clinicaltrials/2017",
            {"title": "T", "condition": "c", "summary": "s"},
            Document("d", "c s", "T"),
        ),
    ],
)
def test_the_types_of_ir_datasets_are_understood(dataset, values, document):
    kind = ir_datasets.load(dataset).docs_cls()
    fields = {**dict.fromkeys(kind._fields, ""), **values, "doc_id": "d"}
    assert document_from_record(kind(**fields)) == document


@pytest.mark.parametrize(
    ("dataset", "field"),
    [
        ("beir/scifact/test", "text"),
        ("aquaint/trec-robust-2005", "title"),
        ("codec", "query"),
        ("bright/aops", "text"),
    ],
)
def test_the_queries_of_ir_datasets_are_understood(dataset, field):
    kind = ir_datasets.load(dataset).queries_cls()
    fields = {**dict.fromkeys(kind._fields, "other"), field: "why?", "query_id": "q"}
    assert query_from_record(kind(**fields)) == Query("q", "why?")


def test_memory_does_not_grow_with_the_dataset(register):
    word = "word " * 200
    path = register(docs_tsv="".join(f"d{number}\t{word}\n" for number in range(10_000)))
    tracemalloc.start()
    assert sum(1 for _ in read_documents(path)) == 10_000
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 2_000_000


def test_a_missing_entity_of_a_dataset_is_named_at_once(register):
    path = register(docs_tsv=DOCS, queries_tsv=QUERIES)
    with pytest.raises(CollectionError, match=r"no qrels; it has documents and queries$"):
        read_qrels(path)
    path = register(qrels_trec=QRELS)
    with pytest.raises(CollectionError, match=r"the dataset has no documents; it has qrels$"):
        read_documents(path)
    with pytest.raises(CollectionError, match=r"the dataset has no queries; it has qrels$"):
        read_queries(path)


def test_an_unknown_name_is_refused_with_the_nearest_one():
    expected = (
        "irds:beir/scifacts: ir_datasets has no such dataset; did you mean irds:beir/scifact?"
    )
    assert refusal(read_documents, Path("irds:beir/scifacts")) == expected
    assert refusal(read_qrels, Path("irds:")).endswith("ir_datasets has no such dataset")


def test_a_dataset_that_is_not_there_and_cannot_be_downloaded_is_refused(register, tmp_path):
    missing = register(TsvDocs(LocalDownload(tmp_path / "missing.tsv")))
    there_is_no = f"{missing}: it is not downloaded: there is no {tmp_path / 'missing.tsv'}"
    assert refusal(read_documents, missing) == there_is_no
    url = "http://127.0.0.1:1/docs.tsv"
    download = Download([RequestsDownload(url, tries=1)], tmp_path / "docs.tsv", stream=False)
    unreachable = register(TsvDocs(download), TsvQueries(download))
    for read in (read_documents, read_queries):
        message = refusal(read, unreachable)
        assert message == (
            f"{unreachable}: it is not downloaded, and {url} cannot be had: ConnectionError"
        )


def test_bad_records_are_named_or_skipped(register):
    path = register(docs_tsv="d1\tone\nd2\t \nd1\tagain\n\x01\tcontrol\nd3\tthree\n")
    assert refusal(read_documents, path) == (
        f"{path}: record 2: the document 'd2' has neither text nor title"
    )
    skipped = SkippedLines()
    found = list(read_documents(path, skipped=skipped))
    assert [document.document_id for document in found] == ["d1", "d3"]
    assert skipped.count == 3
    assert "record 3: the document id 'd1' came before" in skipped.messages[1]
    assert "record 4: the document id '\\x01' holds the forbidden" in skipped.messages[2]


def test_bad_queries_qrels_and_files_are_named(register, tmp_path):
    path = register(queries_tsv="q1\tone\nq1\ttwo\n", docs_tsv="d1\tone\textra\n")
    assert refusal(read_queries, path).endswith("record 2: the query id 'q1' came before")
    assert refusal(read_documents, path).endswith(
        "ir_datasets cannot read it: expected 2 fields, got 3"
    )
    (tmp_path / "qrels").write_text("q1 0 d1 1\nq1 0 d1 2\n")
    path = register(TrecQrels(LocalDownload(tmp_path / "qrels"), {}))
    assert "record 2: the document 'd1' has the grade 2" in refusal(read_qrels, path)
    (tmp_path / "empty").write_text("")
    empty = register(
        TsvDocs(LocalDownload(tmp_path / "empty")),
        TsvQueries(LocalDownload(tmp_path / "empty")),
        TrecQrels(LocalDownload(tmp_path / "empty"), {}),
    )
    for read, nothing in (
        (read_documents, "there is no valid document"),
        (read_queries, "there is no valid query"),
        (read_qrels, "there is no judgement"),
    ):
        assert refusal(read, empty) == f"{empty}: {nothing}"


def test_without_ir_datasets_the_extra_that_brings_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    for read in (read_documents, read_queries, read_qrels):
        with pytest.raises(MissingExtraError, match=r"'ir_datasets' is not installed: .*\[irds"):
            read(Path("irds:beir/scifact"))
