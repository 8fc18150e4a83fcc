"""`swiftlet export` writes an encoder, and with --verify measures one."""

import re
from pathlib import Path

import pytest
from click.testing import Result

from swiftlet.cli.main import REFUSED
from swiftlet.manifest import read_manifest
from tests.command_line import swiftlet


def refusal(result: Result) -> str:
    """The one sentence of a command that was refused."""
    assert result.exit_code == REFUSED, result.output
    lines = result.stderr.splitlines()
    return " ".join(lines[next(n for n, x in enumerate(lines) if x.startswith("swiftlet: ")) :])


@pytest.fixture(scope="module")
def bert(checkpoints: dict[str, Path]) -> Path:
    return checkpoints["bert"]


@pytest.fixture(scope="module")
def encoder(bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder directory that the command wrote."""
    folder = tmp_path_factory.mktemp("export")
    (folder / "queries.txt").write_text("kalo mine\npura soti\n")
    out = folder / "out"
    result = swiftlet(
        "export", bert, "--out", out, "--pooling", "mean", "--calibrate", folder / "queries.txt"
    )
    assert result.exit_code == 0, result.output
    assert f"{out}: 32 dimensions" in result.stdout
    assert re.search(r"│ int8 \(default\) +│ +0\.9\d+ │ +0\.9\d+ │", result.stdout), result.stdout
    assert "int8_static" in result.stdout
    return out


def test_all_precisions_are_written_and_the_default_is_named(encoder):
    manifest = read_manifest(encoder)
    assert {"model.onnx", "model_int8.onnx", "model_int8_static.onnx"} < manifest.files.keys()
    assert manifest.details["default_precision"] == "int8"


def test_verifying_prints_parity_and_the_latency_of_every_variant(bert, encoder):
    before = {path: path.read_bytes() for path in encoder.iterdir()}
    result = swiftlet("export", bert, "--out", encoder, "--verify")
    assert result.exit_code == 0, result.output
    assert {path: path.read_bytes() for path in encoder.iterdir()} == before
    latencies = result.stdout[result.stdout.index("Latency") :]
    for precision in ("fp32", "int8", "int8_static"):
        assert re.search(rf"│ {precision} +│ +1 │( +\d+\.\d{{3}} │){{3}}", latencies), latencies


@pytest.mark.parametrize(
    ("options", "option"),
    [
        (("--overwrite",), "--overwrite"),
        (("--name", "x"), "--name"),
        (("--calibrate", "x.txt"), "--calibrate"),
    ],
)
def test_verifying_and_writing_contradict_each_other(options, option, bert, encoder):
    sentence = refusal(swiftlet("export", bert, "--out", encoder, "--verify", *options))
    assert sentence == (
        f"swiftlet: {option} is for writing {encoder}, but --verify only measures it"
    )


def test_a_directory_that_is_no_encoder_or_another_model_s_is_refused(
    bert, encoder, checkpoints, tmp_path
):
    nothing = tmp_path / "nothing"
    assert "is not a directory" in refusal(swiftlet("export", bert, "--out", nothing, "--verify"))
    other = swiftlet("export", checkpoints["electra"], "--out", encoder, "--verify")
    assert "is of the embedding space" in refusal(other)


def test_a_default_that_is_not_good_enough_is_an_error_after_the_tables(bert, encoder, monkeypatch):
    monkeypatch.setattr("export.default_precision.SMALLEST_COSINE", 1.5)
    result = swiftlet("export", bert, "--out", encoder, "--verify")
    sentence = refusal(result)
    assert sentence.startswith(f"swiftlet: {encoder} is not good enough: the smallest cosine of i")
    assert "Latency" in result.stdout
    # A bad variant that is not the default is no error.
    assert "Note: the smallest cosine of int8_static with torch is" in result.stderr


def test_a_precision_that_does_not_exist_is_refused(bert, tmp_path):
    result = swiftlet("export", bert, "--out", tmp_path / "out", "--precision", "int4")
    assert result.exit_code == REFUSED
    assert "int8_static" in result.stderr
    assert not (tmp_path / "out").exists()
