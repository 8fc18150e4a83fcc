"""`swiftlet export` writes an encoder or a re-ranker, and measures an encoder again."""

import re
from pathlib import Path

import pytest

from swiftlet.encoders import MULTILINGUAL, find
from swiftlet.manifest import read_manifest
from tests.command_line import refusal, swiftlet
from training.model.towers import Tower, TowerSettings


@pytest.fixture(scope="module")
def bert(checkpoints) -> Path:
    return checkpoints["bert"]


@pytest.fixture(scope="module")
def encoder(bert, tmp_path_factory) -> Path:
    """An encoder directory that the command wrote."""
    out = tmp_path_factory.mktemp("export") / "out"
    result = swiftlet("export", "encoder", bert, "--out", out, "--pooling", "mean")
    assert result.exit_code == 0, result.output
    assert f"{out}: 32 dimensions" in result.stdout
    assert re.search(r"│ int8 \(default\) +│ +0\.9\d+ │ +0\.9\d+ │", result.stdout), result.stdout
    return out


@pytest.mark.parametrize("first", ["model", "option"])
def test_without_a_name_the_command_is_that_of_the_model(first, bert, encoder, tmp_path):
    out, model = ("--out", tmp_path / "out"), (bert,)
    given = (*model, *out) if first == "model" else (*out, *model)
    result = swiftlet("export", *given, "--pooling", "mean")
    assert result.exit_code == 0, result.output
    assert read_manifest(tmp_path / "out") == read_manifest(encoder)


def test_the_help_lists_the_commands():
    shown = swiftlet("export", "--help").stdout
    assert re.findall(r"│ (\w+) +Write ", shown) == ["encoder", "reranker", "router", "verify"]
    assert "by-model" not in shown


@pytest.mark.parametrize("form", ["verify", "--verify"])
def test_verifying_prints_parity_and_the_latency_of_every_variant(form, bert, encoder):
    before = {path: path.read_bytes() for path in encoder.iterdir()}
    given = ("verify", bert, encoder) if form == "verify" else (bert, "--out", encoder, "--verify")
    result = swiftlet("export", *given)
    assert result.exit_code == 0, result.output
    assert {path: path.read_bytes() for path in encoder.iterdir()} == before
    latencies = result.stdout[result.stdout.index("Latency") :]
    for precision in ("fp32", "int8"):
        assert re.search(rf"│ {precision} +│ +1 │( +\d+\.\d{{3}} │){{3}}", latencies), latencies


@pytest.mark.parametrize("option", [("--overwrite",), ("--name", "x"), ("--dim", "8")])
def test_verifying_and_writing_contradict_each_other(option, bert, encoder):
    sentence = refusal(swiftlet("export", bert, "--out", encoder, "--verify", *option))
    assert sentence == (f"{option[0]} is for writing {encoder}, but --verify only measures it")


def test_an_option_of_another_kind_of_model_is_refused(bert, checkpoints, tmp_path):
    given = "export", bert, "--out", tmp_path / "out", "--weight", "1"
    assert refusal(swiftlet(*given)) == (
        f"{bert} is an encoder, which takes no --weight: leave it out"
    )
    for kind, sentence in {
        "reranker": f"{bert} is no cross-encoder: export it as an encoder",
        "router": f"{bert} is no Router of two encoders: export it as an encoder",
    }.items():
        assert refusal(swiftlet("export", kind, bert, "--out", tmp_path / "out")) == sentence
    assert not (tmp_path / "out").exists()


def test_a_default_that_is_not_good_enough_is_an_error_after_the_tables(bert, encoder, monkeypatch):
    monkeypatch.setattr("export.report.SMALLEST_COSINE", 1.5)
    result = swiftlet("export", "verify", bert, encoder)
    sentence = refusal(result)
    assert sentence.startswith(f"{encoder} is not good enough: the smallest cosine of i")
    assert "Latency" in result.stdout


def test_a_bad_variant_that_is_not_the_default_is_a_note(bert, tmp_path, monkeypatch):
    monkeypatch.setattr("export.report.SMALLEST_COSINE", 1.5)
    out = tmp_path / "out"
    result = swiftlet("export", "encoder", bert, "--out", out, "--pooling", "mean")
    assert result.exit_code == 0, result.output
    assert "│ fp32 (default)" in result.stdout
    assert "Note: the smallest cosine of int8 with torch is" in result.stderr


@pytest.mark.check
def test_the_multilingual_encoder_is_made_of_weights_and_found_by_its_name(
    bert, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path / 'cache'}")
    Tower.load(TowerSettings(model=bert, pooling="mean")).save(tmp_path / "model")
    result = swiftlet("encoders", "get", "multilingual", "--model", tmp_path / "model")
    assert result.exit_code == 0, result.output
    assert "swiftlet index CORPUS --encoder multilingual" in result.stdout
    manifest = read_manifest(find(MULTILINGUAL), "encoder")
    assert manifest.details["prompts"] == {"query": "query: ", "passage": "passage: "}
    assert manifest.details["precisions"] == ["int8"]
    assert manifest.details["weight"] == 0.94


def test_other_weights_are_for_the_multilingual_encoder_alone():
    refused = refusal(swiftlet("encoders", "get", "owner/model", "--vocabulary", "texts.txt"))
    assert refused.startswith("--model and --vocabulary are for multilingual")
