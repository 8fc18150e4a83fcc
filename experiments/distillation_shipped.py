"""Exports finished students, and compares both kinds of int8 with fp32."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from experiments.distillation_data import Workplace
from experiments.distillation_runs import searcher_of
from experiments.runs import kept
from export.encoder_directory import export_encoder
from loadtests.results import Figures
from swiftlet.retrieval.encoder import OnnxEncoder, Precision
from swiftlet.retrieval.types import Embeddings
from training.distillation.texts import TextSource, hold_out, read_query_texts

NUM_QUERIES = 1000
SEARCHED = "boolq"
THREADS = 4
TOP = 10
QUANTISED: Sequence[Precision] = ("int8", "int8_static")


def export_students(workplace: Workplace, names: Sequence[str]) -> None:
    """Export the students that are not exported yet, calibrated on queries typed by people."""
    for name in names:
        out = workplace.exported(name)
        if not out.is_dir():
            run = workplace.run(name) / "query_encoder"
            export_encoder(run, out, name=name, calibrate=workplace.web_queries, progress=print)


def measure_int8(workplace: Workplace, name: str, precision: Precision) -> Figures:
    """Compare one of QUANTISED with fp32 of an exported student; measured once and kept.

    `overlap` is the mean overlap@10 of the documents found. `other_bytes` counts the queries for
    which four threads at once give an embedding with other bytes than one thread.
    """
    path = workplace.exported(f"{name}.{precision}.json")
    found: Figures = kept(path, lambda: _compare(workplace, name, precision))
    return found


def held_out_queries(workplace: Workplace) -> list[str]:
    """Queries that no student was trained on."""
    paths = [workplace.web_queries, workplace.training_queries]
    sources = [TextSource.of(path.name, read_query_texts(path)) for path in paths]
    mixture = hold_out(sources, len(sources), 2 * NUM_QUERIES)
    return mixture.texts(mixture.held_out)[:NUM_QUERIES]


def _compare(workplace: Workplace, name: str, precision: Precision) -> Figures:
    queries = held_out_queries(workplace)
    directory = workplace.exported(name)
    fp32 = OnnxEncoder.load(directory, precision="fp32")
    int8 = OnnxEncoder.load(directory, precision=precision)
    alone = int8.encode(queries)
    cosines = (fp32.encode(queries) * alone).sum(axis=1)
    return {
        "mean": float(np.mean(cosines)),
        "median": float(np.median(cosines)),
        "percentile_1": float(np.percentile(cosines, 1)),
        "smallest": float(np.min(cosines)),
        "overlap": _overlap(workplace, (fp32, int8), queries),
        "other_bytes": _other_bytes(int8, queries, alone),
    }


def _overlap(
    workplace: Workplace, encoders: Sequence[OnnxEncoder], queries: Sequence[str]
) -> float:
    found: list[list[set[str]]] = []
    for encoder in encoders:
        searcher = searcher_of(workplace, encoder, SEARCHED)
        hits = [searcher.search(query, TOP, include_text=False).hits for query in queries]
        found.append([{hit.document_id for hit in each} for each in hits])
        searcher.close()
    return float(np.mean([len(a & b) / TOP for a, b in zip(*found, strict=True)]))


def _other_bytes(encoder: OnnxEncoder, queries: Sequence[str], alone: Embeddings) -> int:
    order = np.random.default_rng(0).permutation(len(queries))
    with ThreadPoolExecutor(THREADS) as executor:
        together = list(executor.map(lambda row: encoder.encode([queries[row]])[0], order))
    pairs = zip(order, together, strict=True)
    return sum(one.tobytes() != alone[row].tobytes() for row, one in pairs)
