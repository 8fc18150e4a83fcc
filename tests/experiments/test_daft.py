"""The DAFT page, made from the records of runs."""

import json
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from experiments.daft import __main__ as daft
from experiments.daft.evaluations import across
from experiments.daft.plots import draw
from experiments.daft.runs import (
    EVALUATED,
    EXPERIMENTS,
    NAMES,
    directory,
    identity,
    overrides,
    stages_of,
    states_of,
    verdict,
)
from experiments.daft.tests import TITLES
from measuring.experiment import file_of
from measuring.results import RESULTS, write

COLLAPSED = "constants-fast-unaligned"
OPTIONS = Namespace(data=Path("data"), work=Path("runs"), seeds=3, only="", again=False)
PAGE = {"template": "experiments/daft.md.j2", "machine": "A machine."}


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


FIT = {"rate": 0.01, "cosine": 0.9, "cosine_before": 0.1, "num_texts": 7000, "ndcg@10": 0.002}


def record(name: str, seed: int) -> dict:
    stages = ["fine-tuning"] if "unaligned" in name else ["alignment", "fine-tuning"]
    stage = {"losses": [[10, 20], [4.0, 3.0]], "seconds_a_step": 1.5}
    quality = {"nDCG@10": 0.4 + 0.02 * seed + len(name) / 1000, "MRR@10": 0.4, "R@100": 0.8}
    return {
        "settings": identity(name),
        "collapse": "complete" if name == COLLAPSED else None,
        "closed_form": [FIT] if name.endswith(("ridge", "both")) else [],
        "stages": {name_: {"evaluations": evaluations(name, seed), **stage} for name_ in stages},
        "tests": {state: dict.fromkeys(TITLES, quality) for state in states_of(name)},
        "mixtures": {"start": 0.01, "aligned": 0.2, "ended": 0.3},
    }


SYSTEMS = ["teacher for both", "teacher, distilled student", "BM25"]
FOUND = {(name, seed): record(name, seed) for name in NAMES for seed in range(3)} | {
    (daft.BASELINES, seed): {
        system: {"validation": {"nDCG@10": 0.8 + 0.02 * seed}}
        | {title: {"nDCG@10": 0.7, "MRR@10": 0.7, "R@100": 0.9} for title in TITLES}
        for system in SYSTEMS
    }
    for seed in range(3)
}


@pytest.fixture(autouse=True)
def no_latencies(monkeypatch) -> None:
    """They need the encoders of finished runs."""
    times = dict.fromkeys(EXPERIMENTS["layers"], 0.4)
    monkeypatch.setattr(daft, "latencies", lambda options, names: times)


def collected(found: dict = FOUND) -> dict:
    return daft.collected(OPTIONS, found) | PAGE


@pytest.fixture
def lines(tmp_path) -> list[str]:
    raw = tmp_path / "daft.json"
    write(raw, collected())
    return raw.with_suffix(".md").read_text("utf-8").splitlines()


def test_each_figure_has_the_mean_of_its_seeds_and_half_their_range(lines):
    assert across([{"a": {"b": each}} for each in (1, 2, 6)]) == {
        "a": {"b": {"mean": 3, "half": 2.5}}
    }
    (row, *_) = (line for line in lines if line.startswith("| default |"))
    assert row.startswith(
        "| default | 3 | 210 | 5.2 | 0.500 | 0.25, 0.25 | 0.120 ± 0.020 | 0.520 ± 0.020 |"
    )
    assert "| BM25 | - | 0.820 ± 0.020 |" in "\n".join(lines)


def test_the_findings_follow_from_the_figures(tmp_path):
    def page_with(aligned: float, unaligned: float) -> str:
        changed = dict(FOUND)
        for name, value in (("aligned-in-batch", aligned), ("unaligned-in-batch", unaligned)):
            tests = {"ended": {title: {"nDCG@10": value, "R@100": 1} for title in TITLES}}
            changed |= {(name, seed): FOUND[name, seed] | {"tests": tests} for seed in range(3)}
        return write(tmp_path / "p.json", collected(changed)).read_text("utf-8")

    assert "0.600 on the tests, better than 0.500 of plain" in page_with(0.6, 0.5)
    worse = page_with(0.5, 0.6)
    assert "0.500 on the tests, worse than 0.600 of plain" in worse
    assert "`unaligned-in-batch`, plain contrastive training, has the highest mean" in worse
    assert "0.500 on the tests, no different from 0.500 of plain" in page_with(0.5, 0.5)


