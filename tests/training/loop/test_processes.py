"""Several processes give the same result as one."""

import signal
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from tests.processes import side_by_side
from tests.runs import records, run, tables, write_recipe
from training.recipes.settings import read_recipe

FIGURES = ("loss", "collapsed_loss", "kl", "query_cosine", "document_effective_rank", "ndcg@10")
SETTINGS: dict[str, Any] = {
    # Dropout differs from process to process.
    "query_encoder__dropout": 0.0,
    "document_encoder__dropout": 0.0,
    "optimiser__micro_batch_size": 3,
    "document_encoder__gradient_checkpointing": True,
}


def write(
    folder: Path, checkpoints: dict[str, Path], collection: Path, **settings: Any
) -> tuple[Path, Path]:
    """A recipe file, and the run of one process."""
    content = tables(
        collection, checkpoints["roberta"], checkpoints["bert"], **SETTINGS, **settings
    )
    path = write_recipe(folder / "recipe.toml", content)
    run(read_recipe(path), folder / "alone")
    return path, folder / "alone"


def assert_alike(found: Path, expected: Path) -> None:
    assert len(records(found)) == len(records(expected))
    for one, other in zip(records(found), records(expected), strict=True):
        assert one["kind"] == other["kind"]
        assert (one["stage"], one["step"]) == (other["stage"], other["step"])
        assert one.keys() == other.keys()
        for name in {*FIGURES} & {name for name, value in other.items() if value is not None}:
            assert one[name] == pytest.approx(other[name], rel=1e-5, abs=1e-5), (name, one)
    for tower in ("query_encoder", "document_encoder"):
        weights = load_file(found / tower / "2_Dense" / "model.safetensors")
        same = load_file(expected / tower / "2_Dense" / "model.safetensors")
        assert all(bool((weights[name] - same[name]).abs().max() < 1e-3) for name in same)


def test_two_processes_train_as_one_with_the_cache(
    checkpoints: dict[str, Path], collection: Path, tmp_path: Path
) -> None:
    path, alone = write(tmp_path, checkpoints, collection)
    together = side_by_side(2, "train", path, "--out", tmp_path / "run", folder=tmp_path)
    assert [command.wait() for command in together] == [0, 0], together[0].text
    assert_alike(tmp_path / "run", alone)
    assert "Exporting document_encoder" in together[0].text
    assert "Exporting" not in together[1].text


@pytest.mark.soak
def test_in_bf16_the_losses_are_those_of_one_within_rounding(
    checkpoints: dict[str, Path], collection: Path, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"optimiser__precision": "bf16"}
    path, alone = write(tmp_path, checkpoints, collection, **settings)
    together = side_by_side(2, "train", path, "--out", tmp_path / "run", folder=tmp_path)
    assert [command.wait() for command in together] == [0, 0], together[0].text
    for one, other in zip(records(tmp_path / "run", "step"), records(alone, "step"), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=0.05)


@pytest.mark.soak
def test_two_killed_processes_are_resumed_by_another_number_of_them(
    checkpoints: dict[str, Path], collection: Path, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {
        "negatives": {"samplers": ["in_batch"]},
        "fine_tuning__epochs": 5,
        "recipe": "contrastive",
    }
    path, alone = write(tmp_path, checkpoints, collection, **settings)
    out = tmp_path / "run"
    together = side_by_side(2, "train", path, "--out", out, folder=tmp_path)
    log = out / "metrics.jsonl"
    together[0].wait_until(lambda: log.is_file() and '"step": 8' in log.read_text())
    for command in together:
        command.send(signal.SIGKILL)
    assert [command.wait() for command in together] == [-signal.SIGKILL] * 2
    assert not (out / "manifest.json").exists()
    together = side_by_side(3, "train", path, "--out", out, "--resume", folder=tmp_path)
    assert [command.wait() for command in together] == [0, 0, 0], together[0].text
    assert_alike(out, alone)


@pytest.mark.soak
def test_a_process_may_have_no_text_of_a_batch(
    checkpoints: dict[str, Path], collection: Path, tmp_path: Path
) -> None:
    # Each of three takes two of four texts, and so the last takes none.
    path, alone = write(
        tmp_path,
        checkpoints,
        collection,
        optimiser__batch_size=4,
        alignment__max_epochs=0.25,
        fine_tuning__epochs=0.25,
    )
    together = side_by_side(3, "train", path, "--out", tmp_path / "run", folder=tmp_path)
    assert [command.wait() for command in together] == [0, 0, 0], together[2].text
    assert_alike(tmp_path / "run", alone)


def test_more_processes_than_pairs_in_a_batch_are_refused(
    checkpoints: dict[str, Path], collection: Path, tmp_path: Path
) -> None:
    content = tables(collection, checkpoints["roberta"], checkpoints["bert"])
    path = write_recipe(tmp_path / "recipe.toml", content)
    together = side_by_side(
        3, "train", path, "--out", tmp_path / "run", "--set", "optimiser.batch_size=2",
        folder=tmp_path,
    )  # fmt: skip
    assert [command.wait() for command in together] == [2, 2, 2]
    assert together[0].refusal == "the batch size is 2, fewer than the 3 processes"
