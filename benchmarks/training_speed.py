"""How fast each negative sampler trains, in how much memory, and what a large cache costs.

    python benchmarks/training_speed.py --data ../shared/data

Each sampler trains in a process of its own, so that its peak memory is its own; the processes take
turns, round by round. Writes docs/results/training.md.
"""

import argparse
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from models import torch_weights

# A script's folder comes first on the path, but in this one `training` is this file: to the end.
sys.path.sort(key=lambda entry: Path(entry).resolve() == Path(__file__).parent)

import numpy as np
import torch
from torch.nn import functional

from evaluation.machine import describe_machine
from indexing.progress import Silence
from retrieval.processors import available_processors
from training.devices import make_accelerator
from training.dual_encoder import PARTS
from training.encoding import BatchEncoder
from training.inputs import load_data, make_dual_encoder
from training.negatives.cache import NegativeCache
from training.negatives.choice import make_sampler
from training.negatives.sampler import QueryBatch, Rows
from training.optimisation import Optimisation
from training.passages import PassageTexts
from training.positives import KnownPositives
from training.recipe import FEWEST_QUERIES, Recipe, parse_recipe
from training.step import LossSettings, TrainingTexts, loss_and_gradient

PACKAGES = ["torch", "transformers", "accelerate", "bm25s", "faiss-cpu", "numpy"]
SAMPLERS: dict[str, dict[str, Any]] = {
    "in_batch": {"samplers": ["in_batch"], "gradient": "re-encoded"},
    "cache, gradient cached": {"samplers": ["cache"], "gradient": "cached"},
    "cache, gradient re-encoded": {"samplers": ["cache"], "gradient": "re-encoded"},
    "uniform": {"samplers": ["uniform"], "gradient": "re-encoded"},
    "bm25": {"samplers": ["bm25"], "gradient": "re-encoded"},
    "mined": {"samplers": ["mined"], "gradient": "re-encoded"},
}
CACHE_SIZES = (10_000, 100_000, 500_000)
CACHE_DIMS = (128, 512)
CACHE_QUERIES = 48
CACHE_NEGATIVES = 64
MAX_TOKENS = 48


def main() -> None:
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as folder:
        sides = {
            name: Side(make_recipe(arguments, settings), Path(folder))
            for name, settings in SAMPLERS.items()
        }
        for number in range(arguments.rounds):
            names = list(sides) if number % 2 == 0 else list(reversed(sides))
            for name in names:
                sides[name].train(arguments.seconds)
                print(
                    f"round {number + 1}, {name}: {sides[name].speeds[-1]:.1f} pairs/s", flush=True
                )
        measured = {name: side.finish() for name, side in sides.items()}
    draws = [measure_draws(size, dim, arguments) for dim in CACHE_DIMS for size in CACHE_SIZES]
    page = render(arguments, {name: side.speeds for name, side in sides.items()}, measured, draws)
    (Path(__file__).parents[1] / "docs" / "results" / "training.md").write_text(page)
    print(page)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of collections")
    parser.add_argument("--collection", default="squad-dev-v1.1")
    parser.add_argument("--split", default="train")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--negatives", type=int, default=8, help="for each query")
    parser.add_argument("--precision", default="fp32", help="fp32, bf16 or fp16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of training, at least, a round")
    return parser.parse_args()


def make_recipe(arguments: argparse.Namespace, negatives: dict[str, Any]) -> Recipe:
    model = str(torch_weights())
    return parse_recipe(
        {
            "recipe": "contrastive",
            "data": [{"corpus": str(arguments.data / arguments.collection),
                      "qrels": arguments.split}],
            "query_encoder": {"model": model, "layers": [0, 5], "max_tokens": MAX_TOKENS},
            "document_encoder": {"model": model, "max_tokens": MAX_TOKENS},
            "passages": {"tokens": MAX_TOKENS, "truncate": True},
            "validation": {"queries": FEWEST_QUERIES},
            "negatives": {**negatives, "per_query": arguments.negatives},
            "optimiser": {"batch_size": arguments.batch_size, "precision": arguments.precision},
        },
        "the benchmark",
    )  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """What a side's process says at its end; memory in bytes."""

    passages_a_step: float
    resident: int
    on_accelerator: int | None


