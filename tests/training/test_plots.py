"""Pictures of a training run show its loss, its alignment and its collapse."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from swiftlet.errors import CollectionError, InvalidArgumentError
from swiftlet.evaluation.plots.figures import DOCUMENT_COLOUR, QUERY_COLOUR
from swiftlet.evaluation.plots.lines import Curve, plot_lines
from training.logged_run import read_training_log
from training.plots import (
    _collapse,
    _divergence,
    divergence_panel,
    loss_panel,
    plot_training,
)

STEPS = np.arange(10.0, 500.0, 10.0)
SPREAD = {"cosine": 0.2, "deviation": 0.05, "effective_rank": 9.0}


def lines(axes) -> dict[str, object]:
    return {line.get_label(): line for line in axes.get_lines()}


def test_the_loss_of_a_collapse_is_drawn_at_ln_of_one_more_than_the_negatives():
    curve = Curve("without alignment", STEPS, np.full(len(STEPS), 4.17))
    (axes,) = plot_lines([loss_panel([curve], collapsed_loss=math.log(64 + 1))]).axes
    assert lines(axes)["_level"].get_ydata() == pytest.approx([4.17438727] * 2)
    (label,) = axes.texts
    assert label.get_text() == "$\\ln(|D^-|+1)$\n= 4.174"
    assert label.xy[1] == pytest.approx(math.log(65))
    assert axes.get_ylim()[0] == 0.0
    assert axes.get_ylim()[1] > math.log(65)


def test_the_divergence_is_drawn_with_its_threshold_and_where_it_stopped():
    curve = Curve("L=2", np.arange(5.0), np.array([500.0, 400.0, 300.0, 260.0, 240.0]))
    (axes,) = plot_lines([divergence_panel([curve], threshold=250.0, stopped_at=4.0)]).axes
    assert set(lines(axes)["_level"].get_ydata()) == {250.0}
    assert set(lines(axes)["_moment"].get_xdata()) == {4.0}
    assert [text.get_text() for text in axes.texts] == ["$\\delta$ = 250", "stopped"]
    assert axes.get_xlabel() == "epoch"
    assert lines(axes)["L=2"].get_marker() == "o"


@pytest.mark.parametrize("threshold", [None, -math.inf])
def test_no_threshold_is_not_drawn(threshold):
    curve = Curve("L=2", np.arange(3.0), np.ones(3))
    (axes,) = plot_lines([divergence_panel([curve], threshold=threshold)]).axes
    assert list(lines(axes)) == ["L=2"]
    assert axes.get_ylim()[0] > 0


def run_directory(folder: Path) -> Path:
    """A run of two stages of 100 steps, as `swiftlet train` logs one."""
    records = []
    for stage in ("alignment", "fine-tuning"):
        for step in range(0, 101, 10):
            place = {"stage": stage, "step": step, "epoch": step / 50}
            if step:
                records.append({"kind": "step", **place, "loss": 4 - step / 50})
            if step % 50 == 0:
                figures = {
                    f"{tower}_{name}": value
                    for tower in ("query", "document")
                    for name, value in SPREAD.items()
                }
                losses = {"loss": None, "collapsed_loss": None if step == 0 else math.log(33)}
                records.append(
                    {"kind": "evaluation", **place, "kl": 90 - step / 5, **figures, **losses}
                    | {"ndcg@10": 0.5, "collapse": "none", "kl_threshold": 75.0}
                )
        if stage == "alignment":
            records.append({"kind": "stop", **place, "reason": "aligned"})
    directory = folder / "run"
    directory.mkdir()
    content = "".join(json.dumps(record) + "\n" for record in records)
    (directory / "metrics.jsonl").write_text(content)
    return directory


def test_a_run_is_drawn_from_its_log(tmp_path):
    out = tmp_path / "new" / "plots"
    paths = plot_training(run_directory(tmp_path), out)
    assert [path.stem for path in paths] == ["loss", "divergence", "collapse", "quality"]
    assert sorted(out.iterdir()) == sorted(paths)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)


def test_a_runs_figures_stand_at_their_steps_and_epochs(tmp_path):
    run = read_training_log(run_directory(tmp_path) / "metrics.jsonl")
    (divergence,) = plot_lines(_divergence(run, 75.0)).axes
    assert lines(divergence)["fine-tuning"].get_xdata().tolist() == [2.0, 3.0, 4.0]
    assert set(lines(divergence)["_moment"].get_xdata()) == {2.0}
    cosine, rank, deviation = plot_lines(_collapse(run)).axes
    labels = ["mean pairwise cosine", "effective rank", "mean deviation per dimension"]
    assert [axes.get_ylabel() for axes in (cosine, rank, deviation)] == labels
    assert lines(cosine)["queries"].get_color() == QUERY_COLOUR
    assert lines(cosine)["documents"].get_color() == DOCUMENT_COLOUR
    assert lines(rank)["queries"].get_xdata().tolist() == [0, 50, 100, 100, 150, 200]
    assert [text.get_text() for text in rank.texts] == ["fine-tuning"]


def test_what_a_run_did_not_measure_is_left_out(tmp_path):
    directory = run_directory(tmp_path)
    log = directory / "metrics.jsonl"
    kept = [line for line in log.read_text().splitlines() if '"step", "stage"' in line]
    log.write_text("\n".join(kept))
    assert plot_training(directory, tmp_path, suffix=".svg") == (tmp_path / "loss.svg",)
    with pytest.raises(InvalidArgumentError, match=r"loss.jpg ends in neither"):
        plot_training(directory, tmp_path, suffix=".jpg")
    log.write_text('{"kind": "end"}\n')
    with pytest.raises(CollectionError, match="nothing to draw: no step has a loss"):
        plot_training(directory, tmp_path)
