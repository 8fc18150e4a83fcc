"""The cost of encoding a query: the shipped encoders and their peers.

    python -m benchmarks.query_encoding

One query at a time on one thread; all encoders alternate in one run. Writes the figures of this
kind of processor to docs/results/query-encoding.json, beside those of other kinds, and the page.
Needs the torch weights of the extra `dev`.
"""

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import torch

from benchmarks.peers import INT8, QUERY_LAYERS, TORCH, named_peers
from export.latency import measure_latencies, texts_of_length
from measuring.command_line import script_options
from measuring.machine import describe_machine, processor_kind
from measuring.results import RESULTS, write
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.encoders.encoder import TOKENIZER_FILE, OnnxEncoder

LENGTHS = (4, 8, 10, 16, 32, 64)
PACKAGES = ["onnxruntime", "torch", "sentence-transformers", "transformers", "optimum-onnx"]


def main() -> None:
    options = script_options(__doc__, rounds=60, raw=RESULTS / "query-encoding.json")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        shipped = measure_shipped(Path(name), options.rounds)
    known = json.loads(options.raw.read_text("utf-8")) if options.raw.exists() else {"kinds": {}}
    # Other figures of a kind were measured by earlier commits, which the page names.
    known["kinds"].setdefault(processor_kind(), {}).update(
        machine=describe_machine(PACKAGES, threads="1"), shipped_ms=shipped
    )
    figures = {
        "template": "benchmarks/query_encoding.md.j2",
        "teacher": TORCH,
        "peer": INT8.format(len(QUERY_LAYERS)),
    }
    print(write(options.raw, known | figures))


def measure_shipped(folder: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Median milliseconds of processor time by encoder and tokens, tokenising included.

    The tokens are those of the encoder that ships; the lengths are strings, as in JSON.
    """
    encoders: dict[str, Any] = {**named_peers(folder, threads=1)}
    for manifest in sorted(DEFAULT_ENCODER.parent.glob("*/manifest.json")):
        encoder = OnnxEncoder.load(manifest.parent)
        encoders[f"{manifest.parent.name}, {encoder.precision}"] = encoder
    texts = texts_of_length((DEFAULT_ENCODER / TOKENIZER_FILE).read_text("utf-8"), LENGTHS)
    seconds = measure_latencies(encoders, texts, rounds=rounds, seconds=90, clock=time.process_time)
    return {n: {str(k): 1000 * v for k, v in each.items()} for n, each in seconds.items()}


if __name__ == "__main__":
    main()
