"""Up to how many passages a scan of all codes is as quick as inverted lists of them.

    python benchmarks/index_size.py --index INDEX --data ../shared/data

INDEX is one that `swiftlet index` built of as many passages as may be had; both types are built
anew on parts of its embeddings. Writes docs/results/index-size.md.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from queries import sample_queries

import models
from evaluation.machine import describe_machine
from evaluation.markdown import table
from indexing.index_type import (
    SCANNED_UP_TO,
    TARGET_RECALL,
    TUNED_CANDIDATES,
    exact_rows,
    recall,
    training_size,
    tune,
)
from retrieval.encoder import OnnxEncoder
from retrieval.encoding import encode_texts
from retrieval.index import FaissIndex
from retrieval.manifest import read_manifest
from retrieval.processors import available_processors
from retrieval.searcher import INDEX_FILE
from retrieval.types import Embeddings

SIZES = (12_500, 25_000, 50_000, 100_000, 200_000)
QUERIES = 400
NEAREST = 10
ROUNDS = 5
ROOT = Path(__file__).parents[1]


class Row(NamedTuple):
    """One type on one size; recall@10 of queries that the effort was not tuned to."""

    size: int
    factory: str
    probes: int
    refine_factor: int
    recall: float
    milliseconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--index", type=Path, required=True, help="a large index")
    parser.add_argument("--data", type=Path, required=True, help="folder of collections")
    arguments = parser.parse_args()
    index = FaissIndex.load(arguments.index / INDEX_FILE)
    texts = sample_queries(arguments.data / "web-queries", QUERIES)
    queries = encode_texts(OnnxEncoder.load(models.DEFAULT_ENCODER), texts)
    shuffled = np.random.default_rng(0).permutation(index.size)
    rows = []
    for size in [*(size for size in SIZES if size < index.size), index.size]:
        rows += measure(index.embeddings(shuffled[:size]), queries)
        print(*rows[-2:], sep="\n", flush=True)
    page = render(rows, read_manifest(arguments.index, "index").details["factory"])
    (ROOT / "docs" / "results" / "index-size.md").write_text(page, "utf-8")
    print(page)


def measure(embeddings: Embeddings, queries: Embeddings) -> list[Row]:
    """Both types on `embeddings` (n, dim), in turns; tuned to one half of `queries`."""
    size, dim = embeddings.shape
    half = len(queries) // 2
    nearest = exact_rows(embeddings, queries, NEAREST)
    codes = f"PQ{dim // 2}x4fs,Refine(SQfp16)"
    indexes = {factory: FaissIndex.create(factory, dim)
               for factory in (codes, f"IVF{int(4 * size**0.5)},{codes}")}  # fmt: skip
    for index in indexes.values():
        index.train(embeddings[: training_size(size)], threads=available_processors())
        index.add(embeddings, threads=available_processors())
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
            index.effort.probes,
            index.effort.refine_factor,
            recall(index, queries[half:], nearest[half:], TUNED_CANDIDATES),
            1000 * median(seconds[factory]),
        )
        for factory, index in indexes.items()
    ]


def render(rows: Sequence[Row], factory: str) -> str:
    """The page; `factory` is the index that the embeddings came from."""
    cells = [["passages", "factory", "probes", "refine factor", "recall@10", "p50, ms"]]
    cells += [
        [f"{row.size:,}", f"`{row.factory}`", str(row.probes), str(row.refine_factor),
         f"{row.recall:.3f}", f"{row.milliseconds:.3f}"]
        for row in rows
    ]  # fmt: skip
    threads = "one for searching; all cores for building"
    return f"""# A scan of all codes, or lists of them

Made by `python benchmarks/index_size.py --index INDEX --data DATA`.
{describe_machine(["faiss-cpu", "numpy"], threads=threads)}

Random parts of the embeddings in an index `{factory}`, of all-MiniLM-L6-v2.
{QUERIES // 2} queries that people type into search engines, {TUNED_CANDIDATES} candidates each,
{ROUNDS} alternating rounds, after the effort was tuned to recall@10 of {TARGET_RECALL} on as many
others. Above {SCANNED_UP_TO:,} passages `swiftlet index` makes lists ([index types](index.md)).

{table(cells)}
"""


if __name__ == "__main__":
    main()
