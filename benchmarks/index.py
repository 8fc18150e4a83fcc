"""Index types compared on real collections: recall, nDCG@10, latency and bytes.

    python -m benchmarks.index --data ../shared/data

Passages are those of `swiftlet index`; every type is built on the same embeddings. Writes
docs/results/index.json and its page.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from loadtests.results import RESULTS, write
from swiftlet import encoders
from swiftlet.evaluation.machine import describe_machine
from swiftlet.evaluation.metrics import evaluate
from swiftlet.indexing.build import BuildSettings
from swiftlet.indexing.document_writer import write_documents
from swiftlet.indexing.progress import Silence
from swiftlet.indexing.sample_queries import sample_queries
from swiftlet.indexing.tuning import (
    TARGET_RECALL,
    TUNED_CANDIDATES,
    exact_rows,
    recall,
    tune,
)
from swiftlet.retrieval.aggregation import DocumentNumbers, best_passages
from swiftlet.retrieval.corpora.collections import (
    qrels_path,
    read_documents,
    read_qrels,
    read_queries,
)
from swiftlet.retrieval.encoder import OnnxEncoder
from swiftlet.retrieval.encoding import encode_texts
from swiftlet.retrieval.engines.faiss_index import EXACT_UP_TO, SCANNED_UP_TO, FaissIndex
from swiftlet.retrieval.passages import PassageSplitter
from swiftlet.retrieval.processors import available_processors
from swiftlet.retrieval.types import Embeddings, Qrels

COLLECTIONS = [("squad-dev-v1.1", "test"), ("scifact", "test")]
SPANS = 400
METRIC = "nDCG@10"


@dataclass(frozen=True)
class Encoded:
    """A collection with the embeddings of its passages and queries."""

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
    parser.add_argument("--raw", type=Path, default=RESULTS / "index.json")
    arguments = parser.parse_args()
    encoder = OnnxEncoder.load(encoders.DEFAULT_ENCODER)
    rows = []
    for name, split in COLLECTIONS:
        collection = encode_collection(encoder, arguments.data / name, split)
        for factory in factories(*collection.passages.shape):
            rows.append(measure(factory, collection))
            print(rows[-1], flush=True)
    threads = "one for searching; all cores for building"
    figures = {
        "template": "benchmarks/index.md.j2",
        "machine": describe_machine(["faiss-cpu", "numpy"], threads=threads),
        "passage_tokens": BuildSettings().passage_tokens,
        "target_recall": TARGET_RECALL,
        "tuned_spans": SPANS // 2,
        "candidates": TUNED_CANDIDATES,
        "exact_up_to": EXACT_UP_TO,
        "scanned_up_to": SCANNED_UP_TO,
        "rows": [asdict(row) for row in rows],
    }
    print(write(arguments.raw, figures))


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


def build(factory: str, embeddings: Embeddings) -> FaissIndex:
    """An index of `embeddings` (n, dim), built with all cores."""
    index = FaissIndex.create(factory, embeddings.shape[1])
    index.train(embeddings[: index.training_size(len(embeddings))], threads=available_processors())
    index.add(embeddings, threads=available_processors())
    return index


def measure(factory: str, collection: Encoded) -> Row:
    started = time.perf_counter()
    embeddings = collection.passages
    index = build(factory, embeddings)
    build_seconds = time.perf_counter() - started
    half = SPANS // 2
    nearest = exact_rows(embeddings, collection.spans, 10)
    tune(index, collection.spans[:half], nearest[:half])
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
        probes=index.parameters.probes,
        refine_factor=index.parameters.refine_factor,
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


if __name__ == "__main__":
    main()
