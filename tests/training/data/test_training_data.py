"""Training data in all formats, read from files."""

import gzip
import json
import os
import shutil
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ir_datasets
import numpy as np
import pytest

from swiftlet.errors import ArtefactError, CollectionError, RetrievalError
from swiftlet.index.documents.passages import PassageSplitter, encoder_text
from swiftlet.publication import locked_working_directory
from training.data.sources import DataSource
from training.data.training_data import TrainingData, read_training_data
from training.errors import TrainingDataError

CORPUS = {
    "d1": "Molten rock rises through the crust.",
    "d2": "Flour and yeast are baked.",
    "d3": "The king is mated on the board.",
    "d4": "Bees gather nectar.",
}
QUERIES = {"q1": "what is lava", "q2": "how is bread made", "q3": "how does chess end"}
QRELS = {"q1": {"d1": 1}, "q2": {"d2": 2, "d4": 0}, "q3": {"d3": 1, "d1": 1}}

CUT = {"max_tokens": 24, "overlap_tokens": 0, "truncate": False}

Read = Callable[..., TrainingData]
Folder = Callable[..., Path]


@pytest.fixture
def folder(tmp_path) -> Folder:
    """Writes a BEIR folder."""

    def write(
        name: str = "beir",
        corpus: Mapping[str, str] = CORPUS,
        queries: Mapping[str, str] = QUERIES,
        **splits: Mapping[str, Mapping[str, int]],
    ) -> Path:
        path = tmp_path / name
        (path / "qrels").mkdir(parents=True)
        for file, texts in (("corpus", corpus), ("queries", queries)):
            lines = [json.dumps({"_id": key, "text": text}) for key, text in texts.items()]
            (path / f"{file}.jsonl").write_text("\n".join(lines))
        for split, qrels in (splits or {"train": QRELS}).items():
            lines = [
                f"{q}\t{d}\t{grade}" for q, found in qrels.items() for d, grade in found.items()
            ]
            content = "\n".join(["query-id\tcorpus-id\tscore", *lines])
            (path / "qrels" / f"{split}.tsv").write_text(content)
        return path

    return write


@pytest.fixture
def read(tmp_path, shipped_encoder) -> Read:
    """Reads sources with passages of 24 tokens that do not overlap."""

    def read_sources(*sources: DataSource, **settings: Any) -> TrainingData:
        cut = {name: settings.pop(name) for name in CUT.keys() & settings.keys()}
        splitter = PassageSplitter(shipped_encoder.tokenizer, **CUT | cut)
        return read_training_data(sources, tmp_path / "store", splitter, **settings)

    return read_sources


def of(corpus: Path | str, qrels: str = "train", **others: Any) -> DataSource:
    return DataSource(corpus=f"{corpus}", qrels=qrels, **others)


def shown(data: TrainingData) -> set[tuple[str, str]]:
    """The pairs as texts."""
    texts = data.passages.texts(data.pairs[:, 1])
    return {
        (data.queries[query], text) for query, text in zip(data.pairs[:, 0], texts, strict=True)
    }


def texts_of(data: TrainingData, query: str) -> list[str]:
    return data.passages.texts(data.known.of(data.queries.index(query)))


def test_a_beir_folder_gives_one_pair_for_each_relevant_document(folder, read):
    data = read(of(folder()))
    assert shown(data) == {
        (QUERIES["q1"], CORPUS["d1"]),
        (QUERIES["q2"], CORPUS["d2"]),
        (QUERIES["q3"], CORPUS["d3"]),
        (QUERIES["q3"], CORPUS["d1"]),
    }
    assert data.pairs.dtype == np.int64
    assert data.given_negatives is None
    assert (data.query_ids, data.queries) == (list(QUERIES), list(QUERIES.values()))
    assert list(data.passages.document_ids) == list(CORPUS)
    assert sorted(texts_of(data, QUERIES["q3"])) == sorted([CORPUS["d1"], CORPUS["d3"]])
    grades = {
        (data.query_ids[query], data.passages.document_ids[document]): grade
        for query, document, grade in data.judgements.tolist()
    }
    assert grades == {(q, d): grade for q, found in QRELS.items() for d, grade in found.items()}


