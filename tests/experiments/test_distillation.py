"""The distillation page, made from runs: their manifests and their figures."""

import json
from pathlib import Path

import pytest

from experiments.distillation import EXPERIMENTS, FINALS, LAYERS, PATH
from experiments.distillation_data import Workplace
from experiments.distillation_figures import collect
from experiments.distillation_runs import SETS, TEACHER, judged_file
from measuring.results import write
from measuring.runs import Processes
from swiftlet.manifest import Manifest, write_manifest


@pytest.fixture
def workplace(tmp_path: Path) -> Workplace:
    """Students keep 90% of the teacher's nDCG@10 of 0.8, and three layers all of it."""
    made = Workplace(tmp_path, tmp_path)
    quantised = [f"{final.name} {each}" for final in FINALS for each in final.quantised]
    runs = [run for each in EXPERIMENTS.values() for run in each]
    for name in [TEACHER, *(run.name for run in runs), *quantised]:
        made.run(name).parent.mkdir(exist_ok=True)
        ndcg = 0.8 if name == TEACHER or name.startswith("three") else 0.72
        for kind, collections in SETS.items():
            figures = {f"{each.name} {each.split}": {"q": ndcg} for each in collections}
            judged_file(made, name, kind).write_text(json.dumps(figures))
    for run in runs:
        details = {
            "distillation": {"layers": run.settings.get("layers", [5]), "epochs": 2},
            "best": {"cosine": 0.95},
            "texts": {"queries": 12_000},
            "num_held_out": 2_000,
        }
        made.run(run.name).mkdir()
        write_manifest(made.run(run.name), Manifest("model", 384, "space", {}, "", details=details))
    made.exported("x").parent.mkdir()
    cosines = {"mean": 0.95, "median": 0.95, "percentile_1": 0.901, "smallest": 0.9}
    for name in quantised:
        made.exported(f"{name.replace(' ', '.')}.json").write_text(json.dumps(cosines))
    latencies = {final.name: 0.4 for final in FINALS} | {TEACHER: 1.2}
    made.exported("latencies.json").write_text(json.dumps(latencies))
    return made


def test_a_page_is_made_from_finished_runs(workplace, tmp_path):
    raw = tmp_path / "distillation.json"
    write(raw, collect(workplace, Processes(2, 1), PATH, LAYERS, FINALS))
    page = raw.with_suffix(".md").read_text("utf-8")
    lines = page.splitlines()
    assert "Threads: 1 for each of 2 runs at a time." in page
    assert "`two-layers int8` keeps 90.0% and misses the 97% that were wanted." in lines
    assert "`three-layers int8` keeps 100.0% and reaches the 99% that were wanted." in lines
    kept = " | ".join(["90.0%"] * 6)
    assert f"| two-layers int8 | {kept} | 97% | 0.400 |" in lines
    assert "| two-layers int8 | 0.9500 | 0.9500 | 0.9010 | 0.9000 | +0.0000 |" in lines
    assert "| 0, 5 | 0.9500 | 90.0% |" in lines
    assert f"| rate-1e-3 | rate 1e-3 | 20,000 | 0.9500 | {' | '.join(['90.0%'] * 4)} |" in lines


def test_a_run_that_was_not_judged_is_left_out(workplace):
    judged_file(workplace, "rate-1e-3", "development").unlink()
    figures = collect(workplace, Processes(2, 1), PATH, LAYERS, FINALS)
    assert "rate-1e-3" not in [run["name"] for run in figures["path"]]
    assert "rate-3e-4" in [run["name"] for run in figures["path"]]
