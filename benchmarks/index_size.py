"""Compares the speed of scanning all codes with inverted lists, by the number of passages.

    python -m benchmarks.index_size --index INDEX --queries ../shared/data/web-queries

INDEX is a large index; both types are built anew on parts of its embeddings. Writes
docs/results/index-size.json and its page.
"""

import argparse
import random
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from benchmarks.index import build
from loadtests.results import RESULTS, write
from loadtests.traffic import read_queries
from swiftlet import encoders
from swiftlet.evaluation.machine import describe_machine
from swiftlet.indexing.tuning import (
    TARGET_RECALL,
    TUNED_CANDIDATES,
    exact_rows,
    recall,
    tune,
)
from swiftlet.retrieval.encoder import OnnxEncoder
from swiftlet.retrieval.encoding import encode_texts
from swiftlet.retrieval.engines.faiss_index import SCANNED_UP_TO, FaissIndex
from swiftlet.retrieval.manifest import read_manifest
from swiftlet.retrieval.types import Embeddings

SIZES = (12_500, 25_000, 50_000, 100_000, 200_000)
QUERIES = 400
NEAREST = 10
ROUNDS = 5
QUERY_SEED = 5


class Row(NamedTuple):
    """One type at one size, with the recall@10 of queries that were not used for tuning."""

    size: int
    factory: str
    probes: int
    refine_factor: int
    recall: float
    milliseconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--index", type=Path, required=True, help="a large index")
    parser.add_argument("--queries", type=Path, required=True, help="file or BEIR folder")
    parser.add_argument("--raw", type=Path, default=RESULTS / "index-size.json")
    arguments = parser.parse_args()
    index = FaissIndex.load(arguments.index / FaissIndex.file_name)
    texts = random.Random(QUERY_SEED).sample(read_queries(arguments.queries), QUERIES)
    queries = encode_texts(OnnxEncoder.load(encoders.DEFAULT_ENCODER), texts)
    shuffled = np.random.default_rng(0).permutation(index.size)
    rows = []
    for size in [*(size for size in SIZES if size < index.size), index.size]:
        rows += measure(index.embeddings(shuffled[:size]), queries)
        print(*rows[-2:], sep="\n", flush=True)
    threads = "one for searching; all cores for building"
    figures = {
        "template": "benchmarks/index_size.md.j2",
        "machine": describe_machine(["faiss-cpu", "numpy"], threads=threads),
        "factory": read_manifest(arguments.index, "index").details["factory"],
        "queries": QUERIES // 2,
        "candidates": TUNED_CANDIDATES,
        "rounds": ROUNDS,
        "target_recall": TARGET_RECALL,
        "scanned_up_to": SCANNED_UP_TO,
        "rows": [row._asdict() for row in rows],
    }
    print(write(arguments.raw, figures))


def measure(embeddings: Embeddings, queries: Embeddings) -> list[Row]:
    """Both types on `embeddings` (n, dim), alternating; tuned to one half of `queries`."""
    size, dim = embeddings.shape
    half = len(queries) // 2
    nearest = exact_rows(embeddings, queries, NEAREST)
    codes = f"PQ{dim // 2}x4fs,Refine(SQfp16)"
    factories = (codes, f"IVF{int(4 * size**0.5)},{codes}")
    indexes = {factory: build(factory, embeddings) for factory in factories}
    for index in indexes.values():
        tune(index, queries[:half], nearest[:half])
    seconds: dict[str, list[float]] = {factory: [] for factory in indexes}
    for number in range(ROUNDS):
        for factory in indexes if number % 2 == 0 else reversed(list(indexes)):
            for query in queries[half:]:
                began = time.perf_counter()
                indexes[factory].search(query, TUNED_CANDIDATES)
                seconds[factory].append(time.perf_counter() - began)
    return [
        Row(
            size,
            factory,
            index.parameters.probes,
            index.parameters.refine_factor,
            recall(index, queries[half:], nearest[half:], TUNED_CANDIDATES),
            1000 * median(seconds[factory]),
        )
        for factory, index in indexes.items()
    ]


if __name__ == "__main__":
    main()