def test_documents_below_a_grade_are_not_relevant(folder, read):
    graded = {"q1": {"d1": 1}, "q2": {"d2": 2, "d4": 1}, "q3": {"d3": 3, "d1": 0}}
    data = read(of(folder(train=graded), relevant_from=2))
    assert shown(data) == {(QUERIES["q2"], CORPUS["d2"]), (QUERIES["q3"], CORPUS["d3"])}
    assert sorted(grade for *_, grade in data.judgements.tolist()) == [0, 0, 2, 3]
    assert "1 of the 3 queries" in data.notes[0]


def test_qrels_may_be_a_split_or_a_file_and_queries_lie_elsewhere(folder, read, tmp_path):
    beir = folder()
    expected = shown(read(of(beir)))
    corpus, queries = str(beir / "corpus.jsonl"), str(beir / "queries.jsonl")
    trec = tmp_path / "qrels.txt.gz"
    lines = [f"{q} 0 {d} {grade}\n" for q, found in QRELS.items() for d, grade in found.items()]
    trec.write_bytes(gzip.compress("".join(lines).encode()))
    for source in (
        of(beir, f"{trec}"),
        DataSource(corpus=corpus, queries=queries, qrels=str(beir / "qrels" / "train.tsv")),
        DataSource(corpus=corpus, queries=str(beir), qrels="train"),
    ):
        assert shown(read(source)) == expected


def test_a_split_is_preferred_to_a_file_of_its_name(folder, read, tmp_path, monkeypatch):
    beir = folder()
    expected = shown(read(of(beir)))
    monkeypatch.chdir(tmp_path)
    Path("train").write_text("q1 0 d4 1\nq2 0 d4 1\n")
    Path("judged").write_text("q1 0 d4 1\nq2 0 d4 1\n")
    assert shown(read(of(beir))) == expected
    others = {(QUERIES["q1"], CORPUS["d4"]), (QUERIES["q2"], CORPUS["d4"])}
    assert shown(read(of(beir, "judged"))) == others
    Path("train").unlink()
    Path("train").mkdir()
    assert shown(read(of(beir))) == expected


def test_a_dataset_of_ir_datasets_is_trained_on_by_name(read, tmp_path):
    contents = {
        "docs_tsv": "".join(f"{key}\t{text}\n" for key, text in CORPUS.items()),
        "queries_tsv": "".join(f"{key}\t{text}\n" for key, text in QUERIES.items()),
        "qrels_trec": "q1 0 d1 1\nq2 0 d2 1\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    dataset = ir_datasets.create_dataset(**{name: tmp_path / name for name in contents})
    ir_datasets.registry.register("swiftlet-test-training", dataset)
    try:
        data = read(of("irds:swiftlet-test-training", "irds:swiftlet-test-training"))
    finally:
        del ir_datasets.registry._registered["swiftlet-test-training"]
    assert shown(data) == {
        (QUERIES["q1"], CORPUS["d1"]),
        (QUERIES["q2"], CORPUS["d2"]),
    }


def test_queries_without_a_positive_are_left_out_and_counted(folder, read):
    beir = folder(train={"q1": {"d1": 0, "d2": -1}, "q3": {"d3": 1, "d4": 1}})
    data = read(of(beir))
    assert data.queries == [QUERIES["q3"]]
    expected = f"2 of the 3 queries of {beir} have no relevant document in {beir}/qrels/train.tsv"
    assert data.notes == (expected,)


def test_ids_that_two_corpora_share_stay_apart(folder, read):
    other = {"d1": "Snow becomes ice.", "d2": "Ink on paper."}
    sources = [
        of(folder("one")),
        DataSource(
            corpus=str(folder("two", other, {"q1": "what is a glacier"}, train={"q1": {"d1": 1}})),
            qrels="train",
        ),
    ]
    data = read(*sources)
    assert ("what is a glacier", "Snow becomes ice.") in shown(data)
    assert (QUERIES["q1"], CORPUS["d1"]) in shown(data)
    assert len(data.pairs) == 5
    assert texts_of(data, "what is a glacier") == ["Snow becomes ice."]
    assert list(data.passages.document_ids) == ["0:d1", "0:d2", "0:d3", "0:d4", "1:d1", "1:d2"]
    assert data.query_ids == ["0:q1", "0:q2", "0:q3", "1:q1"]


def test_two_sources_of_one_corpus_share_documents_and_known_positives(folder, read):
    beir = str(folder(train={"q1": {"d1": 1}}, more={"q1": {"d1": 2, "d2": 1}}))
    data = read(of(beir), of(beir, "more"))
    assert data.passages.num_documents == 4
    assert data.query_ids == ["q1"]
    assert len(data.pairs) == 3
    assert texts_of(data, QUERIES["q1"]) == [CORPUS["d1"], CORPUS["d2"]]
    assert data.judgements.tolist() == [[0, 0, 2], [0, 1, 1]]


def test_a_corpus_is_one_however_its_path_is_written(folder, read, tmp_path, monkeypatch):
    beir = folder(train={"q1": {"d1": 1}}, more={"q1": {"d2": 1}})
    monkeypatch.chdir(tmp_path)
    data = read(of(beir), of(beir.name, "more"))
    assert list(data.passages.document_ids) == list(CORPUS)
    assert data.query_ids == ["q1"]
    assert texts_of(data, QUERIES["q1"]) == [CORPUS["d1"], CORPUS["d2"]]


TWINS = {"q1": "What is  lava", "q2": "bread", "q3": "what is lava ", "q4": "what is lava?"}


def test_queries_of_the_same_words_know_each_others_positives(folder, read):
    qrels = {"q1": {"d1": 1}, "q2": {"d2": 1}, "q3": {"d3": 2, "d2": 0}, "q4": {"d4": 1}}
    data = read(of(folder(queries=TWINS, train=qrels)))
    assert data.pairs.tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]
    assert [data.known.of(query).tolist() for query in range(4)] == [[0, 2], [1], [0, 2], [3]]
    kept = data.keep_queries(np.array([False, True, True, True]))
    assert [kept.known.of(query).tolist() for query in range(3)] == [[1], [2], [3]]
    kept = data.keep_queries(np.array([True, False, True, False]))
    assert [kept.known.of(query).tolist() for query in range(2)] == [[0, 2]] * 2


