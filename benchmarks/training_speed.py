"""Measures the speed and memory of training with each negative sampler.

    python -m benchmarks.training_speed --data ../shared/data

Each run is a separate process, so that its peak memory can be measured; the samplers alternate,
round by round. Writes docs/results/training.json and its page.
"""

import argparse
import multiprocessing
import re
import tempfile
import tomllib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch

from measuring.command_line import script_options
from measuring.machine import describe_machine
from measuring.results import RESULTS, alternating, spread, write
from swiftlet.cli.terminal import ProgressBars
from swiftlet.encoders import torch_weights
from swiftlet.processors import available_processors
from training.data.validation_set import FEWEST_QUERIES
from training.logged_run import read_training_log
from training.loop.log import FILE_NAME
from training.recipes.settings import Recipe, parse_recipe
from training.train import train

PACKAGES = ["torch", "transformers", "accelerate", "bm25s", "faiss-cpu", "numpy"]
SETTINGS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
SAMPLERS: dict[str, dict[str, Any]] = SETTINGS["samplers"]
SHOWN = ("batch_size", "negatives", "precision", "rounds")
LOGGED_EVERY = 2


class Measured(NamedTuple):
    """Pairs a second after the first steps, and peak memory in bytes."""

    pairs_a_second: float
    resident: int
    on_accelerator: int


def main() -> None:
    arguments = script_options(
        __doc__, data=Path, collection="squad-dev-v1.1", split="train", batch_size=32, negatives=8,
        precision="fp32", rounds=3, epochs=0.025, raw=RESULTS / "training.json",
    )  # fmt: skip
    runs: dict[str, list[Measured]] = {name: [] for name in SAMPLERS}
    spawn = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as pool,
    ):
        for number, name in enumerate(alternating(SAMPLERS, arguments.rounds)):
            recipe = make_recipe(arguments, SAMPLERS[name])
            run = pool.submit(measure, recipe, Path(folder) / str(number))
            runs[name].append(run.result())
            print(name, runs[name][-1], flush=True)
    figures = {
        "template": "benchmarks/training_speed.md.j2",
        "machine": describe_machine(PACKAGES, threads="all cores"),
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else "",
        "collection": f"{arguments.collection} {arguments.split}",
        "max_tokens": SETTINGS["recipe"]["passages"]["tokens"],
        **{name: vars(arguments)[name] for name in SHOWN},
        "samplers": {
            name: {
                "pairs_a_second": spread([run.pairs_a_second for run in each]),
                "resident": max(run.resident for run in each),
                "on_accelerator": max(run.on_accelerator for run in each),
            }
            for name, each in runs.items()
        },
    }
    print(write(arguments.raw, figures))


def make_recipe(arguments: argparse.Namespace, negatives: dict[str, Any]) -> Recipe:
    corpus, model = str(arguments.data / arguments.collection), {"model": str(torch_weights())}
    recipe = SETTINGS["recipe"]
    settings = recipe | {
        "data": [{"corpus": corpus, "qrels": arguments.split}],
        **{tower: recipe[tower] | model for tower in ("query_encoder", "document_encoder")},
        "validation": {"queries": FEWEST_QUERIES, "max_passages": 100, "every": LOGGED_EVERY},
        "fine_tuning": {"epochs": arguments.epochs},
        "negatives": {**negatives, "per_query": arguments.negatives},
        "optimiser": {"batch_size": arguments.batch_size, "precision": arguments.precision},
    }
    return parse_recipe(settings, "the benchmark")


def measure(recipe: Recipe, out: Path) -> Measured:
    """Train, and read the speed from the log; preparation and evaluations do not count."""
    torch.set_num_threads(available_processors())
    with ProgressBars(visible=False) as progress:
        train(recipe, out, progress=progress)
    first, *_, last = read_training_log(out / FILE_NAME).of_kind("step")
    seconds = last.values["seconds"] - first.values["seconds"]
    pairs = (last.step - first.step) * recipe.optimiser.batch_size
    # Not getrusage: its peak includes the memory of the process that started this one.
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    on_accelerator = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
    return Measured(pairs / seconds, 1024 * int(peak), on_accelerator)


if __name__ == "__main__":
    main()
