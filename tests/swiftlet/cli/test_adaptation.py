"""`swiftlet index --adapt-queries`."""

import json
import shutil
from dataclasses import replace

import pytest

from export.encoder_directory import export_encoder
from swiftlet.cli.main import INTERRUPTED
from swiftlet.encoders import DEFAULT_QUERY_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.manifest import load_manifest, read_manifest, write_manifest
from tests.command_line import refusal, swiftlet
from tests.runs import Listener
from training.adaptation import adaptation
from training.errors import TrainingStoppedError


@pytest.fixture
def tiny(tiny_encoder) -> tuple[object, ...]:
    """Options by which the tiny encoder indexes, and is adapted."""
    of_index = ("--encoder", tiny_encoder, "--passage-tokens", 24, "--overlap-tokens", 0)
    return (*of_index, "--adapt-queries", "--student", tiny_encoder)


def test_searches_use_an_encoder_that_finds_more_on_documents_it_has_not_seen(
    corpus, tiny, tmp_path, monkeypatch
):
    monkeypatch.setitem(adaptation.OF_LAYERS, "learning_rate", 3e-3)
    index, log = tmp_path / "index", tmp_path / "log.txt"
    log.write_text("what is kalo\nwho has a lolo")
    result = swiftlet("index", corpus, "--out", index, *tiny, "--queries", log)
    assert result.exit_code == 0, result.output
    assert "the query encoder bert is adapted: nDCG@10 of " in " ".join(result.stderr.split())
    figures = read_manifest(index).details["query_encoder"]
    assert figures["name"] == "bert-adapted"
    assert figures["held_out"] >= 200
    assert figures["ndcg@10"]["after"] > figures["ndcg@10"]["before"]
    adapted = load_manifest(index / "query_encoder", "encoder")
    assert adapted.embedding_space == read_manifest(index).embedding_space
    assert adapted.details["name"] == "bert-adapted"
    assert swiftlet("search", index, "kalo lolo", "--mode", "dense").exit_code == 0
    assert "bert-adapted" in swiftlet("inspect", index).stdout


@pytest.mark.soak
@pytest.mark.parametrize(
    ("options", "student"),
    [
        ((), LOOKUP_QUERY_ENCODER),
        (("--student", DEFAULT_QUERY_ENCODER.name), DEFAULT_QUERY_ENCODER),
    ],
)
def test_the_query_encoders_that_ship_are_adapted_too(corpus, options, student, tmp_path):
    result = swiftlet("index", corpus, "--out", tmp_path / "index", "--adapt-queries", *options)
    assert result.exit_code == 0, result.output
    figures = read_manifest(tmp_path / "index").details["query_encoder"]
    assert figures["name"] == f"{student.name}-adapted"
    assert figures["ndcg@10"]["after"] > figures["ndcg@10"]["before"]


def test_an_encoder_that_is_not_better_is_not_kept(corpus, tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(adaptation.OF_LAYERS, "learning_rate", 1e-12)
    result = swiftlet("index", corpus, "--out", tmp_path / "index", *tiny)
    assert result.exit_code == 0, result.output
    assert "is not adapted: nDCG@10 of" in " ".join(result.stderr.split())
    assert "query_encoder" not in read_manifest(tmp_path / "index").details
    assert not (tmp_path / "index" / "query_encoder").exists()


def test_a_training_that_cannot_go_on_leaves_no_run(tiny_index, tiny_encoder, tmp_path):
    wild = {"learning_rate": 1e30}
    diverging = adaptation.Adaptation(
        tiny_encoder, tiny_encoder, export_encoder, progress=Listener(), settings=wild
    )
    with pytest.raises(TrainingStoppedError, match=r"pass --set learning_rate=… below 1e\+30"):
        diverging.adapt(tiny_index, tmp_path)
    assert not list(tmp_path.glob("run-*/*"))


@pytest.mark.soak
def test_an_interrupted_adaptation_goes_on_with_what_was_encoded(corpus, tmp_path, monkeypatch):
    command = ("index", corpus, "--out", tmp_path / "index", "--adapt-queries")

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt("run the same command with --resume")

    with monkeypatch.context() as patch:
        patch.setattr("training.loop.loop.TrainingLoop.train", interrupt)
        result = swiftlet(*command)
    assert result.exit_code == INTERRUPTED
    assert "--resume" not in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == [".index.partial"]
    monkeypatch.setattr(
        "training.distillation.teacher.Teacher.encode",
        lambda *_: pytest.fail("the teacher was asked again"),
    )
    result = swiftlet(*command)
    assert result.exit_code == 0, result.output
    assert "going on after" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--student", "{other}"], "(by the encoder 'all-MiniLM-L6-v2')"),
        (["--student", "absent"], "absent"),
        (["--queries", "absent.txt"], "absent.txt: there is no such file"),
    ],
)
def test_what_cannot_be_adapted_is_refused_before_the_build(corpus, tmp_path, options, complaint):
    other = tmp_path / "other"
    shutil.copytree(LOOKUP_QUERY_ENCODER, other)
    write_manifest(other, replace(read_manifest(other), embedding_space="f" * 64))
    command = ("index", corpus, "--out", tmp_path / "index", "--adapt-queries")
    result = swiftlet(*command, *(each.format(other=other) for each in options))
    assert complaint in refusal(result)
    assert "Reading documents" not in result.stderr


def test_options_of_an_adaptation_need_one(corpus, tmp_path):
    found = refusal(swiftlet("index", corpus, "--out", tmp_path / "i", "--queries", "log.txt"))
    assert found.endswith("are for --adapt-queries: pass it, too")


def test_a_corpus_that_is_too_small_is_refused(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text("\n".join(json.dumps({"_id": f"{n}", "text": f"tea {n}"}) for n in range(30)))
    found = refusal(swiftlet("index", path, "--out", tmp_path / "index", "--adapt-queries"))
    assert "the corpus is too small to adapt to: " in found
    assert "it has 30 different sentences, at least 1,000 are needed" in found
    assert not (tmp_path / "index").exists()
