"""Measures the speed and memory of training with each negative sampler, and of a large cache.

    python -m benchmarks.training_speed --data ../shared/data

Each sampler trains in a separate process, so that its peak memory can be measured; the processes
alternate, round by round. Writes docs/results/training.json and its page.
"""

import argparse
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from loadtests.results import RESULTS, spread, write
from swiftlet.encoders import torch_weights
from swiftlet.evaluation.machine import describe_machine
from swiftlet.indexing.progress import Silence
from swiftlet.retrieval.processors import available_processors
from training.data.passages import PassageTexts
from training.data.positives import KnownPositives
from training.data.validation_set import FEWEST_QUERIES
from training.inputs import load_data, make_dual_encoder, make_sampler
from training.loop.batch_encoder import BatchEncoder
from training.loop.contrastive_step import TrainingTexts, loss_and_gradient
from training.loop.devices import make_accelerator
from training.loop.optimisation import Optimisation
from training.model.dual_encoder import PARTS
from training.objective.contrastive import LossSettings
from training.objective.negatives.cache import NegativeCache
from training.objective.negatives.sampler import QueryBatch, Rows
from training.recipes.settings import Recipe, parse_recipe

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
    rows = {
        name: {
            "pairs_a_second": spread(sides[name].speeds),
            "prepare_seconds": prepare_seconds,
            **asdict(end),
        }
        for name, (prepare_seconds, end) in measured.items()
    }
    figures = {
        "template": "benchmarks/training_speed.md.j2",
        "machine": describe_machine(PACKAGES, threads="all cores"),
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else "",
        "collection": f"{arguments.collection} {arguments.split}",
        "max_tokens": MAX_TOKENS,
        "batch_size": arguments.batch_size,
        "negatives": arguments.negatives,
        "precision": arguments.precision,
        "rounds": arguments.rounds,
        "seconds": arguments.seconds,
        "samplers": rows,
        "cache_queries": CACHE_QUERIES,
        "cache_negatives": CACHE_NEGATIVES,
        "cache": [asdict(each) for each in draws],
    }
    print(write(arguments.raw, figures))


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
    parser.add_argument("--raw", type=Path, default=RESULTS / "training.json")
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
    """The figures of a side's process at its end; memory in bytes."""

    passages_a_step: float
    resident: int
    on_accelerator: int | None


class Side:
    """One sampler, and the process that trains with it in its turns."""

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
    """Prepare a sampler, then train for some seconds at each request."""
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
        self.sampler = make_sampler(recipe, data, self.encoder)
        rates = dict.fromkeys(PARTS, recipe.optimiser.learning_rate)
        self.optimisation = Optimisation(
            dual_encoder.parameter_groups(rates), recipe.optimiser, 10_000, self.accelerator
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
    """The passages of a store, with a count of those that were read."""

    def __init__(self, passages: PassageTexts) -> None:
        self._passages = passages
        self.num_passages, self.key = passages.num_passages, passages.key
        self.count = 0

    def texts(self, rows: Rows) -> list[str]:
        self.count += len(rows)
        return self._passages.texts(rows)


def peak_resident_bytes() -> int:
    # Not getrusage: its peak includes the memory of the process that started this one.
    lines = Path("/proc/self/status").read_text().splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(peak) * 1024


@dataclass(frozen=True)
class Draws:
    """Median seconds of a draw, of the score product alone, and of the rest of a step."""

    size: int
    dim: int
    draw: float
    product: float
    other: float


def measure_draws(size: int, dim: int, arguments: argparse.Namespace) -> Draws:
    """Draw from a full cache of random embeddings, alternating with the plain product."""
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


if __name__ == "__main__":
    main()
