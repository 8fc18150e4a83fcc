"""Measures a search by stage, in process and over HTTP, and the speed of encoding documents.

    python -m benchmarks.search --data ../shared/data

The sides of each comparison alternate in one run. Writes docs/results/search.json and its page.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.peers import int8_directories, int8_peer, torch_peer
from benchmarks.service import measure_http, two_cores
from loadtests.resilience.testbed import CLIENTS
from loadtests.results import RESULTS, alternating, spread, write
from swiftlet.encoders import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER
from swiftlet.evaluation.machine import describe_machine
from swiftlet.indexing.build import build_index
from swiftlet.retrieval.corpora.collections import read_documents, read_queries
from swiftlet.retrieval.corpora.trec import read_qrels
from swiftlet.retrieval.encoder import OnnxEncoder
from swiftlet.retrieval.encoding import encode_texts
from swiftlet.retrieval.manifest import load_manifest
from swiftlet.retrieval.passages import PassageSplitter, encoder_text
from swiftlet.retrieval.processors import available_processors

PACKAGES = [
    "onnxruntime", "faiss-cpu", "tokenizers", "fastapi", "uvicorn", "sentence-transformers",
    "torch", "optimum-onnx",
]  # fmt: skip
SWIFTLET, TORCH = "swiftlet, int8, 6 layers", "sentence-transformers, torch fp32, 6 layers"
PEER = "sentence-transformers, ONNX int8, {} layers"
THREADS = "one for search; all cores for encoding documents"
SECONDS = 1.5


def main() -> None:
    arguments = parse_arguments()
    collection = arguments.data / arguments.collection
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        build_index(read_documents(collection), DEFAULT_ENCODER, index)
        queries = test_queries(collection, arguments.split, arguments.queries)
        testbed = two_cores(Path(folder), index, queries)
        http = measure_http(testbed, arguments.rounds, SECONDS)
        details = load_manifest(index, "index").details
        speeds = measure_encoding(collection, arguments.documents, arguments.rounds, Path(folder))
    ratios = {
        name: spread([ours / theirs for ours, theirs in zip(speeds[SWIFTLET], each, strict=True)])
        for name, each in speeds.items()
    }
    figures = {
        "template": "benchmarks/search.md.j2",
        "machine": describe_machine(PACKAGES, threads=THREADS),
        "collection": arguments.collection,
        "details": details,
        "encoder": DEFAULT_QUERY_ENCODER.name,
        "queries": len(queries),
        "documents": arguments.documents,
        "rounds": arguments.rounds,
        "clients": CLIENTS,
        "http": http,
        "passages_a_second": {name: spread(values) for name, values in speeds.items()},
        "swiftlet_over": ratios,
    }
    print(write(arguments.raw, figures))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of collections")
    parser.add_argument("--collection", default="scifact")
    parser.add_argument("--split", default="test")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--raw", type=Path, default=RESULTS / "search.json")
    return parser.parse_args()


def test_queries(collection: Path, split: str, count: int) -> list[str]:
    judged = read_qrels(collection / "qrels" / f"{split}.tsv")
    return [query.text for query in read_queries(collection) if query.query_id in judged][:count]


def measure_encoding(
    collection: Path, count: int, rounds: int, folder: Path
) -> dict[str, list[float]]:
    """Passages a second of both libraries with all cores, round by round."""
    import torch

    threads = available_processors()
    torch.set_num_threads(threads)
    encoder = OnnxEncoder.load(DEFAULT_ENCODER)
    texts = passage_texts(collection, encoder, count)
    peers = {TORCH: torch_peer()}
    for layers, directory in int8_directories(folder).items():
        peers[PEER.format(layers)] = int8_peer(directory, threads=threads)
    works: dict[str, Callable[[], Any]] = {SWIFTLET: lambda: encode_texts(encoder, texts, threads)}
    for name, peer in peers.items():
        peer.model.max_seq_length = encoder.max_tokens
        works[name] = lambda peer=peer: peer.encode(texts)  # type: ignore[misc]
    speeds: dict[str, list[float]] = {name: [] for name in works}
    for name in alternating(works, rounds + 1):
        began = time.perf_counter()
        works[name]()
        speeds[name].append(len(texts) / (time.perf_counter() - began))
    return {name: values[1:] for name, values in speeds.items()}  # the first round is warm-up


def passage_texts(collection: Path, encoder: OnnxEncoder, count: int) -> list[str]:
    splitter = PassageSplitter(encoder.tokenizer, max_tokens=128, overlap_tokens=16)
    texts: list[str] = []
    for document in read_documents(collection):
        texts += [encoder_text(document.title, p.text) for p in splitter.split(document)]
        if len(texts) >= count:
            break
    return texts[:count]


if __name__ == "__main__":
    main()
