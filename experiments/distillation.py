"""Finds the best layers and settings of a small query encoder, and the quality that it keeps.

DATA is a folder that has the collections named in distillation_data.py, in BEIR's layout.

    python -m experiments.distillation --data DATA                  (some hours)
    python -m experiments.distillation --data DATA --only layers    (one experiment)
    python -m experiments.distillation --render                     (the page alone)

Writes docs/results/distillation.json, the page and its plots. Finished runs are kept in --runs and
used again. Needs the extra `dev`, which has the torch weights, and WordNet (Debian's package
wordnet-base).
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from experiments.distillation_data import WORDNET_FOLDER, Workplace, prepare
from experiments.distillation_figures import collect
from experiments.distillation_plots import draw
from experiments.distillation_runs import Variant, judge, run_all
from experiments.distillation_shipped import QUANTISED, export_students, measure_int8
from experiments.pages import parsed, read_figures
from experiments.processes import Processes
from loadtests.results import write

DEFAULT_RUNS = Path(__file__).parents[1] / "runs" / "distillation"

RATE = "1e-3"


def keeping(*layers: int) -> Variant:
    """A short run with these layers of the teacher."""
    settings = {"layers": str(list(layers)), "epochs": "0.15", "learning_rate": RATE}
    return Variant("-".join(["layers", *map(str, layers)]), settings, prose=False)


def trying(name: str, why: str, *, prose: bool = False, **settings: str) -> Variant:
    """A run with about 35,000 texts, long enough to compare settings."""
    return Variant(name, {"epochs": "0.25", "learning_rate": RATE} | settings, prose, why)


SINGLES = [(layer,) for layer in range(6)]
PAIRS = [(0, 1), (0, 3), (0, 4), (0, 5), (1, 5), (2, 5), (3, 5), (4, 5)]
TRIPLES = [(0, 1, 5), (0, 2, 5), (0, 3, 5), (0, 4, 5), (3, 4, 5)]
LAYERS = [keeping(*layers) for layers in (*SINGLES, *PAIRS, *TRIPLES)]

PATH = [
    trying("rate-1e-4", "layers 0 and 5, rate 1e-4, batches of 128", learning_rate="1e-4"),
    trying("rate-3e-4", "rate 3e-4", learning_rate="3e-4"),
    trying("rate-1e-3", "rate 1e-3"),
    trying("rate-2e-3", "rate 2e-3", learning_rate="2e-3"),
    trying("projection", "1e-3 and a dense layer behind the pooling", project="true"),
    trying("cosine", "1e-3 and the cosine instead of the squared distance", distance='"cosine"'),
    trying("batch-64", "1e-3 and batches of 64", batch_size="64"),
    trying("batch-32", "1e-3 and batches of 32", batch_size="32"),
    trying("dropout", "batches of 64 and a dropout of 0.1", batch_size="64", dropout="0.1"),
    trying(
        "mixture", "batches of 64, queries and prose", prose=True, batch_size="64", epochs="0.145"
    ),
]


def on_everything(name: str, layers: list[int], epochs: str) -> Variant:
    """The long run, on queries and prose."""
    settings = {"layers": str(layers), "epochs": epochs, "batch_size": "64", "every": "1000"}
    why = f"{epochs} epochs of queries and prose"
    return Variant(f"{name}-on-everything", settings | {"learning_rate": RATE}, why=why)


def on_queries(name: str, epochs: str = "2.0") -> Variant:
    """The run after the long one, on queries alone."""
    settings = {"epochs": epochs, "batch_size": "64", "every": "1000", "learning_rate": "5e-4"}
    # The second warm-up lowers quality until the end of the schedule; patience must outlast it.
    settings["patience"] = "20"
    why = f"and {float(epochs):g} of queries"
    return Variant(name, settings, prose=False, why=why, after=f"{name}-on-everything")


SHIPPED = "two-layers"
LONG = [
    on_everything("one-layer", [5], "1.6"),
    on_everything(SHIPPED, [0, 5], "2.0"),
    on_everything("three-layers", [0, 4, 5], "2.4"),
]
# The share of the teacher's nDCG@10 that each encoder has to keep, as a mean over the tests.
FINALS = {
    on_queries("one-layer"): 0.92,
    on_queries(SHIPPED): 0.97,
    on_queries("three-layers", epochs="4.0"): 0.99,
}
EXPERIMENTS = {"path": PATH, "layers": LAYERS, "finals": [*LONG, *FINALS]}


def main() -> None:
    """Run the chosen experiments, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=EXPERIMENTS, default=[*EXPERIMENTS])
    parser.add_argument("--wordnet", type=Path, default=WORDNET_FOLDER, help="has data.noun")
    parser.add_argument("--runs", type=Path, default=DEFAULT_RUNS)
    Processes.add_options(parser)
    options = parsed(parser)
    raw = options.results / "distillation.json"
    if options.render:
        figures = read_figures(raw)
    else:
        processes = Processes.from_options(options)
        workplace = prepare(options.data.resolve(), options.wordnet, options.runs.resolve())
        shipped = [run for run in (*LONG, *FINALS) if run.name.startswith(SHIPPED)]
        run_experiments(workplace, processes, options.only, shipped)
        figures = collect(workplace, processes, [*PATH, *shipped], LAYERS, FINALS)
    print(write(raw, figures))
    draw(figures, options.results)


def run_experiments(
    workplace: Workplace,
    processes: Processes,
    wanted: Sequence[str],
    shipped: Sequence[Variant],
) -> None:
    """Make and evaluate all runs of the experiments."""
    for name, runs in EXPERIMENTS.items():
        if name != "finals" and name in wanted:
            run_all(workplace, processes, runs, "development")
    if "finals" in wanted:
        # Each final continues one of the long runs.
        run_all(workplace, processes, LONG, "tests")
        run_all(workplace, processes, list(FINALS), "tests")
        judge_as_shipped(workplace, [variant.name for variant in FINALS])
        run_all(workplace, processes, shipped, "development")


def judge_as_shipped(workplace: Workplace, students: Sequence[str]) -> None:
    """Export the finished students, and evaluate them in int8."""
    export_students(workplace, students)
    for student in students:
        for precision in QUANTISED:
            judge(workplace, f"{student} {precision}", "tests")
            measure_int8(workplace, student, precision)


if __name__ == "__main__":
    main()
