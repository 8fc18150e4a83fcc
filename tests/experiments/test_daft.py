"""The DAFT page, made from runs: their logs, their tests and their embeddings."""

import json
from pathlib import Path

import numpy as np
import pytest

from experiments.daft import EXPERIMENTS, variant
from experiments.daft_figures import collect, draw, draw_embeddings
from experiments.daft_runs import Workplace, verdict
from experiments.runs import Processes
from loadtests.results import write

COLLAPSED = "cached-fast-unaligned"
QUERIES = [f"q{number}" for number in range(20)]
# All but the layers, of which encoders are exported and timed.
RUNS = {name: [*map(variant, runs)] for name, runs in EXPERIMENTS.items() if name != "layers"}


def log(run: str) -> list[dict]:
    """Two stages, or one; quality rises from 0.1 to 0.5, or to 0 in a collapse."""
    records: list[dict] = []
    start = 60.0 if run == "document-frozen" else 60.0 + len(run) / 10
    stages = ["fine-tuning"] if "unaligned" in run else ["alignment", "fine-tuning"]
    for stage in stages:
        for step in range(0, 101, 50):
            place = {"stage": stage, "step": step, "epoch": step / 840}
            if step:
                records.append({"kind": "step", **place, "loss": 4.0 - step / 50, "seconds": step})
            ends = run == COLLAPSED and step == 100
            evaluation = {
                "loss": 3.0,
                "collapsed_loss": 4.17,
                "kl": start - step / 4,
                "kl_per_dimension": (start - step / 4) / 128,
                "ndcg@10": 0.0 if ends else 0.1 + step / 250 + len(run) / 1000,
                "collapse": "complete" if ends else "none",
            }
            for tower in ("query", "document"):
                ranks = {
                    f"{tower}_cosine": 0.2 + len(run) / 1000,
                    f"{tower}_effective_rank": 40.0 + len(run),
                }
                evaluation |= ranks
            records.append({"kind": "evaluation", **place, **evaluation})
    return records


@pytest.fixture
def workplace(tmp_path: Path) -> Workplace:
    made = Workplace(tmp_path, tmp_path / "runs", Processes(1, 1))
    random = np.random.default_rng(0)
    for run in {run.name: run for runs in RUNS.values() for run in runs}.values():
        directory = made.directory(run)
        (directory / "run").mkdir(parents=True)
        lines = [json.dumps(record) + "\n" for record in log(run.name)]
        (directory / "run" / "metrics.jsonl").write_text("".join(lines))
        outcome = {"collapsed": run.name == COLLAPSED}
        (directory / "outcome.json").write_text(json.dumps(outcome))
        tests = {
            state: {"scifact test": {"nDCG@10": dict(zip(QUERIES, random.random(20), strict=True))}}
            for state in run.tested
        }
        if run.tested:
            (directory / "tested.json").write_text(json.dumps(tests))
        arrays = {
            f"{state} {kind}": random.normal(size=(5, 8)).astype(np.float32)
            for state in ("start", "aligned", "ended")
            for kind in ("queries", "documents")
        }
        np.savez(directory / "embeddings.npz", **arrays)
    return made


def test_a_page_is_made_from_finished_runs(workplace, tmp_path):
    raw = tmp_path / "daft.json"
    write(raw, collect(workplace, RUNS))
    lines = raw.with_suffix(".md").read_text("utf-8").splitlines()
    (row, *_) = (line for line in lines if line.startswith(f"| {COLLAPSED} |"))
    assert row == (
        "| cached-fast-unaligned | 0.485 | 0.22, 0.22 | 0.121 | 0.321 | 0.000 | 3.00 of 4.17 | "
        "0.22, 0.22 | 61.0, 61.0 | **complete** |"
    )
    assert "| default | 1.00 |" in lines  # 50 seconds for 50 steps
    assert "| δ = 0.400 a dimension | 50 | 0.371 | 0.315 |" in lines
    assert any(line.startswith("| [a] | default, start ") for line in lines)
    assert "## Layers of the query encoder (001, Table 2 and Figure 6)" not in lines


def test_an_experiment_with_a_missing_run_is_left_out(workplace, tmp_path):
    (workplace.directory(variant("long")) / "tested.json").unlink()
    figures = collect(workplace, RUNS)
    assert "collapse" not in figures["experiments"]
    assert figures["experiments"]["projection"] == EXPERIMENTS["projection"]


def test_curves_are_drawn_from_the_raw_figures_alone(workplace, tmp_path):
    write(tmp_path / "daft.json", collect(workplace, RUNS))
    draw(json.loads((tmp_path / "daft.json").read_text("utf-8")), tmp_path / "daft")
    drawn = sorted(path.name for path in (tmp_path / "daft").iterdir())
    assert drawn == ["divergence.png", "loss.png"]


def test_embeddings_are_drawn_from_finished_runs(workplace, tmp_path):
    draw_embeddings(workplace, RUNS["collapse"], tmp_path / "daft")
    drawn = sorted(path.name for path in (tmp_path / "daft").iterdir())
    assert drawn == ["embeddings.png", "neighbourhoods.png"]


def test_a_collapse_is_read_from_the_last_stage_of_the_log(workplace):
    assert verdict(workplace.log(variant(COLLAPSED))) == "complete"
    assert verdict(workplace.log(variant("default"))) is None


def test_each_run_of_an_experiment_has_settings():
    runs = {run for runs in EXPERIMENTS.values() for run in runs}
    assert {name: variant(name).name for name in runs} == {name: name for name in runs}
    command = Workplace(Path("data"), Path("runs"), Processes(1, 1)).arguments(variant("cached"))
    assert 'negatives.samplers=["cache"]' in command
