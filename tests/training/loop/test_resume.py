"""A resumed run gives the same result as an uninterrupted one."""

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from swiftlet.cli.main import INTERRUPTED
from swiftlet.cli.terminal import ProgressBars
from swiftlet.errors import InvalidArgumentError
from swiftlet.manifest import read_manifest
from tests.command_line import swiftlet
from tests.processes import Command
from tests.runs import records, run, tables, write_recipe
from training.loop.checkpoints import read_checkpoint
from training.recipes.settings import read_recipe

# Steps are logged at every tenth, so that a kill hits between two checkpoints.
EVERY = 15
SETTINGS: dict[str, Any] = {
    "validation__every": EVERY,
    "alignment__max_epochs": 10,
    "fine_tuning__epochs": 10,
    "negatives__refresh_fraction": 0.02,
    "negatives__teacher_share": 0.95,
    "dual_encoder__start": "orthogonal",
    "fine_tuning__average": 0.3,
    "optimiser__precision": "fp32",
}


@pytest.fixture(scope="module")
def whole(checkpoints, collection, tmp_path_factory) -> tuple[Path, Path]:
    """A recipe with dropout, and what it makes of itself when nothing interrupts it; read only."""
    folder = tmp_path_factory.mktemp("whole")
    content = tables(collection, checkpoints["roberta"], checkpoints["bert"], **SETTINGS)
    path = write_recipe(folder / "recipe.toml", content)
    run(read_recipe(path), folder / "run")
    return path, folder / "run"


def has_logged(out: Path, stage: str, step: int) -> bool:
    if not (out / "metrics.jsonl").is_file():
        return False
    lines = (out / "metrics.jsonl").read_text().splitlines(keepends=True)
    return any(f'"stage": "{stage}", "step": {step},' in line for line in lines if line[-1] == "\n")


def assert_same_result(out: Path, whole: Path) -> None:
    assert records(out) == records(whole)
    files = sorted(path.relative_to(whole) for path in whole.rglob("*.safetensors"))
    assert len(files) == 4
    for file in files:
        assert (out / file).read_bytes() == (whole / file).read_bytes(), file
    # The command also exports the encoders.
    assert sorted(entry.name for entry in out.iterdir() if entry.name != "onnx") == [
        "document_encoder", "manifest.json", "metrics.jsonl", "query_encoder", "recipe.json"
    ]  # fmt: skip
    assert not out.with_name(f".{out.name}.partial").exists()


@pytest.fixture(scope="module")
def killed(whole, tmp_path_factory) -> Path:
    """A run that was killed in its first stage, and again in its second; read only."""
    recipe, _ = whole
    out = tmp_path_factory.mktemp("killed") / "run"
    for stage in ("alignment", "fine-tuning"):
        command = Command("train", recipe, "--out", out, "--resume", output=out.with_suffix(".txt"))
        command.wait_until(lambda stage=stage: has_logged(out, stage, EVERY + 5))
        command.send(signal.SIGKILL)
        assert command.wait() == -signal.SIGKILL
        assert not (out / "manifest.json").exists()
        state = read_checkpoint(out / "checkpoint")["train_state"]
        assert state["step"] >= EVERY
        assert state["stage"] == (stage == "fine-tuning")
    assert "going on after" in command.text
    return out


def test_a_run_killed_in_both_stages_ends_as_one_that_was_not(whole, killed, tmp_path):
    recipe, expected = whole
    out = Path(shutil.copytree(killed, tmp_path / "run"))
    run(read_recipe(recipe), out, resume=True)
    assert_same_result(out, expected)


def test_a_stopped_run_is_finished_with_its_best_checkpoint(whole, killed, tmp_path):
    recipe, _ = whole
    out = tmp_path / "run"
    with pytest.raises(
        InvalidArgumentError, match="has no checkpoint to finish with: its alignment"
    ):
        run(read_recipe(recipe), out, finish=True)
    assert not out.exists()
    shutil.copytree(killed, out)
    outcome = run(read_recipe(recipe), out, finish=True)
    tuned = [each for each in records(out, "evaluation") if each["stage"] == "fine-tuning"]
    best = max(tuned, key=lambda each: each["ndcg@10"])
    assert [each["step"] for each in tuned] == [0, EVERY]
    assert outcome.chosen.endswith(f"step {best['step']} of stage fine-tuning")
    manifest = read_manifest(out, "model")
    assert manifest.details["best"]["ndcg@10"] == best["ndcg@10"]
    # The final encoders are the mean of these and the initial ones.
    assert outcome.quality["nDCG@10"] == manifest.details["validation"]["nDCG@10"]


def test_an_interrupted_run_says_how_to_go_on(whole, tmp_path, monkeypatch):
    out = tmp_path / "run"

    def interrupt(*_: object) -> None:
        if has_logged(out, "alignment", EVERY + 5):
            raise KeyboardInterrupt

    monkeypatch.setattr(ProgressBars, "advance", interrupt)
    result = swiftlet("train", whole[0], "--out", out)
    assert result.exit_code == INTERRUPTED
    assert "interrupted: run the same command with --resume to continue" in result.stderr
    assert not out.with_name(f".{out.name}.partial").exists()
    assert read_checkpoint(out / "checkpoint")["train_state"]["step"] == EVERY


def test_a_run_killed_before_its_first_checkpoint_starts_again(whole, tmp_path):
    recipe, expected = whole
    out = tmp_path / "run"
    out.mkdir()
    (out / "recipe.json").write_text('{"rec')
    (out / "metrics.jsonl").write_text('{"kind": "evaluation", "stage": "alignment", "step": 0}\n')
    run(read_recipe(recipe), out)
    assert_same_result(out, expected)
