"""`swiftlet adapt`."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from swiftlet.cli.main import INTERRUPTED
from swiftlet.encoders import DEFAULT_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.manifest import load_manifest, read_manifest, write_manifest
from tests.command_line import refusal, swiftlet
from tests.swiftlet.cli.conftest import DOCUMENTS
from training.model.towers import Tower


@pytest.fixture(scope="module")
def adapted(tiny_index, judged, tmp_path_factory) -> tuple[Path, str]:
    """An encoder adapted by judgements, and what the command printed; read only."""
    queries, qrels = judged
    out = tmp_path_factory.mktemp("adapted") / "adapted"
    options = ("--queries", queries, "--qrels", qrels, "--set", "learning_rate=3e-3")
    result = swiftlet("adapt", tiny_index, "--out", out, *options)
    assert result.exit_code == 0, result.output
    return out, result.stdout


def test_an_encoder_adapted_by_judgements_is_better_on_others(adapted):
    out, printed = adapted
    tests = load_manifest(out, "encoder").details["adaptation"]
    assert sorted(tests) == ["dense", "hybrid"]
    assert tests["dense"]["num_queries"] == 2 * DOCUMENTS // 5
    assert tests["dense"]["difference"] > 0.05
    assert tests["dense"]["p_value"] < 0.01
    assert f"nDCG@10 of {2 * DOCUMENTS // 5} held-out queries" in printed
    row = next(line for line in printed.splitlines() if " dense " in line)
    assert f"{tests['dense']['mean']:.4f}" in row


def test_it_says_whether_to_use_it(adapted, tiny_index, tiny_encoder):
    out, printed = adapted
    hybrid = load_manifest(out, "encoder").details["adaptation"]["hybrid"]
    use = hybrid["difference"] > 0 and hybrid["p_value"] <= 0.05
    said = " ".join(printed.split())
    assert ("use it, as in: swiftlet serve" in said) == use
    assert ("keep what you have" in said) != use
    before, after = (read_manifest(each, "encoder") for each in (tiny_encoder, out))
    assert after.details["default_precision"] == before.details["default_precision"]
    found = swiftlet("search", tiny_index, "kalo", "--mode", "dense", "--encoder", out)
    assert found.exit_code == 0


@pytest.mark.soak
def test_it_is_a_start_again(adapted, tiny_index, tiny_encoder, tmp_path):
    out, _ = adapted
    options = ("--student", out, "--set", "epochs=0.01", "--set", "learning_rate=1e-9")
    assert swiftlet("adapt", tiny_index, "--out", tmp_path / "again", *options).exit_code == 0
    name = read_manifest(tiny_encoder).details["name"]
    details = [read_manifest(each).details for each in (out, tmp_path / "again")]
    assert {each["name"] for each in details} == {f"{name}-adapted"}
    first, again = (
        OnnxEncoder.load(each, precision="fp32").encode(["kalo mine", "lolo"])
        for each in (out, tmp_path / "again")
    )
    np.testing.assert_allclose(first, again, atol=1e-5)


def test_sentences_are_enough(tiny_index, tiny_encoder, tmp_path):
    log = tmp_path / "log.txt"
    log.write_text("what is kalo\nwho has a lolo")
    options = ("--student", tiny_encoder, "--queries", log, "--set", "epochs=1")
    result = swiftlet("adapt", tiny_index, "--out", tmp_path / "adapted", *options)
    assert result.exit_code == 0, result.output
    tests = read_manifest(tmp_path / "adapted").details["adaptation"]
    assert tests["dense"]["num_queries"] >= 200
    assert tests["dense"]["mean"] != tests["dense"]["baseline_mean"]
    assert list(tests) == ["dense"]
    assert "held-out sentences, each a query for its document" in " ".join(result.stdout.split())
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["adapted"]


@pytest.mark.soak
def test_an_interrupted_adaptation_goes_on(tiny_index, tmp_path, monkeypatch):
    command = ("adapt", tiny_index, "--out", tmp_path / "adapted", "--set", "epochs=0.1")

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("export.encoder_directory.export_encoder", interrupt)
        result = swiftlet(*command)
    assert result.exit_code == INTERRUPTED
    assert "run the same command again to continue" in result.output
    assert [path.name for path in tmp_path.iterdir()] == [".adapted.partial"]
    monkeypatch.setattr(
        "training.loop.loop.TrainingLoop.train", lambda *_: pytest.fail("trained again")
    )
    assert swiftlet(*command).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["adapted"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--student", LOOKUP_QUERY_ENCODER.name], "gives 384 numbers, the index has 32"),
        (["--student", "absent"], "absent is not a directory, nor the name of an encoder"),
        (["--queries", "absent.txt"], "absent.txt: there is no such file"),
        (["--set", "epochs=0"], "--set epochs is 0, but should be greater than 0"),
        (["--set", "colour=red"], "--set colour: the settings are average, batch_size, "),
        (["--set", "teacher=other"], "--set teacher: the settings are average, batch_size, "),
        (["--set", "learning_rate=1e30"], "--set learning_rate is 1e+30, but should be at most 1"),
        (["--queries", "{queries}", "--qrels", "{unknown}"], "1 unknown document ids ('nowhere')"),
        (
            ["--queries", "{queries}", "--qrels", "{few}"],
            "the number of queries is 1 and counts as 1",
        ),
        (
            ["--queries", "{queries}", "--qrels", "{unknown}", "--allow-unknown"],
            "unknown: no query has a relevant document in the index",
        ),
    ],
)
def test_what_cannot_be_adapted_is_refused_and_leaves_nothing(
    tiny_index, judged, tmp_path, options, complaint, monkeypatch
):
    if "--qrels" not in options:  # which name documents of the index that is searched
        monkeypatch.setattr(Tower, "load", lambda *_: pytest.fail("a model was loaded"))
    files, out = {"queries": judged[0]}, tmp_path / "out"
    for name, document in (("unknown", "nowhere"), ("few", "1")):
        files[name] = tmp_path / name
        files[name].write_text(f"query-id\tcorpus-id\tscore\nq0\t{document}\t1\n")
    words = [each.format_map(files) for each in options]
    assert complaint in refusal(swiftlet("adapt", tiny_index, "--out", out, *words))
    assert not out.exists()
    assert not (tmp_path / ".out.partial").exists()


def test_another_document_encoder_than_that_of_the_index_is_refused(small_index, tmp_path):
    other = ("--encoder", LOOKUP_QUERY_ENCODER.name)
    found = refusal(swiftlet("adapt", small_index, "--out", tmp_path / "out", *other))
    assert "the index was built by the encoder 'all-Mini" in found


def test_an_index_is_not_replaced_by_an_encoder(tiny_index, tmp_path):
    copied = tmp_path / "index"
    shutil.copytree(tiny_index, copied)
    found = refusal(swiftlet("adapt", tiny_index, "--out", copied, "--overwrite"))
    assert "is not overwritten: it is an artefact of the kind 'index', and not 'encoder'" in found
    for place in (copied, copied / "encoder"):
        found = refusal(swiftlet("adapt", copied, "--out", place, "--overwrite"))
        assert found.endswith(f"{place} is the index or in it: choose a place outside")


@pytest.mark.soak
def test_the_index_of_another_document_encoder_is_adapted_with_a_student_of_its_space(
    corpus, tmp_path
):
    names = {"document": DEFAULT_ENCODER, "query": LOOKUP_QUERY_ENCODER}
    for name, shipped in names.items():
        shutil.copytree(shipped, tmp_path / name)
        manifest = replace(read_manifest(tmp_path / name), embedding_space="f" * 64)
        write_manifest(tmp_path / name, manifest)
    document, query, index = (tmp_path / name for name in ("document", "query", "index"))
    assert swiftlet("index", corpus, "--encoder", document, "--out", index).exit_code == 0
    command = ("adapt", index, "--out", tmp_path / "adapted")
    shipped = swiftlet(*command, "--student", LOOKUP_QUERY_ENCODER.name)
    assert "is of the embedding space" in refusal(shipped)
    result = swiftlet(*command, "--student", query, "--set", "epochs=0.1")
    assert result.exit_code == 0, result.output
    assert read_manifest(tmp_path / "adapted").embedding_space == "f" * 64


def test_changes_must_be_merged_before(tiny_index, tmp_path):
    copied = tmp_path / "index"
    shutil.copytree(tiny_index, copied)
    assert swiftlet("delete", copied, "1").exit_code == 0
    found = refusal(swiftlet("adapt", copied, "--out", tmp_path / "out"))
    assert found.endswith(f"has changes that are not merged: run swiftlet compact {copied} first")
    found = refusal(swiftlet("adapt", tmp_path, "--out", tmp_path / "out"))
    assert "manifest" in found
