"""The speed of encoding documents, compared with sentence-transformers.

    python -m benchmarks.document_encoding --data DATA

The encoders alternate in one run, on all cores, for some minutes. Writes the figures of this kind
of processor to docs/results/document-encoding.json, beside those of other kinds, and the page.
"""

import json
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.peers import INT8, TORCH, named_peers
from measuring.command_line import folder_with, script_options
from measuring.machine import describe_machine, processor_kind
from measuring.results import RESULTS, alternating, bound, spread, write
from swiftlet.corpora.collections import read_documents
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.encoders.encoding import encode_texts
from swiftlet.index.documents.passages import PassageSplitter, encoder_text
from swiftlet.processors import available_processors

PACKAGES = ["onnxruntime", "tokenizers", "sentence-transformers", "torch", "optimum-onnx"]
COLLECTION = "scifact"
SWIFTLET = "swiftlet, int8, 6 layers"
GOALS = {TORCH: 4.0, INT8.format(6): 1.5}


def main() -> None:
    options = script_options(
        __doc__, data=folder_with(COLLECTION), documents=300, rounds=7,
        raw=RESULTS / "document-encoding.json",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        collection = options.data / COLLECTION
        speeds, cpu = measure_encoding(collection, options.documents, options.rounds, Path(folder))
    ratios = {
        name: spread([ours / theirs for ours, theirs in zip(speeds[SWIFTLET], each, strict=True)])
        for name, each in speeds.items()
    }
    kinds = json.loads(options.raw.read_text("utf-8"))["kinds"] if options.raw.exists() else {}
    kinds[processor_kind()] = {
        "machine": describe_machine(PACKAGES, threads="all cores"),
        "collection": COLLECTION,
        "documents": options.documents,
        "rounds": options.rounds,
        "passages_a_second": {name: spread(values) for name, values in speeds.items()},
        "swiftlet_over": ratios,
        "bounds": [
            bound(f"swiftlet over {name}", f"{found:.2f}", f"at least {goal}", kept=found >= goal)
            for name, goal in GOALS.items()
            for found in [ratios[name]["median"]]
        ],
        "cpu_ms": {name: spread(values) for name, values in cpu.items()},
    }
    print(write(options.raw, {"template": "benchmarks/document_encoding.md.j2", "kinds": kinds}))


def measure_encoding(
    collection: Path, count: int, rounds: int, folder: Path
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Passages a second and processor milliseconds a passage, with all cores, round by round."""
    import torch

    threads = available_processors()
    torch.set_num_threads(threads)
    encoder = OnnxEncoder.load(DEFAULT_ENCODER)
    splitter = PassageSplitter(encoder.tokenizer, max_tokens=128, overlap_tokens=16)
    passages = (
        encoder_text(document.title, passage.text)
        for document in read_documents(collection)
        for passage in splitter.split(document)
    )
    texts = [*islice(passages, count)]
    works: dict[str, Callable[[], Any]] = {SWIFTLET: lambda: encode_texts(encoder, texts, threads)}
    for name, peer in named_peers(folder, threads=threads).items():
        peer.model.max_seq_length = encoder.max_tokens
        works[name] = lambda peer=peer: peer.encode(texts)  # type: ignore[misc]
    speeds: dict[str, list[float]] = {name: [] for name in works}
    cpu: dict[str, list[float]] = {name: [] for name in works}
    for name in alternating(works, rounds + 1):
        began, began_cpu = time.perf_counter(), time.process_time()
        works[name]()
        speeds[name].append(len(texts) / (time.perf_counter() - began))
        cpu[name].append(1000 * (time.process_time() - began_cpu) / len(texts))
    for values in (*speeds.values(), *cpu.values()):
        del values[0]  # the first round is warm-up
    return speeds, cpu


if __name__ == "__main__":
    main()