def test_rows_with_the_figures_of_each_query_are_tested_against_each_other(tmp_path):
    def queries(least: int) -> dict[str, str]:
        return dict.fromkeys(TITLES, " ".join(f"{least + place % 3}" for place in range(40)))

    def with_queries(run: tuple[str, int], **values: int) -> dict:
        by_query = {state: queries(value) for state, value in values.items()}
        return {run: FOUND[run] | {"precision": "fp32", "by_query": by_query}}

    systems = {
        name: FOUND[daft.BASELINES, 0][name] | {"by_query": queries(least)}
        for name, least in zip(SYSTEMS, (700, 690, 705), strict=True)
    }
    changed = FOUND | {(daft.BASELINES, 0): systems}
    changed |= with_queries(("mean-map", 0), aligned=695)
    page = write(tmp_path / "p.json", collected(changed)).read_text("utf-8")
    assert "| [d] mean-map, aligned | 3 | - | " in page
    assert "<sup>[b]</sup>" in next(line for line in page.splitlines() if "| [d] mean" in line)
    assert "a significant loss on 3 of 3 collections" in page
    assert "no instructions for bf16: seeds of `mean-map`." in page
    assert "<sup>" not in write(tmp_path / "p.json", collected()).read_text("utf-8")


def test_runs_of_the_page_with_the_settings_of_now_are_not_repeated(tmp_path):
    figures = json.loads((RESULTS / "daft.json").read_text("utf-8"))
    figures["runs"]["cache"]["1"]["settings"] = "other settings"
    raw = tmp_path / "daft.json"
    raw.write_text(json.dumps(figures))
    options = Namespace(**vars(OPTIONS) | {"work": tmp_path, "raw": raw, "only": "collapse"})
    (first,), rest = daft.runs(options)
    missing = [run for run in (first, *rest) if not file_of(tmp_path, run).is_file()]
    assert first == (daft.BASELINES, 0)
    assert missing == [("cache", 1)]
    assert ("default", 2) in rest  # what other experiments have measured stays on the page
    kept = json.loads(file_of(tmp_path, (daft.BASELINES, 2)).read_text())
    assert kept["BM25"]["validation"] == {"nDCG@10": figures["baselines"]["BM25"]["validation"][2]}


def test_plots_are_drawn_from_the_raw_figures_and_finished_runs(tmp_path):
    write(tmp_path / "daft.json", collected())
    figures = json.loads((tmp_path / "daft.json").read_text("utf-8"))
    draw(tmp_path, figures, tmp_path)
    drawn = {path.name for path in (tmp_path / "daft").iterdir()}
    assert drawn == {"divergence.png", "latency.png", "loss.png"}
    random = np.random.default_rng(0)
    for name in NAMES:
        folder = directory(Namespace(work=tmp_path), (name, 0))
        folder.mkdir()
        arrays = {
            f"{state} {kind}": random.normal(size=(5, 8)).astype(np.float32)
            for state in ("start", "aligned", "ended")
            for kind in ("queries", "documents")
        }
        np.savez(folder / "embeddings.npz", **arrays)
    draw(tmp_path, figures, tmp_path)
    more = {path.name for path in (tmp_path / "daft").iterdir()}
    assert more - drawn == {"embeddings.png", "neighbourhoods.png"}


def test_a_log_becomes_the_stages_of_a_record(tmp_path):
    place = {"stage": "fine-tuning"}
    records = [{"kind": "evaluation", **place, **each} for each in evaluations(COLLAPSED, 0)]
    records += [
        {"kind": "step", **place, "step": step, "loss": 4.0, "seconds": step / 5}
        for step in (10, 20)
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, records)))
    log = tmp_path / "metrics.jsonl"
    assert verdict(log) == "complete"
    assert stages_of(log)["fine-tuning"] == {
        "evaluations": evaluations(COLLAPSED, 0),
        "losses": [[10, 20], [4.0, 4.0]],
        "seconds_a_step": pytest.approx(0.2),
    }


def test_each_run_of_an_experiment_has_settings():
    for name in NAMES:
        assert "seed=2" in overrides(OPTIONS, name, 2)
    assert 'negatives.samplers=["cache"]' in overrides(OPTIONS, "cache", 0)
    assert identity("cache") != identity("default")
