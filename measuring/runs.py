"""The processes of experiments, and figures that are measured once."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import inf
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from export.latency import measure_latencies, texts_of_length
from measuring.machine import processor_kind
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.encoders.encoder import TOKENIZER_FILE, OnnxEncoder

# Other processors are slower in bf16.
PRECISION = "bf16" if processor_kind() == "AMX" else "fp32"
NUM_TOKENS = 10
_ROUNDS = 300
Item = TypeVar("Item")


def kept(path: Path, measure: Callable[[], Any]) -> Any:
    """Figures that are measured once, and later read from their file."""
    if not path.is_file():
        path.write_text(json.dumps(measure()))
    return json.loads(path.read_text("utf-8"))


def measured(
    figures_of: Callable[..., dict[str, Any]],
    runs: Sequence[tuple[Any, ...]],
    work: Path,
    jobs: int,
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """`figures_of(*run)` of each run, in so many processes of one thread.

    They are kept in `work` under the names of the runs, so that an interrupted experiment goes on.
    """
    os.environ["OMP_NUM_THREADS"] = "1"
    work.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(jobs, get_context("spawn")) as executor:
        found = executor.map(partial(_measured, figures_of, work), runs)
        return dict(zip(runs, found, strict=True))


def _measured(
    figures_of: Callable[..., dict[str, Any]], work: Path, run: tuple[Any, ...]
) -> dict[str, Any]:
    name = ", ".join(map(str, run))
    figures: dict[str, Any] = kept(work / f"{name}.json", partial(figures_of, *run))
    print(name, flush=True)
    return figures


@dataclass(frozen=True, slots=True)
class Processes:
    """The number of `swiftlet` processes at a time, and the threads of each."""

    jobs: int
    threads: int

    def __str__(self) -> str:
        return f"{self.threads} for each of {self.jobs} runs at a time"

    def each(self, work: Callable[[Item], None], items: Iterable[Item]) -> None:
        """Do the work for each item, as many at a time as there are jobs."""
        with ThreadPoolExecutor(self.jobs) as executor:
            list(executor.map(work, items))

    def swiftlet(self, *arguments: str, output: Path) -> tuple[int, str]:
        """Run a command of Swiftlet: its exit status, and its output, kept in the file `output`."""
        output.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "swiftlet", *arguments]
        variables = {**os.environ, "OMP_NUM_THREADS": str(self.threads)}
        with output.open("wb") as file:
            ended = subprocess.run(command, env=variables, stdout=file, stderr=file, check=False)
        return ended.returncode, output.read_text("utf-8")


def query_latencies(directories: Mapping[str, Path], path: Path) -> dict[str, float]:
    """Median milliseconds for a query of ten tokens, by encoder in int8; measured once and kept.

    On one thread, tokenising included; the encoders alternate. The tokens are word pieces of the
    encoder that ships.
    """

    def measure() -> dict[str, float]:
        encoders = {n: OnnxEncoder.load(each, precision="int8") for n, each in directories.items()}
        texts = texts_of_length((DEFAULT_ENCODER / TOKENIZER_FILE).read_text("utf-8"), [NUM_TOKENS])
        seconds = measure_latencies(encoders, texts, rounds=_ROUNDS, seconds=inf)
        return {name: 1000 * by_length[NUM_TOKENS] for name, by_length in seconds.items()}

    return dict(kept(path, measure))
