"""Queries with judgements on the documents of an index."""

import json
from pathlib import Path

import numpy as np
import pytest

from swiftlet.corpora.collections import read_queries
from swiftlet.corpora.trec import read_qrels
from swiftlet.encoders import DEFAULT_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.errors import CollectionError
from swiftlet.evaluation.experiment import JudgedSet
from swiftlet.index.building.build import build
from swiftlet.types import Query
from tests.runs import Listener, records
from training.adaptation.texts import known_items
from training.data.judged_split import split_by_documents
from training.distillation.distill import distill
from training.distillation.overlap import IndexComparison
from training.distillation.relevance import relevant_passages
from training.distillation.settings import Distillation, Judged
from training.errors import TrainingDataError

# More than nine: in the order of their ids, "d10" comes before "d2".
NUM_DOCUMENTS = 14


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Path:
    """An index in which document number n has n + 1 passages; read only."""
    out = tmp_path_factory.mktemp("judged") / "index"
    documents = [
        {"_id": f"d{n}", "text": " ".join(f"word{n}" for _ in range(12 * n + 4))}
        for n in range(NUM_DOCUMENTS)
    ]
    build(documents, out, passage_tokens=32, overlap_tokens=0, language=None)
    return out


@pytest.fixture(scope="module")
def comparison(index) -> IndexComparison:
    """That index; read only."""
    return IndexComparison(index, OnnxEncoder.load(DEFAULT_ENCODER))


def written(folder: Path, queries: dict[str, str], qrels: list[tuple[str, str, int]]) -> Judged:
    rows = [json.dumps({"_id": query_id, "text": text}) for query_id, text in queries.items()]
    (folder / "queries.jsonl").write_text("\n".join(rows))
    lines = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, each)) for each in qrels)]
    (folder / "qrels.tsv").write_text("\n".join(lines))
    return Judged(queries=str(folder / "queries.jsonl"), qrels=str(folder / "qrels.tsv"))


def test_a_query_has_all_passages_of_its_relevant_documents(comparison, tmp_path):
    queries = {"a": "first ", "b": "second", "c": "first"}
    qrels = [("a", "d2", 1), ("a", "d10", 0), ("b", "d0", 1), ("b", "d13", 2), ("c", "d10", 1)]
    judged = written(tmp_path, queries, qrels)
    found = relevant_passages([judged, judged.model_copy(update={"weight": 0.5})], comparison)
    assert list(found) == ["first", "second"]
    for text, documents in (("first", [2, 10]), ("second", [0, 13])):
        embeddings = comparison.index.embeddings(found[text].rows)
        # A passage is nearest to the passages of its own document.
        every = comparison.index.embeddings(np.arange(comparison.index.size))
        for embedding in embeddings:
            near = (every @ embedding) > 0.99
            assert set(np.flatnonzero(near)) <= set(found[text].rows)
        assert len(found[text].rows) == len(comparison.rows_of([f"d{n}" for n in documents]))
        assert found[text].weight == 1.0


def test_documents_that_are_not_in_the_index_are_named(comparison, tmp_path):
    judged = written(tmp_path, {"a": "first"}, [("a", "nowhere", 1)])
    with pytest.raises(CollectionError, match=r"1 unknown document ids \('nowhere'\)"):
        relevant_passages([judged], comparison)


@pytest.mark.check
def test_with_judged_queries_the_last_step_is_taken(index, tmp_path):
    queries = {f"q{n}": f"word{n % NUM_DOCUMENTS} asked {n}" for n in range(60)}
    qrels = [(f"q{n}", f"d{n % NUM_DOCUMENTS}", 1) for n in range(60)]
    judged = written(tmp_path, queries, qrels)
    settings = Distillation(
        teacher=str(DEFAULT_ENCODER),
        student=LOOKUP_QUERY_ENCODER.name,
        index=str(index),
        judged=(judged,),
        batch_size=6,
        epochs=1.6,
        every=4,
        patience=1,
        learning_rate=0.5,  # each step unlearns what was known
    )
    outcome = distill(settings, tmp_path / "run", progress=Listener())
    evaluations = [row for row in records(tmp_path / "run") if row["kind"] == "evaluation"]
    assert outcome.best_step == evaluations[-1]["step"]
    assert len(evaluations) > 4
    assert evaluations[-1]["cosine"] < evaluations[0]["cosine"]


def test_known_items_are_different_sentences_and_the_test_has_others(tmp_path):
    documents = [
        {"_id": f"d{n}", "text": " ".join(f"Fact {n} and {i} holds." for i in range(12))}
        | {"title": "The same title"}
        for n in range(120)
    ]
    build(documents, tmp_path / "index", language=None)
    texts = known_items(tmp_path / "index", tmp_path / "texts")
    parts = [
        {query.text: query.query_id for query in read_queries(Path(part.queries))}
        for part in (*texts.training, texts.test)
    ]
    assert len(parts[0]) + len(parts[1]) == 120 * 12 + 1  # the title counts once
    assert len(parts[1]) == (120 * 12 + 1) // 5
    assert not parts[0].keys() & parts[1].keys()
    qrels = read_qrels(Path(texts.test.qrels))
    for text, query_id in parts[1].items():
        if text.startswith("Fact"):
            assert qrels[query_id] == {f"d{text.split()[1]}": 1}


def judgements(pairs: list[tuple[str, str]]) -> JudgedSet:
    queries = [Query(str(number), text) for number, (text, _) in enumerate(pairs)]
    return JudgedSet(queries, {str(n): {d: 1} for n, (_, d) in enumerate(pairs)}, "")


def test_parts_have_neither_a_document_nor_words_in_common():
    pairs = [(f"query {n}", f"d{n // 3}") for n in range(300)]
    pairs += [("Query 5", "d77"), ("query 50 ", "d80")]  # the words of queries about others
    found = judgements(pairs)
    parts = split_by_documents(found)
    assert sum(map(len, parts)) == len(pairs)
    assert 50 <= len(parts[1]) <= 60
    documents = [{d for q in part for d in found.qrels[q.query_id]} for part in parts]
    words = [{q.text.strip().casefold() for q in part} for part in parts]
    for sets in (documents, words):
        assert len(set.union(*sets)) == sum(map(len, sets))
    shuffled = JudgedSet(found.queries[::-1], found.qrels, "")
    again = split_by_documents(shuffled)
    assert {q.query_id for q in again[1]} == {q.query_id for q in parts[1]}


@pytest.mark.parametrize(
    ("pairs", "counted"),
    [
        ([("query", "d1")], "is 1 and counts as 1"),
        ([("the same", f"d{n}") for n in range(200)], "is 200 and counts as 1"),
        ([(f"query {n}", "d1") for n in range(200)], "is 200 and counts as 1"),
        ([(f"query {n}", f"d{n}") for n in range(49)], "is 49 and counts as 49"),
    ],
)
def test_too_few_different_queries_are_refused(pairs, counted):
    with pytest.raises(TrainingDataError, match=f"at least 50 queries with .* {counted}:"):
        split_by_documents(judgements(pairs))
