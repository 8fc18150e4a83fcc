"""Where a search's time goes, in process and over HTTP; how fast documents are encoded.

    python benchmarks/search.py --data ../shared/data

Each comparison alternates between its two sides in one run. Writes docs/results/search.md.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import httpx
import numpy as np
from processes import ROOT, serve

from evaluation.machine import describe_machine
from indexing.build import build_index
from models import DEFAULT_ENCODER, DEFAULT_QUERY_ENCODER, torch_weights
from retrieval.collections import read_documents, read_queries
from retrieval.encoder import OnnxEncoder
from retrieval.encoding import encode_texts
from retrieval.manifest import load_manifest
from retrieval.passages import PassageSplitter, encoder_text
from retrieval.processors import available_processors
from retrieval.searcher import Searcher
from retrieval.trec import read_qrels

PACKAGES = [
    "onnxruntime", "faiss-cpu", "tokenizers", "fastapi", "uvicorn", "sentence-transformers",
    "torch",
]  # fmt: skip


def main() -> None:
    arguments = parse_arguments()
    collection = arguments.data / arguments.collection
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        build_index(read_documents(collection), DEFAULT_ENCODER, index)
        queries = test_queries(collection, arguments.split, arguments.queries)
        latencies = measure_search(index, queries, arguments.rounds)
        details = load_manifest(index, "index").details
    speeds = measure_encoding(collection, arguments.documents, arguments.rounds)
    page = render(arguments, details, len(queries), latencies, speeds)
    (ROOT / "docs" / "results" / "search.md").write_text(page)
    print(page)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of collections")
    parser.add_argument("--collection", default="scifact")
    parser.add_argument("--split", default="test")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=7)
    return parser.parse_args()


def test_queries(collection: Path, split: str, count: int) -> list[str]:
    judged = read_qrels(collection / "qrels" / f"{split}.tsv")
    return [query.text for query in read_queries(collection) if query.query_id in judged][:count]


def measure_search(index: Path, queries: Sequence[str], rounds: int) -> dict[str, list[float]]:
    """Seconds of each stage, of the whole in process, and of the HTTP request, query by query."""
    searcher = Searcher.open(index, DEFAULT_QUERY_ENCODER)
    seconds: dict[str, list[float]] = {}

    def in_process(query: str) -> None:
        started = time.perf_counter()
        result = searcher.search(query)
        seconds.setdefault("in process", []).append(time.perf_counter() - started)
        for stage, spent in asdict(result.stage_seconds).items():
            seconds.setdefault(stage, []).append(spent)

    server = serve(ROOT, index, DEFAULT_QUERY_ENCODER, cores=[max(os.sched_getaffinity(0))])
    try:
        with httpx.Client(base_url=server.address) as client:

            def over_http(query: str) -> None:
                started = time.perf_counter()
                client.post("/search", json={"query": query}).raise_for_status()
                seconds.setdefault("POST /search", []).append(time.perf_counter() - started)

            for query in queries:  # warm-up
                in_process(query)
                over_http(query)
            seconds.clear()
            alternate([in_process, over_http], queries, rounds)
    finally:
        server.close()
        searcher.close()
    return seconds


def alternate(sides: Sequence[Callable[[str], None]], queries: Sequence[str], rounds: int) -> None:
    for number in range(rounds):
        for side in sides if number % 2 == 0 else reversed(sides):
            for query in queries:
                side(query)


def measure_encoding(collection: Path, count: int, rounds: int) -> dict[str, list[float]]:
    """Passages a second of both libraries with all cores, round by round."""
    import torch
    from sentence_transformers import SentenceTransformer

    threads = available_processors()
    torch.set_num_threads(threads)
    encoder = OnnxEncoder.load(DEFAULT_ENCODER)
    texts = passage_texts(collection, encoder, count)
    reference = SentenceTransformer(str(torch_weights()), device="cpu")
    reference.max_seq_length = encoder.max_tokens

    def ours() -> None:
        encode_texts(encoder, texts, threads)

    def theirs() -> None:
        reference.encode(texts, batch_size=32, normalize_embeddings=True, show_progress_bar=False)

    speeds: dict[str, list[float]] = {"swiftlet": [], "sentence-transformers": []}
    sides = [("swiftlet", ours), ("sentence-transformers", theirs)]
    for _, side in sides:  # warm-up
        side()
    for number in range(rounds):
        for name, side in sides if number % 2 == 0 else reversed(sides):
            started = time.perf_counter()
            side()
            speeds[name].append(len(texts) / (time.perf_counter() - started))
    return speeds


def passage_texts(collection: Path, encoder: OnnxEncoder, count: int) -> list[str]:
    splitter = PassageSplitter(encoder.tokenizer, max_tokens=128, overlap_tokens=16)
    texts: list[str] = []
    for document in read_documents(collection):
        texts += [encoder_text(document.title, p.text) for p in splitter.split(document)]
        if len(texts) >= count:
            break
    return texts[:count]


def render(
    arguments: argparse.Namespace,
    details: dict[str, object],
    num_queries: int,
    latencies: dict[str, list[float]],
    speeds: dict[str, list[float]],
) -> str:
    rows = "\n".join(
        f"| {name} | "
        + " | ".join(f"{p * 1000:.3f}" for p in np.percentile(values, [50, 95, 99]))
        + " |"
        for name, values in latencies.items()
    )
    ratio = statistics.median(latencies["POST /search"]) / statistics.median(
        latencies["in process"]
    )
    pairs = [
        ours / theirs
        for ours, theirs in zip(speeds["swiftlet"], speeds["sentence-transformers"], strict=True)
    ]
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    command = f"python benchmarks/search.py --data DATA --collection {arguments.collection}"
    return (
        f"""# Search latency and document encoding

Made by `{command}`.
{describe_machine(PACKAGES, threads="one for search; all cores for encoding documents")}

## A search, stage by stage

{arguments.collection}: {details["num_documents"]:,} documents, {details["num_passages"]:,}
passages, index `{details["factory"]}` ({json.dumps(details["search_effort"])}), queries through
{DEFAULT_QUERY_ENCODER.name} in int8, {num_queries} test queries, top_k 10, {arguments.rounds}
alternating rounds; one client that keeps its connection, server and client on the same machine.

| milliseconds | p50 | p95 | p99 |
|---|---|---|---|
{rows}

`POST /search` p50 over in-process p50: {ratio:.2f}.

## Encoding documents

Passages of up to 128 tokens of the same corpus, {arguments.documents} of them, in
{arguments.rounds} alternating rounds with all cores: the int8 encoder, one text a run, against
sentence-transformers (torch, fp32, batches of 32).

| | passages a second, median | least | most |
|---|---|---|---|
"""
        + "\n".join(
            f"| {name} | {medians[name]:.1f} | {min(values):.1f} | {max(values):.1f} |"
            for name, values in speeds.items()
        )
        + f"""

Ratio, median of the rounds: {statistics.median(pairs):.2f} (least {min(pairs):.2f}, most
{max(pairs):.2f}).
"""
    )


if __name__ == "__main__":
    main()
