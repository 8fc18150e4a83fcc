"""Runs of `swiftlet` in processes of their own, and figures that are measured once."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from math import inf
from pathlib import Path
from typing import Any

from export.latency import measure_latencies, texts_of_length
from measuring.machine import processor_kind
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.encoders.encoder import TOKENIZER_FILE, OnnxEncoder

# Other processors are slower in bf16.
PRECISION = "bf16" if processor_kind() == "AMX" else "fp32"
NUM_TOKENS = 10
_ROUNDS = 300


def kept(path: Path, measure: Callable[[], Any]) -> Any:
    """Figures that are measured once, and later read from their file."""
    if not path.is_file():
        content = json.dumps(measure())
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text(content)
        partial.rename(path)
    return json.loads(path.read_text("utf-8"))


def run_swiftlet(*arguments: str, output: Path) -> tuple[int, str]:
    """Run a command on one thread: its exit status, and its output, kept in the file `output`."""
    output.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "swiftlet", *arguments]
    variables = {**os.environ, "OMP_NUM_THREADS": "1"}
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