def test_a_given_negative_is_not_relevant_to_a_query_of_the_same_words(folder, read, tmp_path):
    triples = triples_file(tmp_path / "t.tsv", "q1|d1|d3", "q3|d3|d2", "q4|d4|d1")
    data = read(DataSource(corpus=str(folder(queries=TWINS)), triples=triples))
    assert data.given_negatives.tolist() == [-1, 1, 0]


LONG = [
    "The committee met early on Monday to settle the annual budget of the town.",
    "Then the glacier was discussed at length, since its ice melts every single summer.",
    "Finally the mayor thanked the committee and the meeting was closed at noon.",
]


def test_of_a_long_document_the_passage_that_shares_rare_words_is_paired(folder, read):
    corpus = {"d0": "Something else.", "long": " ".join(LONG)}
    queries = {
        "q1": "the committee on the melting glacier ice",
        "q2": "who thanked the committee",
        "q3": "zzz",
    }
    qrels = {query_id: {"long": 1} for query_id in queries}
    source = DataSource(
        corpus=str(folder(corpus=corpus, queries=queries, train=qrels)), qrels="train"
    )
    data = read(source)
    first, end = data.passages.first_rows[1:].tolist()
    assert end - first == 3
    assert data.passages.passage_to_document.tolist() == [0, 1, 1, 1]
    assert data.pairs.tolist() == [[0, first + 1], [1, first + 2], [2, first]]
    assert read(source, positive="first").pairs[:, 1].tolist() == [first] * 3
    # A negative must be none of them.
    for query in range(3):
        assert data.known.of(query).tolist() == [first, first + 1, first + 2]
    assert read(source, truncate=True).passages.num_passages == 2


