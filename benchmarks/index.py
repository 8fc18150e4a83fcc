"""Index types compared: recall, latency and bytes, on real passages and real queries.

    python benchmarks/index.py --data ../shared/data --cache FOLDER --passages 200000

Passages of at most 32 tokens of all collections, so that there are many. Embeddings are kept in
the cache folder; an interrupted run goes on from there. Writes docs/results/index.md.
"""

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

import models
from evaluation.machine import describe_machine
from indexing.document_writer import StoredCorpus, write_documents
from indexing.embeddings import EmbeddingsFile, encode_to_file
from indexing.index_type import (
    TUNED_CANDIDATES,
    default_factory,
    exact_rows,
    recall,
    training_size,
    tune,
)
from indexing.progress import Silence
from indexing.sample_queries import sample_queries
from retrieval.collections import read_documents, read_queries
from retrieval.encoder import OnnxEncoder
from retrieval.encoding import encode_texts
from retrieval.index import FaissIndex
from retrieval.passages import PassageSplitter
from retrieval.processors import available_processors
from retrieval.types import Document, Embeddings

COLLECTIONS = ["scifact", "squad-dev-v1.1", "boolq", "covid-qa", "wiki-passages-2wiki", "qmsum",
               "medquad"]  # fmt: skip
PASSAGE_TOKENS = 32
QUERIES = 400


@dataclass(frozen=True)
class Row:
    size: int
    factory: str
    probes: int
    refine_factor: int
    recall_spans: float
    recall_queries: float
    p50_ms: float
    p99_ms: float
    bytes_a_passage: float
    build_seconds: float


def main() -> None:
    arguments = parse_arguments()
    encoder = OnnxEncoder.load(models.DEFAULT_ENCODER)
    corpus, embeddings = encode_corpus(arguments, encoder)
    spans = encode_texts(encoder, sample_queries(corpus, QUERIES, np.random.default_rng(1)))
    texts = [query.text for query in read_queries(arguments.data / "web-queries")][::100]
    queries = encode_texts(encoder, texts[:QUERIES])
    rows = []
    for size in (size for size in arguments.sizes if size <= len(embeddings)):
        # Evenly from all collections, not from the first.
        chosen = np.sort(np.random.default_rng(0).permutation(len(embeddings))[:size])
        part = np.ascontiguousarray(embeddings[chosen])
        for factory in factories(size, encoder.dim):
            rows.append(measure(factory, part, spans, queries, arguments.cache))
            print(rows[-1], flush=True)
    page = render(arguments, rows)
    (Path(__file__).parents[1] / "docs" / "results" / "index.md").write_text(page)
    print(page)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of collections")
    parser.add_argument("--cache", type=Path, required=True, help="folder for embeddings")
    parser.add_argument("--passages", type=int, default=200_000)
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[5_000, 10_000, 20_000, 40_000, 200_000]
    )
    return parser.parse_args()


def factories(size: int, dim: int) -> Sequence[str]:
    lists = min(int(4 * size**0.5), size // 39)
    quarter, half = dim // 4, dim // 2
    return [
        "Flat",
        f"IVF{lists},PQ{half}x4fs,Refine(SQ8)",
        *(
            [
                f"IVF{lists},SQ8",
                f"IVF{lists},PQ{half}x4fs",
                f"OPQ{quarter},IVF{lists},PQ{quarter}x4fs,Refine(SQ8)",
                f"IVF{lists},PQ{half}x4fs,Refine(SQ6)",
            ]
            if size >= 100_000
            else []
        ),
    ]


def encode_corpus(
    arguments: argparse.Namespace, encoder: OnnxEncoder
) -> tuple[StoredCorpus, Embeddings]:
    arguments.cache.mkdir(parents=True, exist_ok=True)
    splitter = PassageSplitter(encoder.tokenizer, max_tokens=PASSAGE_TOKENS, overlap_tokens=0)
    corpus = write_documents(
        arguments.cache / "documents.sqlite", documents(arguments.data), splitter, Silence()
    )
    file = EmbeddingsFile(arguments.cache / f"{encoder.manifest.fingerprint[:8]}.f32", encoder.dim)
    wanted = min(arguments.passages, corpus.num_passages)
    # A stride over the whole, so that every collection is in it.
    step = max(1, corpus.num_passages // wanted)
    texts = islice(corpus.encoder_texts(), len(file) * step, wanted * step, step)
    encode_to_file(
        encoder, texts, file, total=wanted, threads=available_processors(), progress=Silence()
    )
    return corpus, file.rows()


def documents(data: Path) -> Iterator[Document]:
    for name in COLLECTIONS:
        for document in read_documents(data / name):
            yield replace(document, document_id=f"{name}/{document.document_id}")


def measure(
    factory: str, embeddings: Embeddings, spans: Embeddings, queries: Embeddings, cache: Path
) -> Row:
    started = time.perf_counter()
    index = FaissIndex.create(factory, embeddings.shape[1])
    index.train(embeddings[: training_size(len(embeddings))], threads=available_processors())
    index.add(embeddings, threads=available_processors())
    build_seconds = time.perf_counter() - started
    half = len(spans) // 2
    nearest = exact_rows(embeddings, spans, 10)
    effort = tune(index, spans[:half], nearest[:half])
    seconds = []
    for query in queries:
        before = time.perf_counter()
        index.search(query, TUNED_CANDIDATES)
        seconds.append(time.perf_counter() - before)
    path = cache / "index.faiss"
    index.save(path)
    size_bytes = path.stat().st_size
    path.unlink()
    return Row(
        size=len(embeddings),
        factory=factory,
        probes=effort.probes,
        refine_factor=effort.refine_factor,
        recall_spans=recall(index, spans[half:], nearest[half:], TUNED_CANDIDATES),
        recall_queries=recall(
            index, queries, exact_rows(embeddings, queries, 10), TUNED_CANDIDATES
        ),
        p50_ms=statistics.median(seconds) * 1000,
        p99_ms=float(np.percentile(seconds, 99)) * 1000,
        bytes_a_passage=size_bytes / len(embeddings),
        build_seconds=build_seconds,
    )


def render(arguments: argparse.Namespace, rows: Sequence[Row]) -> str:
    table = "\n".join(
        f"| {row.size:,} | `{row.factory}`{' (default)' if is_default(row) else ''} | {row.probes} "
        f"| {row.refine_factor} | {row.recall_spans:.3f} | {row.recall_queries:.3f} "
        f"| {row.p50_ms:.3f} | {row.p99_ms:.3f} | {row.bytes_a_passage:.0f} "
        f"| {row.build_seconds:.1f} |"
        for row in rows
    )
    return f"""# Index types

Made by `python benchmarks/index.py --data DATA --cache FOLDER --passages {arguments.passages}`.
{describe_machine(["faiss-cpu", "numpy"], threads="one for searching; all cores for building")}

Passages of at most {PASSAGE_TOKENS} tokens of {", ".join(COLLECTIONS)} (evenly sampled down to each
size), 384 dimensions, all-MiniLM-L6-v2 int8. The effort is tuned to recall@10 of 0.99 on
{QUERIES // 2} spans of words from the passages; the recall columns are other spans, and {QUERIES} web
queries that are not about these collections. One search fetches {TUNED_CANDIDATES} candidates.

| passages | factory | probes | refine factor | recall@10, spans | recall@10, web queries | p50 ms | p99 ms | bytes a passage | build seconds |
|---|---|---|---|---|---|---|---|---|---|
{table}
"""  # noqa: E501


def is_default(row: Row) -> bool:
    return row.factory == default_factory(row.size, 384)


if __name__ == "__main__":
    main()
