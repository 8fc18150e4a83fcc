"""DAFT's claims and ablations on a small scale, on 2 CPU cores.

DATA is a folder that has squad-dev-v1.1, medquad, boolq and scifact in BEIR's layout.

    python -m experiments.daft --data DATA                    (a few hours)
    python -m experiments.daft --data DATA --only collapse    (one experiment)

Writes docs/results/daft.json, the page and its plots; with --only, into the folder of the runs.
Finished runs are kept in --runs and used again. Needs the extra `dev`, which has the torch weights.
"""

import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

from experiments.daft_figures import collect, draw, draw_embeddings
from experiments.daft_runs import Variant, Workplace, run_all
from experiments.runs import Processes
from loadtests.command_line import script_options
from loadtests.results import RESULTS, write

RUNS = Path(__file__).parents[1] / "runs" / "daft"

TABLE = tomllib.loads(Path(__file__).with_name("daft_runs.toml").read_text("utf-8"))
EXPERIMENTS: dict[str, list[str]] = TABLE["experiments"]


def settings_of(name: str) -> dict[str, Any]:
    own = dict(TABLE["settings"][name])
    shared = [settings_of(other).items() for other in own.pop("like", [])]
    return dict(chain(*shared)) | own


def variant(name: str) -> Variant:
    """A run by its name. Runs for the map, and runs for negatives alone, are not tested."""
    untested = name.startswith(("map-", "negatives-"))
    tested = () if untested else tuple(TABLE["tested"].get(name, ["ended"]))
    return Variant(name, settings_of(name), tested)


def main() -> None:
    options = script_options(
        __doc__, data=Path, only=("", *EXPERIMENTS), runs=RUNS, jobs=2, threads=1, results=RESULTS
    )
    processes = Processes(options.jobs, options.threads)
    workplace = Workplace(options.data.resolve(), options.runs.resolve(), processes)
    experiments = {name: [*map(variant, runs)] for name, runs in EXPERIMENTS.items()}
    wanted = [experiments[options.only]] if options.only else experiments.values()
    # The first run fills the embedding cache that all runs share.
    run_all(workplace, [variant("default")])
    run_all(workplace, [*chain(*wanted)])
    results = workplace.runs if options.only else options.results
    figures = collect(workplace, experiments)
    draw_embeddings(workplace, experiments["collapse"], results / "daft")
    print(write(results / "daft.json", figures))
    draw(figures, results / "daft")


if __name__ == "__main__":
    main()
