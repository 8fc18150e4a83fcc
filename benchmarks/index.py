"""Index types compared: recall, nDCG@10, latency and bytes.

    python -m benchmarks.index --data ../shared/data

All types are built on the passages of real collections, which are those of `swiftlet index`.
Searches of the types alternate. Writes docs/results/index.json and its page.
"""

import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from export.quality import METRIC, Collection
from loadtests.command_line import script_options
from loadtests.results import RESULTS, Figures, alternating, write
from swiftlet import encoders
from swiftlet.evaluation.machine import describe_machine
from swiftlet.evaluation.metrics import evaluate
from swiftlet.indexing.build import BuildSettings
from swiftlet.indexing.document_writer import write_documents
from swiftlet.indexing.progress import Silence
from swiftlet.indexing.sample_queries import sample_queries
from swiftlet.indexing.tuning import TARGET_RECALL, TUNED_CANDIDATES, exact_rows, recall, tune
from swiftlet.retrieval.aggregation import best_passages
from swiftlet.retrieval.encoder import OnnxEncoder
from swiftlet.retrieval.encoding import encode_texts
from swiftlet.retrieval.engines.faiss_index import EXACT_UP_TO, SCANNED_UP_TO, FaissIndex
from swiftlet.retrieval.passages import PassageSplitter
from swiftlet.retrieval.processors import available_processors
from swiftlet.retrieval.types import Embeddings

COLLECTIONS = [("squad-dev-v1.1", "test"), ("scifact", "test")]
FACTORIES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["factories"]
SPANS = 400


def main() -> None:
    options = script_options(__doc__, data=Path, rounds=5, raw=RESULTS / "index.json")
    encoder = OnnxEncoder.load(encoders.DEFAULT_ENCODER)
    threads = "one for searching; all cores for building"
    figures = {
        "template": "benchmarks/index.md.j2",
        "machine": describe_machine(["faiss-cpu", "numpy"], threads=threads),
        "target_recall": TARGET_RECALL,
        "candidates": TUNED_CANDIDATES,
        "scanned_up_to": SCANNED_UP_TO,
        "rounds": options.rounds,
        "passage_tokens": BuildSettings().passage_tokens,
        "tuned_spans": SPANS // 2,
        "exact_up_to": EXACT_UP_TO,
        "rows": [
            row
            for name, split in COLLECTIONS
            for row in measure_types(encoder, options.data / name, split, options.rounds)
        ],
    }
    print(write(options.raw, figures))


def measure_types(encoder: OnnxEncoder, folder: Path, split: str, rounds: int) -> list[Figures]:
    """All types on the passages of a collection; tuned to one half of spans of words from them."""
    settings = BuildSettings()
    splitter = PassageSplitter(
        encoder.tokenizer,
        max_tokens=settings.passage_tokens,
        overlap_tokens=settings.overlap_tokens,
    )
    collection = Collection.read(folder, split)
    queries = encode_texts(encoder, [query.text for query in collection.queries])
    with tempfile.TemporaryDirectory() as place:
        store = Path(place) / "documents.sqlite"
        corpus = write_documents(store, collection.documents, splitter, Silence())
        embeddings = encode_texts(encoder, corpus.encoder_texts())
        documents_of = corpus.passage_to_document()
        spans = encode_texts(encoder, sample_queries(corpus, SPANS, np.random.default_rng(1)))
    document_ids = sorted(document.document_id for document in collection.documents)
    size, dim = embeddings.shape
    lists = min(int(4 * size**0.5), size // 39)
    factories = [each.format(lists=lists, half=dim // 2, quarter=dim // 4) for each in FACTORIES]
    half = SPANS // 2
    rows = []
    for index, row in measure(factories, embeddings, spans[:half], queries, rounds):
        run = {}
        for each, query in zip(collection.queries, queries, strict=True):
            scores, passages = best_passages(*index.search(query, TUNED_CANDIDATES), documents_of)
            found = [document_ids[number] for number in documents_of[passages]]
            run[each.query_id] = dict(zip(found[:10], scores[:10].tolist(), strict=True))
        nearest = exact_rows(embeddings, spans[half:], 10)
        row |= {
            "collection": folder.name,
            "recall_spans": recall(index, spans[half:], nearest, TUNED_CANDIDATES),
            "ndcg": evaluate(run, collection.qrels, [METRIC])[METRIC],
        }
        rows.append(row)
        print(row, flush=True)
    return rows


def measure(
    factories: Sequence[str],
    embeddings: Embeddings,
    tuned_to: Embeddings,
    queries: Embeddings,
    rounds: int,
) -> list[tuple[FaissIndex, dict[str, Any]]]:
    """Each type of index on `embeddings` (n, dim), and its figures; rounds of queries alternate."""
    built = [build(factory, embeddings) for factory in factories]
    nearest = exact_rows(embeddings, tuned_to, 10)
    for index, _ in built:
        tune(index, tuned_to, nearest)
    seconds: list[list[float]] = [[] for _ in built]
    for number in alternating(range(len(built)), rounds):
        for query in queries:
            began = time.perf_counter()
            built[number][0].search(query, TUNED_CANDIDATES)
            seconds[number].append(time.perf_counter() - began)
    nearest = exact_rows(embeddings, queries, 10)
    measured = []
    for factory, (index, figures), taken in zip(factories, built, seconds, strict=True):
        p50, p99 = (1000 * np.percentile(taken, [50, 99])).tolist()
        figures |= {
            "factory": factory,
            "passages": len(embeddings),
            "probes": index.parameters.probes,
            "refine_factor": index.parameters.refine_factor,
            "recall_queries": recall(index, queries, nearest, TUNED_CANDIDATES),
            "p50_ms": p50,
            "p99_ms": p99,
        }
        measured.append((index, figures))
    return measured


def build(factory: str, embeddings: Embeddings) -> tuple[FaissIndex, dict[str, Any]]:
    """An index of `embeddings` (n, dim), built with all cores; its time and size."""
    began = time.perf_counter()
    threads = available_processors()
    index = FaissIndex.create(factory, embeddings.shape[1])
    index.train(embeddings[: index.training_size(len(embeddings))], threads=threads)
    index.add(embeddings, threads=threads)
    seconds = time.perf_counter() - began
    with tempfile.TemporaryDirectory() as place:
        index.save(Path(place) / "index.faiss")
        size_bytes = (Path(place) / "index.faiss").stat().st_size
    return index, {"build_seconds": seconds, "bytes_a_passage": size_bytes / len(embeddings)}


if __name__ == "__main__":
    main()