def test_the_encoder_reads_title_and_text_of_any_rows_in_the_given_order(
    small_documents, read, tmp_path, shipped_encoder
):
    fields = ("_id", "title", "text")
    records = [
        (document.document_id, document.title, document.text) for document in small_documents
    ]
    lines = [json.dumps(dict(zip(fields, record, strict=True))) for record in records]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    (tmp_path / "queries.tsv").write_text("q1\ta\nq2\tb\n")
    (tmp_path / "qrels.txt").write_text("q1 0 tides-3 1\nq2 0 bees-20 1\n")
    names = {"corpus": "corpus.jsonl", "queries": "queries.tsv", "qrels": "qrels.txt"}
    data = read(DataSource(**{field: str(tmp_path / name) for field, name in names.items()}))
    splitter = PassageSplitter(shipped_encoder.tokenizer, 24, 0)
    expected = [
        (document.document_id, encoder_text(document.title, passage.text))
        for document in small_documents
        for passage in splitter.split(document)
    ]
    rows = np.random.default_rng(0).permutation(len(expected))
    assert data.passages.num_passages == len(expected)
    assert data.passages.texts(rows) == [expected[row][1] for row in rows]
    documents = data.passages.passage_to_document[rows]
    ids = [data.passages.document_ids[document] for document in documents]
    assert ids == [expected[row][0] for row in rows]
    assert data.known.of(1).tolist() == [
        row for row, (document_id, _) in enumerate(expected) if document_id == "bees-20"
    ]
    for row in (-1, len(expected)):
        with pytest.raises(IndexError, match="a row is not among"):
            data.passages.texts([row])


def triples_file(path: Path, *lines: str) -> str:
    content = "".join(line.replace("|", "\t") + "\n" for line in lines)
    path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
    return str(path)


@pytest.mark.parametrize("name", ["triples.tsv", "triples.tsv.gz"])
def test_triples_pair_and_give_negatives(folder, read, tmp_path, name):
    beir = str(folder())
    triples = triples_file(tmp_path / name, "q1|d1|d2", "q1|d1|d3", "q2|d2|d4")
    data = read(DataSource(corpus=beir, triples=triples))
    assert data.queries == [QUERIES["q1"], QUERIES["q2"]]
    assert data.pairs.tolist() == [[0, 0], [0, 0], [1, 1]]
    assert data.given_negatives.tolist() == [1, 2, 3]
    assert data.known.of(0).tolist() == [0]


def test_qrels_beside_triples_keep_relevant_documents_from_being_negatives(folder, read, tmp_path):
    triples = triples_file(tmp_path / "t.tsv", "q3|d3|d1", "q3|d3|d2")
    data = read(DataSource(corpus=str(folder()), qrels="train", triples=triples))
    query = data.queries.index(QUERIES["q3"])
    assert data.pairs.tolist() == [[query, 2], [query, 2]]
    assert data.given_negatives.tolist() == [-1, 1]
    assert data.known.of(query).tolist() == [0, 2]
    assert data.notes == ("1 given negatives are relevant to their query and not used",)


def refused(error: type[RetrievalError], message: str, read: Callable[[], object]) -> None:
    with pytest.raises(error, match=message) as caught:
        read()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q1|d1", r"line 2: 2 columns where 3 \(query, positive, negative\) are expected"),
        ("q9|d1|d2", "line 2: there is no query 'q9'"),
        ("q1|d9|d2", "line 2: the positive 'd9' of the query 'q1' is not in the corpus"),
        ("q1|d1|d9", "line 2: the negative 'd9' of the query 'q1' is not in the corpus"),
    ],
)
def test_a_bad_triple_is_named_by_its_line(folder, read, tmp_path, line, message):
    triples = triples_file(tmp_path / "t.tsv", "q1|d1|d2", line)
    source = DataSource(corpus=str(folder()), triples=triples)
    refused(CollectionError, f"t.tsv, {message}", lambda: read(source))


def test_a_positive_missing_from_the_corpus_is_named_with_its_query_and_file(folder, read):
    beir = folder(train={"q1": {"d1": 1, "d8": 0}, "q2": {"d9": 1, "d7": 1}})
    message = (
        f"{beir}/qrels/train.tsv: the document 'd9', relevant to the query 'q2', is not in the "
        f"corpus {beir}, nor are 1 more"
    )
    refused(CollectionError, message, lambda: read(of(beir)))


def test_a_missing_document_that_is_not_relevant_does_no_harm(folder, read):
    beir = folder(train={"q1": {"d1": 1, "d8": 0}, "q2": {"d2": 1}})
    assert len(read(of(beir)).judgements) == 2


