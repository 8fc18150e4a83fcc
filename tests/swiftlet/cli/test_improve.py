"""`swiftlet improve`: judgements, candidates, a verdict, and the commands that it names."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from swiftlet.cli.main import INTERRUPTED
from swiftlet.evaluation.significance import PairedTest
from swiftlet.manifest import read_manifest
from swiftlet.relevance.log import LoggedSearch, LogWriter
from tests.command_line import refusal, swiftlet
from training.adaptation.improvement import LEAST_KEPT, REPORT, Candidate, Improvement


@pytest.fixture(scope="module")
def judgements(judged, tmp_path_factory) -> Path:
    """A folder of judged queries; read only."""
    folder = tmp_path_factory.mktemp("judgements")
    (folder / "qrels").mkdir()
    shutil.copy(judged[0], folder / "queries.jsonl")
    shutil.copy(judged[1], folder / "qrels" / "test.tsv")
    return folder


@pytest.fixture
def index(tiny_index, tmp_path) -> Path:
    """An index that may be changed."""
    return Path(shutil.copytree(tiny_index, tmp_path / "index"))


def logged(folder: Path, *queries: str) -> Path:
    """A log of searches."""
    log = LogWriter(folder, most_bytes=2**20, days=1)
    for number, query in enumerate(queries):
        fields = {"time": number, "id": f"{number}", "query": query, "mode": "dense"}
        log.append([LoggedSearch(**fields, session="", index="", hits=[])])
    log.close()
    return folder


def commands(printed: str) -> dict[str, list[str]]:
    """The arguments of the commands that were named, by their aim."""
    found = re.findall(r"^To (.*): swiftlet (.*)$", printed, re.MULTILINE)
    return {aim: shlex.split(command) for aim, command in found}


@pytest.mark.soak
def test_a_better_weight_is_published_and_taken_back_by_the_named_commands(
    index, judgements, tmp_path
):
    assert swiftlet("tune", index, "--weight", 1).exit_code == 0
    command = ("improve", index, "--judgements", judgements, "--out", tmp_path / "better")
    result = swiftlet(*command)
    assert result.exit_code == 0, result.output
    assert read_manifest(index).details["weight"] == 1
    named = commands(result.output)
    weight = float(named["publish"][-1])
    assert weight < 1
    for aim, expected in (("publish", weight), ("go back", 1)):
        assert swiftlet(*named[aim]).exit_code == 0
        assert read_manifest(index).details["weight"] == expected
    page = (tmp_path / "better" / REPORT).read_text("utf-8")
    assert f"Publish weight {weight:g}: nDCG@10 of 80 held-out queries is " in page
    assert f"SWIFTLET_CHALLENGER_WEIGHT={weight:g} swiftlet serve" in page
    again = refusal(swiftlet(*command))
    assert "better exists; choose another place" in again


@pytest.mark.soak
def test_an_adapted_encoder_is_published_after_an_interruption(
    corpus, tiny_encoder, judgements, tmp_path, monkeypatch
):
    index, out = tmp_path / "index", tmp_path / "better"
    options = (
        "--encoder",
        tiny_encoder,
        "--passage-tokens",
        24,
        "--dense-only",
        "--overlap-tokens",
        0,
    )
    assert swiftlet("index", corpus, "--out", index, *options).exit_code == 0
    log = logged(tmp_path / "log", "what is kalo", "what is kalo", "lolo")
    command = ("improve", index, "--judgements", judgements, "--out", out, "--log", log)

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("export.encoder_directory.export_encoder", interrupt)
        result = swiftlet(*command)
    assert result.exit_code == INTERRUPTED
    assert "run the same command again to continue" in result.output
    monkeypatch.setattr(
        "training.loop.loop.TrainingLoop.train", lambda *_: pytest.fail("trained again")
    )
    result = swiftlet(*command)
    assert result.exit_code == 0, result.output
    name = f"{read_manifest(tiny_encoder).details['name']}-adapted"
    assert sorted(each.name for each in out.iterdir()) == sorted([REPORT, name])
    assert commands(result.output)["publish"] == ["serve", f"{index}", "--encoder", f"{out / name}"]
    assert swiftlet("search", index, "kalo", "--encoder", out / name).exit_code == 0
    assert not (tmp_path / ".better.partial").exists()


def test_what_cannot_be_improved_is_refused_and_leaves_nothing(index, judgements, judged, tmp_path):
    out = tmp_path / "better"

    def refused(folder: Path, *options: object, to: Path = out) -> str:
        result = swiftlet("improve", index, "--judgements", folder, "--out", to, *options)
        assert not out.exists()
        assert not (tmp_path / ".better.partial").exists()
        return refusal(result)

    assert "is the index or in it: choose a place outside" in refused(judgements, to=index / "a")
    assert "there is no such file" in refused(tmp_path / "absent")
    assert "is no folder; the folder of SWIFTLET_QUERY_LOG" in refused(
        judgements, "--log", tmp_path / "absent"
    )
    few = tmp_path / "few"
    assert swiftlet("judge", few, "--index", index).exit_code != 0  # without titles
    log = logged(tmp_path / "log", "what is kalo")
    assert swiftlet("judge", few, "--index", index, "--log", log).exit_code == 0
    told = refused(few)
    assert "no evidence: too few: 50 more judgements are expected" in told
    gone = Path(shutil.copytree(judgements, tmp_path / "gone"))
    with (gone / "qrels" / "test.tsv").open("a") as qrels:
        qrels.write("\nq0\tnowhere\t1\n")
    assert "1 unknown document ids ('nowhere')" in refused(gone)
    (gone / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\t1\t1\n")
    told = refused(gone)
    assert "at least 50 queries with different words" in told
    assert told.endswith("from 10 on, swiftlet tune finds a weight")
    assert swiftlet("delete", index, "1").exit_code == 0
    assert f"run swiftlet compact {index} first" in refused(judgements)


def candidate(
    name: str, mean: float, *, p_value: float = 0.01, kept: float | None = 1.0, unjudged: float = 0
) -> Candidate:
    """A candidate beside a mean of 0.5."""
    test = PairedTest(50, mean, 0.5, mean - 0.5, p_value)
    is_encoder = not name.startswith("weight")
    return Candidate(
        name=name, encoder=is_encoder, test=test, p_value=p_value, unjudged=unjudged, kept=kept
    )


def improvement(*candidates: Candidate) -> Improvement:
    """What a search with a weight of 0.5 may become."""
    return Improvement(
        index=Path("index"),
        judgements=Path("judgements"),
        out=Path("better"),
        encoder=None,
        mode="hybrid",
        weight=0.5,
        num_learnt=200,
        unjudged=0.1,
        candidates=candidates,
    )


def test_the_best_significant_candidate_that_keeps_sentences_is_published():
    found = improvement(
        candidate("weight 0.6", 0.55, kept=None),
        candidate("chance", 0.8, p_value=0.06),
        candidate("forgetful", 0.9, kept=LEAST_KEPT - 0.01),
        candidate("good", 0.6, kept=LEAST_KEPT),
    )
    assert found.best is not None
    assert found.best.name == "good"
    (lost,) = found.advice()
    assert lost.startswith("forgetful keeps less than 98%")


@pytest.mark.parametrize(("mean", "p_value"), [(0.4, 0.001), (0.6, 0.051), (0.5, 0)])
def test_nothing_is_published_that_is_worse_or_may_be_chance(mean, p_value):
    found = improvement(candidate("other", mean, p_value=p_value))
    assert found.best is None
    assert found.commands == []
    assert found.verdict.startswith("keep what you have")
    assert [*found.advice()] == ["More judged queries show smaller differences."]


def test_documents_that_nobody_has_judged_are_sent_to_the_judges():
    found = improvement(candidate("other", 0.6, unjudged=0.3), candidate("weight 0.6", 0.6))
    (told,) = found.advice()
    assert told.startswith("Nobody has judged 30% of what other finds, and 10% of what today's")
    assert told.endswith("swiftlet judge judgements --index index --encoder better/other")
