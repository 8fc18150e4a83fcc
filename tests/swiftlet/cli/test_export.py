"""`swiftlet export` writes an encoder or a re-ranker, and measures an encoder again."""

import re
from pathlib import Path

import pytest

from swiftlet.manifest import read_manifest
from tests.command_line import refusal, swiftlet


@pytest.fixture(scope="module")
def bert(checkpoints: dict[str, Path]) -> Path:
    return checkpoints["bert"]


@pytest.fixture(scope="module")
def encoder(bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
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
