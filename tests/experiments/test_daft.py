"""The DAFT page, made from the records of runs."""

import json
from pathlib import Path

import numpy as np
import pytest

from experiments.daft import EXPERIMENTS, missing, variant
from experiments.daft_figures import COLLECTIONS, across, collect, draw, draw_embeddings
from experiments.daft_runs import EVALUATED, RECORD, Workplace, _stages, measure, mixture, verdict
from measuring.results import write
from measuring.runs import Processes
from swiftlet.errors import RetrievalError
from training.logged_run import read_training_log

COLLAPSED = "constants-fast-unaligned"
NAMES = list(dict.fromkeys(name for names in EXPERIMENTS.values() for name in names))
WORKPLACE = Workplace(Path("data"), Path("runs"), Processes(1, 1))


def evaluations(name: str, seed: int) -> list[dict]:
    """Quality rises from 0.1 to 0.5, or falls to 0 in a collapse; seeds differ by 0.02."""
    records = []
    for step in range(0, 106, 35):
        ends = name == COLLAPSED and step == 105
        ndcg = 0.0 if ends else 0.1 + step / 262.5 + 0.02 * seed
        values = dict.fromkeys(EVALUATED, 0.25)
        records.append(
            values
            | {"step": step, "ndcg@10": ndcg, "kl_per_dimension": 0.5 - step / 350}
            | {"loss": None if step == 0 else 3.0, "collapse": "complete" if ends else "none"}
        )
    return records


def record(name: str, seed: int) -> dict:
    each = variant(name, seed)
    stages = ["fine-tuning"] if "unaligned" in name else ["alignment", "fine-tuning"]
    stage = {"losses": [[10, 20], [4.0, 3.0]], "seconds_a_step": 1.5}
    quality = {"nDCG@10": 0.4 + 0.02 * seed + len(name) / 1000, "MRR@10": 0.4, "R@100": 0.8}
    return {
        "settings": each.identity,
        "collapse": "complete" if name == COLLAPSED else None,
        "stages": {name_: {"evaluations": evaluations(name, seed), **stage} for name_ in stages},
        "tests": {state: dict.fromkeys(COLLECTIONS, quality) for state in each.tested},
        "mixtures": {"start": 0.01, "aligned": 0.2, "ended": 0.3},
    }


RUNS = {name: {str(seed): record(name, seed) for seed in range(3)} for name in NAMES}
BASELINE = {"validation": [0.8, 0.82, 0.84]} | {
    title: {"nDCG@10": 0.7, "MRR@10": 0.7, "R@100": 0.9} for title in COLLECTIONS
}
KNOWN = {
    "machine": "A machine.",
    "baselines": dict.fromkeys(
        ["teacher for both", "teacher, distilled student", "BM25"], BASELINE
    ),
    "latencies": dict.fromkeys(EXPERIMENTS["layers"], 0.4),
}


@pytest.fixture
def lines(tmp_path: Path) -> list[str]:
    raw = tmp_path / "daft.json"
    write(raw, collect(WORKPLACE, EXPERIMENTS, RUNS, KNOWN))
    return raw.with_suffix(".md").read_text("utf-8").splitlines()


def test_each_figure_has_the_mean_of_its_seeds_and_half_their_range(lines: list[str]) -> None:
    assert across([{"a": {"b": each}} for each in (1, 2, 6)]) == {
        "a": {"b": {"mean": 3, "half": 2.5}}
    }
    (row, *_) = (line for line in lines if line.startswith("| default |"))
    assert row.startswith(
        "| default | 3 | 210 | 5.2 | 0.500 | 0.25, 0.25 | 0.120 ± 0.020 | 0.520 ± 0.020 |"
    )
    assert "| BM25 | - | 0.820 ± 0.020 |" in "\n".join(lines)


def test_a_collapse_is_named_with_the_number_of_its_seeds(lines: list[str]) -> None:
    (row, *_) = (line for line in lines if line.startswith(f"| {COLLAPSED} |"))
    assert row.endswith("| complete (3 of 3) |")
    assert any("collapsed with 3 of 3 seeds (nDCG@10 0.120 → 0.000)" in line for line in lines)


def test_the_findings_follow_from_the_figures(tmp_path: Path) -> None:
    def page_with(aligned: float, unaligned: float) -> str:
        changed = json.loads(json.dumps(RUNS))
        for name, value in (("aligned-in-batch", aligned), ("unaligned-in-batch", unaligned)):
            for seed in changed[name].values():
                seed["tests"] = {"ended": {t: {"nDCG@10": value, "R@100": 1} for t in COLLECTIONS}}
        page = write(tmp_path / "p.json", collect(WORKPLACE, EXPERIMENTS, changed, KNOWN))
        return page.read_text("utf-8")

    assert "0.600 on the tests, better than 0.500 of plain" in page_with(0.6, 0.5)
    worse = page_with(0.5, 0.6)
    assert "0.500 on the tests, worse than 0.600 of plain" in worse
    assert "`unaligned-in-batch`, plain contrastive training, has the highest mean" in worse
    assert "0.500 on the tests, no different from 0.500 of plain" in page_with(0.5, 0.5)