class Side:
    """One sampler, trained with in a process of its own whenever it is its turn."""

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=work, args=(other, recipe, folder), daemon=True)
        self._process.start()
        other.close()
        self.prepare_seconds: float = self._connection.recv()
        self.speeds: list[float] = []

    def train(self, seconds: float) -> None:
        self._connection.send(seconds)
        self.speeds.append(self._connection.recv())

    def finish(self) -> tuple[float, Measured]:
        self._connection.send(None)
        measured = self._connection.recv()
        self._process.join()
        return self.prepare_seconds, measured


def work(connection: Connection, recipe: Recipe, folder: Path) -> None:
    """Prepare a sampler, then train for so many seconds as often as asked."""
    steps = Steps(recipe, folder)
    steps.take()  # warm-up
    connection.send(steps.prepare_seconds)
    while (seconds := connection.recv()) is not None:
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            steps.take()
            count += 1
        connection.send(count * recipe.optimiser.batch_size / (time.perf_counter() - began))
    connection.send(steps.measured())


class Steps:
    """Steps of the fine-tuning stage, in which both towers train."""

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        torch.set_num_threads(available_processors())
        self.recipe = recipe
        self.accelerator = make_accelerator(recipe.optimiser.precision, recipe.optimiser.batch_size)
        dual_encoder = make_dual_encoder(recipe)
        data, _ = load_data(recipe, dual_encoder.document_tower, folder, Silence())
        dual_encoder.to(self.accelerator.device).train_only(frozenset(PARTS))
        self.encoder = BatchEncoder(
            dual_encoder, self.accelerator, micro_batch_size=recipe.optimiser.batch_size
        )
        self.passages = CountedPassages(data.passages)
        self.texts = TrainingTexts(data.queries, self.passages, data.known)
        self.sampler = make_sampler(
            recipe.negatives,
            recipe.loss,
            data,
            dim=dual_encoder.dim,
            seed=0,
            device=self.accelerator.device,
            encode_queries=self.encoder.queries,
        )
        rates = dict.fromkeys(PARTS, recipe.optimiser.learning_rate)
        self.optimisation = Optimisation(
            dual_encoder.rated(rates), recipe.optimiser, 10_000, self.accelerator
        )
        self.settings = LossSettings(gradient=recipe.negatives.gradient)
        self.random = np.random.default_rng(0)
        self.pairs = data.pairs
        self.num_steps = 0
        began = time.perf_counter()
        self.sampler.prepare(self.encode)
        self.prepare_seconds = time.perf_counter() - began
        self.passages.count = 0

    def encode(self, rows: Rows) -> torch.Tensor:
        return self.encoder.passages(self.passages, rows)

    def take(self) -> None:
        batch = self.random.choice(len(self.pairs), self.recipe.optimiser.batch_size, replace=False)
        loss_and_gradient(
            self.encoder,
            self.texts,
            self.sampler,
            self.pairs[batch],
            self.settings,
            self.accelerator,
        )
        self.optimisation.step()
        self.sampler.refresh(self.encode)
        self.num_steps += 1

    def measured(self) -> Measured:
        on_gpu = self.accelerator.device.type == "cuda"
        return Measured(
            self.passages.count / self.num_steps,
            peak_resident_bytes(),
            torch.cuda.max_memory_allocated() if on_gpu else None,
        )


class CountedPassages:
    """The passages of a store, and how many were read."""

    def __init__(self, passages: PassageTexts) -> None:
        self._passages = passages
        self.num_passages, self.key = passages.num_passages, passages.key
        self.count = 0

    def texts(self, rows: Rows) -> list[str]:
        self.count += len(rows)
        return self._passages.texts(rows)


def peak_resident_bytes() -> int:
    # Not getrusage, which begins with the memory of the process that started this one.
    lines = Path("/proc/self/status").read_text().splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(peak) * 1024


@dataclass(frozen=True)
class Draws:
    """Median seconds: of drawing, of the score product alone, and of all else a step does."""

    size: int
    dim: int
    draw: float
    product: float
    other: float