def test_qrels_of_unknown_queries_and_splits_that_are_not_there_are_refused(folder, read):
    beir = str(folder(train={"q1": {"d1": 1}, "other": {"d2": 1}}))
    expected = r"train\.tsv: the qrels name 1 unknown query ids \('other'\)"
    refused(CollectionError, expected, lambda: read(of(beir)))
    expected = "no qrels of the split 'dev'; there are train"
    refused(CollectionError, expected, lambda: read(of(beir, "dev")))
    in_a_file = of(beir, queries=f"{beir}/queries.jsonl")
    expected = "it is a file without splits, so qrels 'train' must be a file, too"
    refused(CollectionError, expected, lambda: read(in_a_file))


def test_too_little_to_train_on_is_refused(folder, read):
    beir = str(folder(train={"q1": {"d1": 1}}, none={"q1": {"d1": 0}, "q2": {"d2": 0}}))
    expected = "has 1 pair of a query and a relevant passage: at least 2 are needed"
    refused(TrainingDataError, expected, lambda: read(of(beir)))
    expected = "no document is relevant to any query: 3 of the 3 queries of .*beir have no relevant"
    refused(TrainingDataError, expected, lambda: read(of(beir, "none")))
    refused(TrainingDataError, "there are no sources", read)


def stores(tmp_path: Path) -> dict[Path, int]:
    """The stores and when each was written."""
    return {path: path.stat().st_mtime_ns for path in (tmp_path / "store").rglob("*.sqlite")}


def test_a_store_is_used_again_until_its_sources_or_settings_change(folder, read, tmp_path):
    beir = folder()
    second = Path(shutil.copytree(beir, tmp_path / "second"))
    sources = [of(beir), of(second)]
    first = read(*sources)
    written = stores(tmp_path)
    assert len(written) == 1
    again = read(*sources)
    assert stores(tmp_path) == written
    assert shown(again) == shown(first)
    assert again.pairs.tolist() == first.pairs.tolist()
    # Judgements are no part of it.
    (beir / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td4\t1\n")
    assert ("what is lava", "Bees gather nectar.") in shown(read(*sources))
    assert stores(tmp_path) == written
    corpus = beir / "corpus.jsonl"
    corpus.write_text(corpus.read_text().replace("Bees", "Many"))
    assert ("what is lava", "Many gather nectar.") in shown(read(*sources))
    assert len(stores(tmp_path)) == 2
    corpus = second / "corpus.jsonl"
    status = corpus.stat()
    os.utime(corpus, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    read(*sources)
    assert len(stores(tmp_path)) == 3
    read(*sources, max_tokens=32)
    read(*sources, overlap_tokens=2)
    read(*sources, truncate=True)
    read(*reversed(sources))
    assert len(stores(tmp_path)) == 7
    assert stores(tmp_path).items() >= written.items()


def test_an_incomplete_corpus_leaves_no_store(folder, read, tmp_path):
    beir = folder()
    corpus = beir / "corpus.jsonl"
    good = corpus.read_text()
    corpus.write_text(good + "\nnot JSON")
    source = of(beir)
    refused(CollectionError, r"corpus\.jsonl, line 5: not valid JSON", lambda: read(source))
    assert stores(tmp_path) == {}
    corpus.write_text(good)
    assert len(read(source).pairs) == 4


def test_a_damaged_store_and_one_that_is_being_written_are_refused(folder, read, tmp_path):
    source = of(folder())
    read(source)
    (path,) = stores(tmp_path)
    path.write_bytes(path.read_bytes()[:100])
    refused(TrainingDataError, "is damaged .* remove it", lambda: read(source))
    path.unlink()
    (path.parent / "source.json").unlink()
    path.parent.rmdir()
    with locked_working_directory(path.parent):
        refused(ArtefactError, "another process is writing", lambda: read(source))
    assert len(read(source).pairs) == 4


def test_memory_does_not_grow_with_the_corpus(folder, read):
    text = "word " * 400
    corpus = {f"d{number}": f"{number} {text}" for number in range(5_000)}
    beir = folder(corpus=corpus)
    del corpus
    tracemalloc.start()
    data = read(of(beir), truncate=True)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (beir / "corpus.jsonl").stat().st_size > 10_000_000
    assert data.passages.num_passages == 5_000
    assert peak_bytes < 5_000_000
