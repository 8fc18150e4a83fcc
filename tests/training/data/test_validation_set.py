"""The validation set: held out from the training data, or read from other sources."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from swiftlet.index.documents.passages import PassageSplitter
from training.data.sources import DataSource
from training.data.training_data import TrainingData, read_training_data
from training.data.validation_set import ValidationSet, hold_out, validation_from
from training.errors import TrainingDataError

NUM_DOCUMENTS = 40
# The last five say what the first five do.
QUERIES = [f"What is number {n}?" for n in range(20)] + [f"what IS  number {n}?" for n in range(5)]

Settings = dict[str, object]


@pytest.fixture
def source(tmp_path) -> DataSource:
    """Query n of the 25 has the documents n (grade 1), n + 1 (grade 2), n + 20 and 39 (0)."""
    (tmp_path / "qrels").mkdir()
    documents = [{"_id": f"d{n}", "text": f"text {n} " * 30} for n in range(NUM_DOCUMENTS)]
    queries = [{"_id": f"q{n}", "text": text} for n, text in enumerate(QUERIES)]
    for name, records in (("corpus", documents), ("queries", queries)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, records)))
    grades = [(n, {n: 1, n + 1: 2, n + 20: 0, 39: 0}) for n in range(len(QUERIES))]
    lines = [f"q{n}\td{d}\t{grade}\n" for n, found in grades for d, grade in found.items()]
    (tmp_path / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))
    return DataSource(corpus=str(tmp_path), qrels="train")


@pytest.fixture
def settings(tmp_path, shipped_encoder) -> Settings:
    return {
        "directory": tmp_path / "store",
        "splitter": PassageSplitter(shipped_encoder.tokenizer, 24, 0),
    }


@pytest.fixture
def data(source, settings) -> TrainingData:
    return read_training_data([source], **settings)


def contents(validation: ValidationSet) -> tuple[object, ...]:
    return validation.query_ids, validation.queries, validation.qrels, validation.rows.tolist()


def grades_of(number: int) -> dict[str, int]:
    """The judgements for the words of query `number`; queries 20 … 24 have the words of 0 … 4."""
    grades = {f"d{number + 20}": 0, "d39": 0, f"d{number}": 1, f"d{number + 1}": 2}
    if number < 5:
        grades |= {f"d{number + 20}": 1, f"d{number + 21}": 2}
    return grades


def words(query: str) -> str:
    return " ".join(query.lower().split())


@pytest.mark.parametrize("seed", range(8))
def test_a_held_out_query_is_nowhere_in_the_training_data(data, seed):
    training, validation = hold_out(data, 8, seed)
    held_out = set(map(words, validation.queries))
    assert len(held_out) == len(validation.queries) == len(validation.query_ids) == 8
    assert not held_out & set(map(words, training.queries))
    assert not set(validation.query_ids) & set(training.query_ids)
    left = {words(query) for query in data.queries} - held_out
    assert set(map(words, training.queries)) == left


@pytest.mark.parametrize("seed", range(3))
def test_remaining_queries_keep_their_pairs_judgements_and_positives(data, seed):
    training, _ = hold_out(data, 8, seed)
    assert training.passages is data.passages

    def of(some: TrainingData) -> tuple[Counter[object], set[object], dict[str, list[int]]]:
        pairs = Counter((some.query_ids[q], row) for q, row in some.pairs.tolist())
        judged = {(some.query_ids[q], d, grade) for q, d, grade in some.judgements.tolist()}
        known = {name: some.known.of(q).tolist() for q, name in enumerate(some.query_ids)}
        return pairs, judged, known

    before, after = of(data), of(training)
    kept = set(training.query_ids)
    assert after[0] == Counter({pair: n for pair, n in before[0].items() if pair[0] in kept})
    assert after[1] == {judgement for judgement in before[1] if judgement[0] in kept}
    assert after[2] == {name: rows for name, rows in before[2].items() if name in kept}
    assert len(training.known) == len(training.queries)


def test_the_held_out_queries_depend_on_the_seed_alone(data):
    first, again, other = (hold_out(data, 8, seed, max_passages=60)[1] for seed in (1, 1, 2))
    assert contents(first) == contents(again)
    assert set(first.query_ids) != set(other.query_ids)


def test_validation_queries_have_the_grades_of_all_queries_of_their_words(data):
    _, validation = hold_out(data, 8, 0)
    for query_id, query in zip(validation.query_ids, validation.queries, strict=True):
        number = int(query_id[1:])
        assert query == QUERIES[number]
        assert validation.qrels[query_id] == grades_of(number)
    assert validation.rows.tolist() == list(range(data.passages.num_passages))


@pytest.mark.parametrize("max_passages", [1, 60, 10_000])
def test_relevant_passages_are_always_searched_and_others_up_to_the_bound(data, max_passages):
    _, validation = hold_out(data, 8, 0, max_passages=max_passages)
    relevant = {
        document_id
        for grades in validation.qrels.values()
        for document_id, grade in grades.items()
        if grade > 0
    }
    needed = data.passages.rows_of(data.passages.document_ids.numbers([*relevant]))
    assert len(needed) > 10
    assert set(needed.tolist()) <= set(validation.rows.tolist())
    assert (np.diff(validation.rows) > 0).all()
    bound = min(max(max_passages, len(needed)), data.passages.num_passages)
    assert len(validation.rows) == bound


def test_sources_of_their_own_give_validation_queries(source, settings):
    everything = validation_from([source], **settings)
    assert everything.queries == QUERIES[:20]
    assert everything.query_ids == [f"q{n}" for n in range(20)]
    assert everything.qrels == {f"q{n}": grades_of(n) for n in range(20)}
    assert len(everything.rows) == everything.passages.num_passages
    some = validation_from([source], **settings, num_queries=5, max_passages=100, seed=3)
    again = validation_from([source], **settings, num_queries=5, max_passages=100, seed=3)
    assert contents(some) == contents(again)
    assert len(some.queries) == 5
    assert len(some.rows) == 100
    assert some.qrels.items() <= everything.qrels.items()


def test_a_single_judged_query_can_validate_but_not_train(source, settings, tmp_path):
    (tmp_path / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    assert validation_from([source], **settings).qrels == {"q1": {"d1": 1}}
    with pytest.raises(TrainingDataError, match="has 1 pair"):
        read_training_data([source], **settings)


@pytest.mark.parametrize(("wanted", "count", "held_out"), [(9, 20, 8), (9, 50, 9), (30, 50, 10)])
def test_at_most_a_fifth_of_the_queries_is_held_out_but_eight_at_least(
    data, wanted, count, held_out
):
    queries = [f"query {number}" for number in range(count)]
    pairs = np.array([(number, 0) for number in range(count)])
    many = replace(
        data,
        query_ids=queries,
        queries=queries,
        pairs=pairs,
        judgements=np.array([(number, 0, 1) for number in range(count)]),
    )
    training, validation = hold_out(many, wanted, 0)
    assert len(validation.queries) == held_out
    assert len(training.queries) == count - held_out


def test_too_few_queries_to_hold_out_are_refused(data):
    few = data.keep_queries(np.arange(25) < 8)
    with pytest.raises(TrainingDataError, match="is 8: more than 8 are needed"):
        hold_out(few, 8, 0)


def test_too_few_remaining_pairs_are_refused(data):
    few = data.keep_queries(np.arange(25) < 9)
    few = replace(few, pairs=few.pairs[::2])
    message = r"^8 validation queries are held out, and of \d+ pairs that leaves 1 to train on"
    with pytest.raises(TrainingDataError, match=message):
        hold_out(few, 8, 0)


def test_given_negatives_stay_with_their_pairs(source, settings, tmp_path):
    lines = [f"q{n}\td{n}\td{n + 5}\n" for n in range(20)]
    (tmp_path / "triples.tsv").write_text("".join(lines))
    triples = DataSource(corpus=source.corpus, triples=str(tmp_path / "triples.tsv"))
    training, _ = hold_out(read_training_data([triples], **settings), 8, 0)
    documents = training.passages.passage_to_document
    assert training.given_negatives is not None
    assert len(training.given_negatives) == 12
    found: Callable[[np.ndarray], np.ndarray] = documents.__getitem__
    assert (found(training.given_negatives) == found(training.pairs[:, 1]) + 5).all()
