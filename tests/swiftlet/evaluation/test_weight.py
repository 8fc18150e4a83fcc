"""Tuning the weight of hybrid searches, on an index where only words tell documents apart."""

import random
import shutil
from pathlib import Path

import pytest

import swiftlet
from swiftlet.errors import ArtefactError, EvaluationError, InvalidArgumentError
from swiftlet.evaluation import weight
from swiftlet.evaluation.weight import TunedWeight, weights_to_try
from swiftlet.manifest import change_details, load_manifest
from swiftlet.search.request import DEFAULT_WEIGHT
from tests.command_line import refusal
from tests.command_line import swiftlet as command

CODES = [f"{random.Random(number).getrandbits(32):08x}" for number in range(60)]
QUERIES = {code: f"spare part {code}" for code in CODES[:20]}
QRELS = {code: {code: 1} for code in QUERIES}


@pytest.fixture(scope="module")
def spare_parts(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("parts") / "index"
    filling = "A spare part for ships, to be kept dry. " * 8
    rows = [{"_id": code, "text": f"{filling}{code}"} for code in CODES]
    swiftlet.build(rows, out)
    return out


@pytest.fixture
def index(spare_parts, tmp_path) -> Path:
    """A copy of the index, of which hybrid searches weigh only the meaning."""
    shutil.copytree(spare_parts, tmp_path / "index")
    change_details(tmp_path / "index", {"weight": 1.0})
    return tmp_path / "index"


def test_a_better_weight_is_written_with_its_evidence_and_used(index):
    tuned = swiftlet.tune(index, QUERIES, QRELS)
    assert tuned.dense == tuned.before < 0.9
    assert tuned.lexical == tuned.cross_validated == 1
    details = load_manifest(index, "index").details
    assert details["weight"] == tuned.weight < 1
    assert details["weight_evidence"]["num_queries"] == 20
    with swiftlet.open(index) as searcher:
        assert searcher.weight == tuned.weight
        found = [searcher.search(query, 1)[0].document_id for query in QUERIES.values()]
        assert found == [*QUERIES]


def test_an_index_that_is_being_written_is_refused_before_any_search(index):
    with (
        swiftlet.write(index),
        pytest.raises(ArtefactError, match=r"another process is writing .*or stop it"),
    ):
        swiftlet.tune(index, QUERIES, QRELS)
    assert swiftlet.tune(index, QUERIES, QRELS).is_better
    assert [*index.parent.iterdir()] == [index]


def test_an_index_cannot_be_written_while_it_is_tuned(index, monkeypatch):
    def tune_weight(*arguments: object) -> TunedWeight:
        with pytest.raises(ArtefactError, match="another process is writing"):
            swiftlet.write(index)
        return find(*arguments)

    find = weight.tune_weight
    monkeypatch.setattr(weight, "tune_weight", tune_weight)
    tuned = swiftlet.tune(index, QUERIES, QRELS)
    with swiftlet.write(index) as writer:
        writer.put([{"id": "new", "text": "A new part."}])
        writer.compact()
    with swiftlet.open(index) as searcher:
        assert (searcher.weight, searcher.num_documents) == (tuned.weight, len(CODES) + 1)


def test_a_weight_that_is_as_good_as_any_stays(index):
    swiftlet.tune(index, QUERIES, QRELS)
    before = load_manifest(index, "index")
    again = swiftlet.tune(index, QUERIES, QRELS)
    assert not again.is_better
    assert load_manifest(index, "index") == before


def test_too_few_queries_are_refused(index):
    few = dict([*QUERIES.items()][:9])
    with pytest.raises(EvaluationError, match="9 judged queries are too few to tune a weight: 10"):
        swiftlet.tune(index, few, {code: QRELS[code] for code in few})


def test_an_index_without_words_is_refused(tmp_path):
    swiftlet.build(
        [{"_id": code, "text": code} for code in CODES], tmp_path / "index", language=None
    )
    with pytest.raises(InvalidArgumentError, match="the index has no words"):
        swiftlet.tune(tmp_path / "index", QUERIES, QRELS)


def test_the_weight_in_use_is_among_those_tried():
    assert DEFAULT_WEIGHT in weights_to_try(DEFAULT_WEIGHT)
    assert len(weights_to_try(0.123)) == len(weights_to_try(0.72)) + 1 == 27


def test_the_command_says_what_it_found(index, tmp_path):
    (tmp_path / "queries.tsv").write_text("".join(f"{q}\t{text}\n" for q, text in QUERIES.items()))
    (tmp_path / "qrels.tsv").write_text("".join(f"{code} 0 {code} 1\n" for code in QUERIES))
    given = ("--queries", tmp_path / "queries.tsv", "--qrels", tmp_path / "qrels.tsv")
    tuned = command("tune", index, *given)
    assert "lexical 1.0000" in tuned.stdout
    assert "tuned 1.0000" in tuned.stdout
    found = load_manifest(index, "index").details["weight"]
    assert f"the weight is now {found:g}" in tuned.stdout
    assert "the weight stays as it was" in command("tune", index, *given).stdout
    assert "absent" in refusal(command("tune", tmp_path / "absent", *given))
    assert command("delete", index, CODES[0]).exit_code == 0
    assert "--allow-unknown" in refusal(command("tune", index, *given))
    assert command("tune", index, *given, "--allow-unknown").exit_code == 0
    for options in (given[:2], (), (*given, "--reset"), ("--weight", 0, "--reset")):
        assert "or --weight or --reset alone" in refusal(command("tune", index, *options))
    assert load_manifest(index, "index").details["weight"] == found
    assert f"the weight is now {DEFAULT_WEIGHT:g}" in command("tune", index, "--reset").stdout
    with swiftlet.open(index) as searcher:
        assert searcher.weight == DEFAULT_WEIGHT
