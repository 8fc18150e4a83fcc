"""DAFT's claims, controls and ablations on a small scale, on 2 CPU cores.

    python -m experiments.daft --data DATA                    (hours)
    python -m experiments.daft --data DATA --only collapse    (one experiment)

Runs of docs/results/daft.json with the same settings are not repeated. Needs the extra `dev`, which
has the torch weights.
"""

import json
from argparse import Namespace

import faiss
import torch

from experiments.daft.baselines import baselines
from experiments.daft.figures import collect
from experiments.daft.plots import draw
from experiments.daft.runs import BASE, EXPERIMENTS, NAMES, TABLE, identity, overrides, record_of
from experiments.daft.tests import TESTS, TITLES
from measuring.experiment import Experiment, Found, Run, file_of
from measuring.results import Figures
from training.recipes.settings import read_recipe

BASELINES = "baselines"
EXPERIMENT = Experiment(
    "daft", __doc__, [name for name, _ in (*TABLE["training"], *TESTS)],
    ["torch", "transformers", "sentence-transformers", "onnxruntime", "bm25s"], seeds=3, jobs=2,
)  # fmt: skip


def runs(options: Namespace) -> list[list[Run]]:
    """The first run fills the embedding cache that all runs share."""
    if options.raw.is_file() and not options.again:
        for run, record in known(json.loads(options.raw.read_text("utf-8"))).items():
            if not file_of(options.work, run).is_file():
                file_of(options.work, run).write_text(json.dumps(record), "utf-8")
    names = EXPERIMENTS[options.only] if options.only else NAMES
    first, *rest = ((name, seed) for seed in range(options.seeds) for name in (BASELINES, *names))
    return [[first], rest]


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


def figures_of(options: Namespace, name: str, seed: int) -> Figures:
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    if name != BASELINES:
        return record_of(options, name, seed)
    pooling = [f"{tower}.pooling=mean" for tower in ("query_encoder", "document_encoder")]
    return baselines(options, read_recipe(BASE, [*overrides(options, "default", seed), *pooling]))


def collected(options: Namespace, found: Found) -> Figures:
    records: dict[str, dict[str, Figures]] = {}
    for (name, seed), record in found.items():
        records.setdefault(name, {})[f"{seed}"] = record
    of_seeds = [*records.pop(BASELINES).values()]
    systems = {
        name: {title: figures[title] for title in TITLES}
        | {"validation": [each[name]["validation"]["nDCG@10"] for each in of_seeds]}
        for name, figures in of_seeds[0].items()
    }
    return collect(options, records, systems)


def main() -> None:
    EXPERIMENT.main(runs, figures_of, collected, draw, only=("", *EXPERIMENTS))


if __name__ == "__main__":
    main()
