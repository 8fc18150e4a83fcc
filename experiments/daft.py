"""DAFT's claims, controls and ablations on a small scale, on 2 CPU cores.

DATA is a folder that has squad-dev-v1.1, medquad, boolq and scifact in BEIR's layout.

    python -m experiments.daft --data DATA                    (hours)
    python -m experiments.daft --data DATA --only collapse    (one experiment)

Each finished run goes into docs/results/daft.json, and the page and its plots are made again. Runs
that are there, with the same settings, are not repeated: an interrupted experiment goes on. Needs
the extra `dev`, which has the torch weights.
"""

import json
import os
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from experiments.daft_figures import collect, draw, draw_embeddings
from experiments.daft_runs import Variant, Workplace, baselines, measure
from measuring.command_line import script_options
from measuring.results import RESULTS, Figures, write
from measuring.runs import Processes

RUNS = Path(__file__).parents[1] / "runs" / "daft"

TABLE = tomllib.loads(Path(__file__).with_name("daft_runs.toml").read_text("utf-8"))
EXPERIMENTS: dict[str, list[str]] = TABLE["experiments"]


def settings_of(name: str) -> dict[str, Any]:
    own = dict(TABLE["settings"][name])
    shared = [settings_of(other).items() for other in own.pop("like", [])]
    return dict(chain(*shared)) | own


def variant(name: str, seed: int = 0) -> Variant:
    """A run by its name."""
    tested = () if name.startswith("map-") else tuple(TABLE["tested"].get(name, ["ended"]))
    return Variant(name, seed, settings_of(name), tested)


def main() -> None:
    options = script_options(
        __doc__, data=Path, only=("", *EXPERIMENTS), seeds=3, runs=RUNS, jobs=2, results=RESULTS
    )
    # One thread for each run, here and in its processes.
    os.environ["OMP_NUM_THREADS"] = "1"
    raw = options.results / "daft.json"
    known = json.loads(raw.read_text("utf-8")) if raw.is_file() else {}
    runs: Figures = known.get("runs", {})
    processes = Processes(options.jobs, threads=1)
    workplace = Workplace(options.data.resolve(), options.runs.resolve(), processes)
    wanted = [options.only] if options.only else EXPERIMENTS
    names = [*dict.fromkeys(chain(*(EXPERIMENTS[name] for name in wanted)))]
    if len(known.get("baselines", {}).get("BM25", {}).get("validation", ())) < options.seeds:
        known["baselines"] = baselines(workplace, options.seeds)
    for done in each_measured(workplace, [*missing(names, options.seeds, runs)]):
        runs.setdefault(done.name, {})[str(done.seed)] = workplace.record(done)
        figures = collect(workplace, EXPERIMENTS, runs, known)
        print(f"{done.name}, seed {done.seed}: {write(raw, figures)}", flush=True)
        draw(figures, options.results / "daft")
    draw_embeddings(workplace, options.results / "daft")


def missing(names: Sequence[str], seeds: int, runs: Figures) -> Iterator[Variant]:
    """The runs that were not measured with their present settings, the first seed of all first."""
    for seed in range(seeds):
        for each in (variant(name, seed) for name in names):
            if runs.get(each.name, {}).get(str(seed), {}).get("settings") != each.identity:
                yield each


def each_measured(workplace: Workplace, variants: Sequence[Variant]) -> Iterator[Variant]:
    if variants:
        # The first run fills the embedding cache that all runs share.
        yield measure(workplace, variants[0])
    with ProcessPoolExecutor(workplace.processes.jobs, get_context("spawn")) as executor:
        waiting = [executor.submit(measure, workplace, each) for each in variants[1:]]
        for each in as_completed(waiting):
            yield each.result()


if __name__ == "__main__":
    main()
