"""DAFT's claims, controls and ablations on a small scale, on 2 CPU cores.

    python -m experiments.daft --data DATA                    (all)
    python -m experiments.daft --data DATA --only collapse    (one experiment)

Runs of docs/results/daft.json with the same settings are not repeated. All runs take more than ten
hours of one core, a run about six minutes. Needs the extra `dev`, which has the torch weights.
"""

import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from experiments.daft.baselines import BASELINES, figures_of
from experiments.daft.figures import collect
from experiments.daft.plots import draw
from experiments.daft.runs import EXPERIMENTS, NAMES, TABLE, directory, identity
from experiments.daft.tests import TESTS, TITLES
from experiments.pairs import query_latencies
from export.encoder_directory import export_encoder
from measuring.experiment import Experiment, Found, Run, file_of, kept
from measuring.results import Figures

LATENCIES = "latency.json"
EXPERIMENT = Experiment(
    "daft", __doc__, [name for name, _ in (*TABLE["training"], *TESTS)],
    ["torch", "transformers", "sentence-transformers", "onnxruntime", "bm25s"], seeds=3, jobs=2,
)  # fmt: skip


def runs(options: Namespace) -> list[list[Run]]:
    """The first run fills the embedding cache that all runs share; known runs stay on the page."""
    found: dict[Run, Figures] = {}
    if options.raw.is_file() and not options.again:
        figures = json.loads(options.raw.read_text("utf-8"))
        found = known(figures)
        if figures["latencies"]:
            kept(options.work / LATENCIES, lambda: figures["latencies"])
    for run, record in found.items():
        if not file_of(options.work, run).is_file():
            file_of(options.work, run).write_text(json.dumps(record), "utf-8")
    names = EXPERIMENTS[options.only] if options.only else NAMES
    first, *rest = ((name, seed) for seed in range(options.seeds) for name in (BASELINES, *names))
    return [[first], [*dict.fromkeys([*rest, *found])]]


def known(figures: Figures) -> dict[Run, Figures]:
    """The runs of a page that have the settings of now."""
    found: dict[Run, Figures] = {}
    for name, records in figures["runs"].items():
        for seed, record in records.items():
            if name in NAMES and record["settings"] == identity(name):
                found[name, int(seed)] = record
    of_seeds = min(len(each["validation"]) for each in figures["baselines"].values())
    for seed in range(of_seeds):
        found[BASELINES, seed] = {
            name: {**each, "validation": {"nDCG@10": each["validation"][seed]}}
            for name, each in figures["baselines"].items()
        }
    return found


def collected(options: Namespace, found: Found) -> Figures:
    records: dict[str, dict[str, Figures]] = {}
    for (name, seed), record in found.items():
        records.setdefault(name, {})[f"{seed}"] = record
    of_seeds = [*records.pop(BASELINES).values()]
    systems = {
        name: {title: figures[title] for title in (*TITLES, "by_query") if title in figures}
        | {"validation": [each[name]["validation"]["nDCG@10"] for each in of_seeds]}
        for name, figures in of_seeds[0].items()
    }
    layers = EXPERIMENTS["layers"]
    measured = layers and all(name in records for name in layers)
    return collect(records, systems, latencies(options, layers) if measured else {})


def latencies(options: Namespace, names: Sequence[str]) -> Figures:
    """Milliseconds of a query by run; measured once and kept."""
    directories = {name: directory(options, (name, 0)) / "query-encoder" for name in names}
    path: Path = options.work / LATENCIES
    for out in () if path.is_file() else directories.values():
        if not out.is_dir():
            export_encoder(out.with_name("run") / "query_encoder", out, precisions=["int8"])
    return query_latencies(directories, path)


if __name__ == "__main__":
    EXPERIMENT.main(runs, figures_of, collected, draw, only=("", *EXPERIMENTS))
