"""The cost of encoding a query: the shipped encoders and their peers, and the paper's sizes.

    python -m benchmarks.query_encoding

One query at a time on one thread; all encoders alternate in one run. Writes the figures of this
kind of processor to docs/results/query-encoding.json, beside those of other kinds, and the page.
Needs the torch weights of the extra `dev`.
"""

import json
import os
import tempfile
import time
from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch
import transformers

from benchmarks.peers import INT8, QUERY_LAYERS, TORCH, named_peers
from export.encoder_directory import export_encoder
from export.latency import measure_latencies, texts_of_length
from measuring.command_line import script_options
from measuring.machine import describe_machine, processor_kind
from measuring.results import RESULTS, write
from swiftlet.encoders import DEFAULT_ENCODER, torch_weights
from swiftlet.encoders.encoder import TOKENIZER_FILE, OnnxEncoder
from swiftlet.types import Embeddings
from training.model.quiet import quiet
from training.model.towers import Tower, TowerSettings

SHIPPED_LENGTHS = (4, 8, 10, 16, 32, 64)
PAPER_LENGTHS = (4, 10, 16, 32, 64)
# 001, Table 2: milliseconds of the query encoder on a Xeon Silver 4210, without tokenisation.
PAPER_MS = {2: 15.6, 4: 29.4, 6: 42.8, 8: 55.1, 10: 67.4, 12: 79.1}
PACKAGES = ["onnxruntime", "torch", "sentence-transformers", "transformers", "optimum-onnx"]
RUNTIMES = ("torch", "fp32", "int8")

Name = TypeVar("Name", bound=Hashable)


class Tokenised:
    """An encoder in torch or ONNX Runtime that tokenises each text only once."""

    def __init__(self, encoder: OnnxEncoder, tower: Tower | None = None) -> None:
        self._encoder, self._tower = encoder, tower
        self._tokenise = cache(encoder.tokenise)

    @torch.inference_mode()
    def encode(self, texts: Sequence[str]) -> Embeddings:
        ids = self._tokenise(*texts)
        if self._tower is None:
            return self._encoder.embed(ids)[np.newaxis]
        tensor = torch.tensor([ids])
        outputs = self._tower({"input_ids": tensor, "attention_mask": torch.ones_like(tensor)})
        embeddings: Embeddings = torch.nn.functional.normalize(outputs, dim=-1).numpy()
        return embeddings


def main() -> None:
    options = script_options(__doc__, rounds=60, raw=RESULTS / "query-encoding.json")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        shipped = measure_shipped(Path(name), options.rounds)
        paper = measure_paper_sizes(Path(name), options.rounds)
    known = json.loads(options.raw.read_text("utf-8")) if options.raw.exists() else {"kinds": {}}
    # Their forms in int8 were measured by the tag papers-1.
    known["kinds"].setdefault(processor_kind(), {}).update(
        machine=describe_machine(PACKAGES, threads="1"),
        shipped_ms=shipped,
        paper_ms={
            runtime: {str(layers): paper[layers, runtime] for layers in PAPER_MS}
            for runtime in RUNTIMES
        },
    )
    figures = {
        "template": "benchmarks/query_encoding.md.j2",
        "teacher": TORCH,
        "peer": INT8.format(len(QUERY_LAYERS)),
        "reported_ms": {str(layers): value for layers, value in PAPER_MS.items()},
    }
    print(write(options.raw, known | figures))


def measure_shipped(folder: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Milliseconds by encoder and tokens, tokenising included."""
    encoders: dict[str, Any] = {**named_peers(folder, threads=1)}
    for manifest in sorted(DEFAULT_ENCODER.parent.glob("*/manifest.json")):
        encoder = OnnxEncoder.load(manifest.parent)
        encoders[f"{manifest.parent.name}, {encoder.precision}"] = encoder
    return measured_ms(encoders, texts_of(DEFAULT_ENCODER, SHIPPED_LENGTHS), rounds)


def measure_paper_sizes(folder: Path, rounds: int) -> dict[tuple[int, str], dict[str, float]]:
    """Milliseconds by (layers, runtime) and tokens, without tokenising, of random weights."""
    encoders: dict[tuple[int, str], Any] = {}
    for layers in PAPER_MS:
        source, exported = folder / f"torch-{layers}", folder / f"onnx-{layers}"
        tower = random_tower(source, layers)
        with quiet():
            export_encoder(source, exported, precisions=["fp32", "int8"])
        (source / "model.safetensors").unlink()
        fp32, int8 = (OnnxEncoder.load(exported, precision=p) for p in ("fp32", "int8"))
        found = (Tokenised(fp32, tower), Tokenised(fp32), Tokenised(int8))
        encoders |= {(layers, name): each for name, each in zip(RUNTIMES, found, strict=True)}
    return measured_ms(encoders, texts_of(exported, PAPER_LENGTHS), rounds)


def random_tower(folder: Path, layers: int) -> Tower:
    """BERT-base with `layers` layers, random weights and the teacher's word pieces."""
    torch.manual_seed(layers)
    tokenizer = transformers.AutoTokenizer.from_pretrained(torch_weights())
    config = transformers.BertConfig(vocab_size=len(tokenizer), num_hidden_layers=layers)
    plain = folder.with_name(f"{folder.name}-plain")
    with quiet():
        transformers.BertModel(config).save_pretrained(plain)
        tokenizer.save_pretrained(plain)
    tower = Tower.load(TowerSettings(model=plain, pooling="cls", max_tokens=64)).eval()
    tower.save(folder)
    (plain / "model.safetensors").unlink()
    return tower


def texts_of(directory: Path, lengths: Sequence[int]) -> dict[int, list[str]]:
    """Texts of these lengths in the tokens of an encoder directory."""
    return texts_of_length((directory / TOKENIZER_FILE).read_text("utf-8"), lengths)


def measured_ms(
    encoders: Mapping[Name, Any], texts: Mapping[int, Sequence[str]], rounds: int
) -> dict[Name, dict[str, float]]:
    """Median processor time in milliseconds; the lengths are strings, as in JSON."""
    seconds = measure_latencies(encoders, texts, rounds=rounds, seconds=90, clock=time.process_time)
    return {n: {str(k): 1000 * v for k, v in each.items()} for n, each in seconds.items()}


if __name__ == "__main__":
    main()