def measure_draws(size: int, dim: int, arguments: argparse.Namespace) -> Draws:
    """Draw from a full cache of random embeddings, in turn with the plain product."""
    torch.set_num_threads(available_processors())
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = torch.Generator(device).manual_seed(0)

    def encode(rows: Rows) -> torch.Tensor:
        drawn = torch.randn(len(rows), dim, generator=generator, device=device)
        return functional.normalize(drawn)

    numbers = np.arange(CACHE_QUERIES)
    cache = NegativeCache(
        KnownPositives([[number] for number in numbers.tolist()]),
        num_passages=size,
        dim=dim,
        per_query=CACHE_NEGATIVES,
        fraction=1.0,
        refresh_fraction=CACHE_QUERIES / size,
        seed=0,
        device=device,
    )
    cache.prepare(encode)
    stored, batch = encode(np.arange(size)), QueryBatch(numbers, numbers, encode(numbers))
    fresh = encode(numbers)

    def maintain() -> None:
        cache.update(numbers, fresh)
        cache.refresh(lambda _rows: fresh)

    works: dict[str, Callable[[], object]] = {
        "draw": lambda: cache.draw(batch),
        "product": lambda: batch.embeddings @ stored.T,
        "other": maintain,
    }
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(2 * arguments.rounds + 1):
        for name, function in works.items():
            seconds[name].append(timed(function, device))
    # The first round warms up.
    return Draws(size, dim, **{n: statistics.median(values[1:]) for n, values in seconds.items()})


def timed(function: Callable[[], object], device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    function()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def render(
    arguments: argparse.Namespace,
    speeds: dict[str, list[float]],
    measured: dict[str, tuple[float, Measured]],
    draws: list[Draws],
) -> str:
    accelerator = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    rows = []
    for name, values in speeds.items():
        prepare, end = measured[name]
        rows.append(
            f"| {name} | {statistics.median(values):.1f} | {min(values):.1f} | {max(values):.1f} "
            f"| {end.passages_a_step:.0f} | {prepare:.1f} | {end.resident / 2**30:.2f} |"
            + (f" {end.on_accelerator / 2**30:.2f} |" if end.on_accelerator is not None else "")
        )
    more = (" accelerator GiB |", "---|") if accelerator else ("", "")
    table = "\n".join(rows)
    cache_table = "\n".join(
        f"| {found.size:,} | {found.dim} | {found.draw * 1000:.1f} | {found.product * 1000:.1f} "
        f"| {(found.draw - found.product) * 1000:.1f} | {found.other * 1000:.2f} |"
        for found in draws
    )
    machine = describe_machine(PACKAGES, threads="all cores")
    return f"""# Training speed and memory

Made by `python benchmarks/training_speed.py --data DATA`.
{machine}{f" Accelerator: {accelerator}." if accelerator else ""}

## Negative samplers

Steps of the fine-tuning stage, in which both towers train: {arguments.collection} {arguments.split}, all-MiniLM-L6-v2 with
6 layers for documents and its layers 0 and 5 for queries, {MAX_TOKENS} tokens, batches of {arguments.batch_size} pairs,
{arguments.negatives} negatives a query (in_batch: {arguments.batch_size - 1}), {arguments.precision}. {arguments.rounds} alternating rounds of at least {arguments.seconds:g} s, each
sampler in a process of its own. "Encoded" are the passages that went through the document tower in
a step, with gradient or to refresh the cache; "prepare" is what comes before the first step, and
what `mined` repeats every `refresh_every` steps.

| negatives | pairs a second, median | least | most | encoded a step | prepare s | peak resident GiB |{more[0]}
|---|---|---|---|---|---|---|{more[1]}
{table}

## The cache's size

A draw of {CACHE_NEGATIVES} negatives for each of {CACHE_QUERIES} queries from a full cache of random embeddings, in turn with
the plain product of the queries and as many embeddings; what is over the product is the draw's own.
"Other" is all else that the cache does in a step, without the encoding: {CACHE_QUERIES} embeddings replaced and
{CACHE_QUERIES} refreshed. Medians of {2 * arguments.rounds} rounds, milliseconds.

Of the draw's own time the noise is the larger part: up to some 33,000 cached embeddings all get it,
beyond that a fixed number. What still grows is one reading of the scores, for the maxima of blocks.

| cached | dim | draw | product | over the product | other |
|---|---|---|---|---|---|
{cache_table}
"""  # noqa: E501


if __name__ == "__main__":
    main()
