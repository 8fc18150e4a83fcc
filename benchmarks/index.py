"""Index types compared on real collections: recall, nDCG@10, latency and bytes.

    python benchmarks/index.py --data ../shared/data

Passages as `swiftlet index` cuts them; every type is built on the same embeddings, whatever type
the size would choose. Writes docs/results/index.md.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import models
from evaluation.machine import describe_machine
from evaluation.metrics import evaluate
from indexing.build import BuildSettings
from indexing.document_writer import write_documents
from indexing.index_type import (
    EXACT_UP_TO,
    SCANNED_UP_TO,
    TARGET_RECALL,
    TUNED_CANDIDATES,
    exact_rows,
    recall,
    training_size,
    tune,
)
from indexing.progress import Silence
from indexing.sample_queries import sample_queries
from retrieval.aggregation import DocumentNumbers, best_passages
from retrieval.collections import qrels_path, read_documents, read_qrels, read_queries
from retrieval.encoder import OnnxEncoder
from retrieval.encoding import encode_texts
from retrieval.index import FaissIndex
from retrieval.passages import PassageSplitter
from retrieval.processors import available_processors
from retrieval.types import Embeddings, Qrels

COLLECTIONS = [("squad-dev-v1.1", "test"), ("scifact", "test")]
SPANS = 400
METRIC = "nDCG@10"


@dataclass(frozen=True)
class Encoded:
    """A collection with everything encoded."""

    name: str
    passages: Embeddings
    passage_to_document: DocumentNumbers
    document_ids: list[str]
    spans: Embeddings
    queries: Embeddings
    query_ids: list[str]
    qrels: Qrels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of collections")
    data = parser.parse_args().data
    encoder = OnnxEncoder.load(models.DEFAULT_ENCODER)
    rows = []
    for name, split in COLLECTIONS:
        collection = encode_collection(encoder, data / name, split)
        for factory in factories(*collection.passages.shape):
            rows.append(measure(factory, collection))
            print(rows[-1], flush=True)
    page = render(rows)
    (Path(__file__).parents[1] / "docs" / "results" / "index.md").write_text(page)
    print(page)


def factories(size: int, dim: int) -> Sequence[str]:
    lists = min(int(4 * size**0.5), size // 39)
    return [
        "Flat",
        f"PQ{dim // 2}x4fs,Refine(SQfp16)",
        f"IVF{lists},PQ{dim // 2}x4fs,Refine(SQfp16)",
        f"PQ{dim // 2}x4fs,Refine(SQ8)",
        f"IVF{lists},PQ{dim // 2}x4fs,Refine(SQ8)",
        f"PQ{dim // 4}x4fs,Refine(SQfp16)",
        f"IVF{lists},PQ{dim // 2}x4fs",
        f"IVF{lists},SQ8",
    ]


def encode_collection(encoder: OnnxEncoder, folder: Path, split: str) -> Encoded:
    settings = BuildSettings()
    splitter = PassageSplitter(
        encoder.tokenizer,
        max_tokens=settings.passage_tokens,
        overlap_tokens=settings.overlap_tokens,
    )
    qrels = read_qrels(qrels_path(folder, split))
    queries = [query for query in read_queries(folder) if query.query_id in qrels]
    with tempfile.TemporaryDirectory() as place:
        corpus = write_documents(
            Path(place) / "documents.sqlite", read_documents(folder), splitter, Silence()
        )
        return Encoded(
            name=folder.name,
            passages=encode_texts(encoder, corpus.encoder_texts()),
            passage_to_document=corpus.passage_to_document(),
            document_ids=sorted(document.document_id for document in read_documents(folder)),
            spans=encode_texts(encoder, sample_queries(corpus, SPANS, np.random.default_rng(1))),
            queries=encode_texts(encoder, [query.text for query in queries]),
            query_ids=[query.query_id for query in queries],
            qrels=qrels,
        )


@dataclass(frozen=True)
class Row:
    collection: str
    passages: int
    factory: str
    probes: int
    refine_factor: int
    recall_spans: float
    recall_queries: float
    ndcg: float
    p50_ms: float
    p99_ms: float
    bytes_a_passage: float
    build_seconds: float


def measure(factory: str, collection: Encoded) -> Row:
    started = time.perf_counter()
    embeddings = collection.passages
    index = FaissIndex.create(factory, embeddings.shape[1])
    index.train(embeddings[: training_size(len(embeddings))], threads=available_processors())
    index.add(embeddings, threads=available_processors())
    build_seconds = time.perf_counter() - started
    half = SPANS // 2
    nearest = exact_rows(embeddings, collection.spans, 10)
    effort = tune(index, collection.spans[:half], nearest[:half])
    run, seconds = {}, []
    for query_id, query in zip(collection.query_ids, collection.queries, strict=True):
        before = time.perf_counter()
        scores, rows = index.search(query, TUNED_CANDIDATES)
        seconds.append(time.perf_counter() - before)
        scores, rows = best_passages(scores, rows, collection.passage_to_document)
        documents = [collection.document_ids[n] for n in collection.passage_to_document[rows]]
        run[query_id] = dict(zip(documents[:10], scores[:10].tolist(), strict=True))
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "index.faiss"
        index.save(path)
        size_bytes = path.stat().st_size
    queries = collection.queries
    return Row(
        collection=collection.name,
        passages=len(embeddings),
        factory=factory,
        probes=effort.probes,
        refine_factor=effort.refine_factor,
        recall_spans=recall(index, collection.spans[half:], nearest[half:], TUNED_CANDIDATES),
        recall_queries=recall(
            index, queries, exact_rows(embeddings, queries, 10), TUNED_CANDIDATES
        ),
        ndcg=evaluate(run, collection.qrels, [METRIC])[METRIC],
        p50_ms=statistics.median(seconds) * 1000,
        p99_ms=float(np.percentile(seconds, 99)) * 1000,
        bytes_a_passage=size_bytes / len(embeddings),
        build_seconds=build_seconds,
    )


def render(rows: Sequence[Row]) -> str:
    table = "\n".join(
        f"| {row.collection} | {row.passages:,} | `{row.factory}` | {row.probes} "
        f"| {row.refine_factor} | {row.recall_spans:.3f} | {row.recall_queries:.3f} "
        f"| {row.ndcg:.4f} | {row.p50_ms:.3f} | {row.p99_ms:.3f} | {row.bytes_a_passage:.0f} "
        f"| {row.build_seconds:.1f} |"
        for row in rows
    )
    machine = describe_machine(
        ["faiss-cpu", "numpy"], threads="one for searching; all cores for building"
    )
    return f"""# Index types

Made by `python benchmarks/index.py --data DATA`.
{machine}

Passages of at most {BuildSettings().passage_tokens} tokens, 384 dimensions, all-MiniLM-L6-v2 int8. The
effort is tuned to recall@10 of {TARGET_RECALL} on {SPANS // 2} spans of words from the passages; the recall columns
are other spans, and the collection's test queries. One search fetches {TUNED_CANDIDATES} candidates,
of which nDCG@10 is that of the ten best documents. Up to {EXACT_UP_TO:,} passages a corpus gets
`Flat`, up to {SCANNED_UP_TO:,} the type of the second row, above that the type of the third.

| collection | passages | factory | probes | refine factor | recall@10, spans | recall@10, queries | nDCG@10 | p50 ms | p99 ms | bytes a passage | build seconds |
|---|---|---|---|---|---|---|---|---|---|---|---|
{table}
"""  # noqa: E501


if __name__ == "__main__":
    main()
