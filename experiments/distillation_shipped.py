"""Finished students exported, and what both kinds of int8 change about their answers."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

import numpy as np
from distillation_data import Prepared
from distillation_runs import TEACHER, searcher_of

from export.encoder_directory import export_encoder
from export.latency import measure_latencies, texts_of_length
from models import DEFAULT_ENCODER
from retrieval.encoder import TOKENIZER_FILE, OnnxEncoder, Precision
from retrieval.types import Embeddings
from training.distillation.texts import TextSource, hold_out, read_query_texts

NUM_QUERIES = 1000
SEARCHED = "boolq"
THREADS = 4
TOP = 10
NUM_TOKENS = 10
QUANTISED: Sequence[Precision] = ("int8", "int8_static")


@dataclass(frozen=True, slots=True)
class Int8Change:
    """int8 against fp32 over queries that were held out of the distillation.

    `cosines` are in ascending order, `overlap` is the mean share of the ten best documents that
    both find, and `other_bytes` the number of queries whose embedding under load, four threads at a
    time, was not the same to the byte as alone.
    """

    cosines: list[float]
    overlap: float
    other_bytes: int


def export_students(prepared: Prepared, names: Sequence[str]) -> None:
    """Export what is not there yet, calibrated on queries that people typed."""
    for name in names:
        out = prepared.folder / "encoders" / name
        if not out.is_dir():
            run = prepared.folder / "runs" / name / "query_encoder"
            export_encoder(run, out, name=name, calibrate=prepared.web_queries, progress=print)


def measure_int8(prepared: Prepared, name: str, precision: Precision) -> Int8Change:
    """Compare one of QUANTISED with fp32 of an exported student; kept once measured."""
    path = prepared.folder / "encoders" / f"{name}.{precision}.json"
    if not path.is_file():
        path.write_text(json.dumps(asdict(_compare(prepared, name, precision))))
    return Int8Change(**json.loads(path.read_text("utf-8")))


def query_latencies(prepared: Prepared, names: Sequence[str]) -> dict[str, float]:
    """Milliseconds a query of ten tokens on one thread, by encoder in int8; kept once measured.

    Medians, tokenising included, of the students and of what they were distilled from.
    """
    path = prepared.folder / "encoders" / "latencies.json"
    if path.is_file():
        kept: dict[str, float] = json.loads(path.read_text("utf-8"))
        if kept.keys() == {*names, TEACHER}:
            return kept
    directories = {name: prepared.folder / "encoders" / name for name in names}
    encoders = {
        name: OnnxEncoder.load(directory, precision="int8")
        for name, directory in {**directories, TEACHER: DEFAULT_ENCODER}.items()
    }
    texts = texts_of_length((DEFAULT_ENCODER / TOKENIZER_FILE).read_text("utf-8"), [NUM_TOKENS])
    seconds = measure_latencies(encoders, texts, rounds=200, seconds=30)
    latencies = {name: 1000 * by_length[NUM_TOKENS] for name, by_length in seconds.items()}
    path.write_text(json.dumps(latencies))
    return latencies


def held_out_queries(prepared: Prepared) -> list[str]:
    """What no student has learnt from."""
    paths = [prepared.web_queries, prepared.training_queries]
    sources = [TextSource.of(path.name, read_query_texts(path)) for path in paths]
    mixture = hold_out(sources, len(sources), 2 * NUM_QUERIES)
    return mixture.texts(mixture.held_out)[:NUM_QUERIES]


def _compare(prepared: Prepared, name: str, precision: Precision) -> Int8Change:
    queries = held_out_queries(prepared)
    directory = prepared.folder / "encoders" / name
    fp32 = OnnxEncoder.load(directory, precision="fp32")
    int8 = OnnxEncoder.load(directory, precision=precision)
    alone = int8.encode(queries)
    cosines = (fp32.encode(queries) * alone).sum(axis=1)
    return Int8Change(
        cosines=np.sort(cosines).round(6).tolist(),
        overlap=_overlap(prepared, (fp32, int8), queries),
        other_bytes=_other_bytes(int8, queries, alone),
    )


def _overlap(prepared: Prepared, encoders: Sequence[OnnxEncoder], queries: Sequence[str]) -> float:
    found: list[list[set[str]]] = []
    for encoder in encoders:
        searcher = searcher_of(prepared, encoder, SEARCHED)
        hits = [searcher.search(query, TOP, include_text=False).hits for query in queries]
        found.append([{hit.document_id for hit in each} for each in hits])
        searcher.close()
    return float(np.mean([len(a & b) / TOP for a, b in zip(*found, strict=True)]))


def _other_bytes(encoder: OnnxEncoder, queries: Sequence[str], alone: Embeddings) -> int:
    order = np.random.default_rng(0).permutation(len(queries))
    with ThreadPoolExecutor(THREADS) as executor:
        together = list(executor.map(lambda row: encoder.encode([queries[row]])[0], order))
    same = [one.tobytes() == alone[row].tobytes() for row, one in zip(order, together, strict=True)]
    return len(same) - sum(same)