def test_an_experiment_with_a_missing_run_is_left_out() -> None:
    runs = {name: each for name, each in RUNS.items() if name != "cache-fast"}
    figures = collect(WORKPLACE, EXPERIMENTS, runs, KNOWN)
    assert "collapse" not in figures["experiments"]
    assert figures["experiments"]["projection"] == EXPERIMENTS["projection"]


def test_only_runs_that_are_missing_or_have_other_settings_are_measured() -> None:
    names = ["default", "cache", "mined"]
    runs = {
        "default": RUNS["default"],
        "cache": {"0": {"settings": "others"}, "1": RUNS["cache"]["1"]},
    }
    found = [(each.name, each.seed) for each in missing(names, 2, runs)]
    assert found == [("cache", 0), ("mined", 0), ("mined", 1)]


def test_a_run_with_a_record_is_not_measured_again(tmp_path: Path) -> None:
    workplace = Workplace(tmp_path, tmp_path, Processes(1, 1))
    workplace.directory(variant("cache")).mkdir()
    finished = workplace.directory(variant("cache")) / RECORD
    finished.write_text(json.dumps(record("cache", 0)), "utf-8")
    # There is no data, so that a training would fail.
    assert measure(workplace, variant("cache")) == variant("cache")
    finished.write_text(json.dumps(record("cache", 0) | {"settings": "others"}), "utf-8")
    with pytest.raises(RetrievalError, match="cannot be read"):
        measure(workplace, variant("cache"))


def test_plots_are_drawn_from_the_raw_figures_alone(tmp_path: Path) -> None:
    write(tmp_path / "daft.json", collect(WORKPLACE, EXPERIMENTS, RUNS, KNOWN))
    draw(json.loads((tmp_path / "daft.json").read_text("utf-8")), tmp_path / "daft")
    drawn = sorted(path.name for path in (tmp_path / "daft").iterdir())
    assert drawn == ["divergence.png", "latency.png", "loss.png"]


def test_embeddings_are_drawn_from_finished_runs(tmp_path: Path) -> None:
    workplace = Workplace(tmp_path, tmp_path / "runs", Processes(1, 1))
    draw_embeddings(workplace, tmp_path / "daft")
    assert not (tmp_path / "daft").exists()
    random = np.random.default_rng(0)
    for name in NAMES:
        workplace.directory(variant(name)).mkdir(parents=True)
        arrays = {
            f"{state} {kind}": random.normal(size=(5, 8)).astype(np.float32)
            for state in ("start", "aligned", "ended")
            for kind in ("queries", "documents")
        }
        np.savez(workplace.directory(variant(name)) / "embeddings.npz", **arrays)
    draw_embeddings(workplace, tmp_path / "daft")
    drawn = sorted(path.name for path in (tmp_path / "daft").iterdir())
    assert drawn == ["embeddings.png", "neighbourhoods.png"]


def test_a_log_becomes_the_stages_of_a_record(tmp_path: Path) -> None:
    place = {"stage": "fine-tuning"}
    records = [{"kind": "evaluation", **place, **each} for each in evaluations(COLLAPSED, 0)]
    records += [
        {"kind": "step", **place, "step": step, "loss": 4.0, "seconds": step / 5}
        for step in (10, 20)
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, records)))
    log = read_training_log(tmp_path / "metrics.jsonl")
    assert verdict(log) == "complete"
    assert _stages(log)["fine-tuning"] == {
        "evaluations": evaluations(COLLAPSED, 0),
        "losses": [[10, 20], [4.0, 4.0]],
        "seconds_a_step": pytest.approx(0.2),
    }


def test_clouds_that_overlap_have_neighbours_of_both_kinds() -> None:
    random = np.random.default_rng(0)
    first, second = random.normal(size=(2, 200, 8)).astype(np.float32)
    assert mixture(first, second) == pytest.approx(0.5, abs=0.1)
    assert mixture(first + 9, second - 9) == 0


def test_each_run_of_an_experiment_has_settings() -> None:
    assert {name: variant(name).name for name in NAMES} == {name: name for name in NAMES}
    assert 'negatives.samplers=["cache"]' in WORKPLACE.overrides(variant("cache"))
    assert "seed=2" in WORKPLACE.overrides(variant("cache", 2))
    assert variant("cache").identity != variant("default").identity
