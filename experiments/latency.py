"""The latency of query encoders, which alternate in the measurement."""

from collections.abc import Mapping
from math import inf
from pathlib import Path

from experiments.pages import kept
from export.latency import measure_latencies, texts_of_length
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.retrieval.encoder import TOKENIZER_FILE, OnnxEncoder

NUM_TOKENS = 10
_ROUNDS = 300


def query_latencies(directories: Mapping[str, Path], path: Path) -> dict[str, float]:
    """Median milliseconds for a query of ten tokens, by encoder in int8; measured once and kept.

    On one thread, tokenising included. All encoders have the word pieces of the one that ships.
    """
    found: dict[str, float] = kept(path, lambda: _measure(directories))
    return found


def _measure(directories: Mapping[str, Path]) -> dict[str, float]:
    encoders = {
        name: OnnxEncoder.load(directory, precision="int8")
        for name, directory in directories.items()
    }
    texts = texts_of_length((DEFAULT_ENCODER / TOKENIZER_FILE).read_text("utf-8"), [NUM_TOKENS])
    seconds = measure_latencies(encoders, texts, rounds=_ROUNDS, seconds=inf)
    return {name: 1000 * by_length[NUM_TOKENS] for name, by_length in seconds.items()}
