"""Distillations of the query encoders that ship: what they learn from, and how they are judged."""

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments.distillation import texts
from experiments.pairs import distilled
from export.encoder_directory import export_encoder
from export.quality import Collection
from measuring.experiment import settings_beside
from measuring.results import Figures
from swiftlet.encoders import torch_weights
from swiftlet.encoders.encoder import Encoder, OnnxEncoder
from swiftlet.evaluation.experiment import run_queries
from swiftlet.evaluation.metrics import evaluate_per_query
from swiftlet.index.building.build import build_index
from swiftlet.index.building.settings import BuildSettings
from training.distillation import teacher
from training.distillation.overlap import IndexComparison
from training.distillation.texts import TextSource, hold_out, read_query_texts
from training.model.towers import TowerSettings

TABLES = settings_beside(__file__)
METRIC, TEACHER = "nDCG@10", "teacher"
STUDENTS: dict[str, float] = TABLES["finals"]["wanted"]
"""Each student, and the share of the teacher's nDCG@10 that it has to keep."""

_LONG = "-on-everything"


def long_run(student: str) -> str:
    """The name of the run on all texts, before that on queries alone."""
    return f"{student}{_LONG}"


def prepare(options: Namespace) -> None:
    """Write the texts, and index the embeddings of the teacher in fp32."""
    texts.prepared(options.data, options.wordnet, options.work)
    encoder = options.work / "teacher-encoder"
    if not encoder.is_dir():
        export_encoder(
            torch_weights(), encoder, name="all-MiniLM-L6-v2", max_tokens=256, precisions=["fp32"]
        )
    for name, split in texts.TESTS:
        if not (index := options.work / "indexes" / name).is_dir():
            exact = BuildSettings(factory="Flat", language=None)
            build_index(
                Collection.read(options.data / name, split).documents, encoder, index, exact
            )


def figures_of(options: Namespace, name: str) -> Figures:
    """The nDCG@10 of each test query, in fp32, and of the last runs in int8."""
    if name == TEACHER:
        return {
            "fp32": judged(options, teacher.load_query_encoder(TowerSettings(torch_weights()))[0])
        }
    run, out = options.work / "runs" / name, options.work / "encoders" / name
    settings = settings_of(options, name)
    distilled(settings, run, options.work / "teacher-embeddings")
    trained = teacher.load_query_encoder(TowerSettings(run / "query_encoder"))[0]
    figures: Figures = {"fp32": judged(options, trained)}
    if name in STUDENTS:
        export_encoder(run / "query_encoder", out, name=name, overwrite=True)
        fp32, int8 = (OnnxEncoder.load(out, precision=each) for each in ("fp32", "int8"))
        figures |= {"int8": judged(options, int8), "cosines": cosines(settings, fp32, int8)}
    return figures


def settings_of(options: Namespace, name: str) -> dict[str, Any]:
    """The settings of a run: of prose and queries, or, after that run, of queries alone."""
    made = texts.prepared(options.data, options.wordnet, options.work)
    kind, student = ("finals", name) if name in STUDENTS else ("long", name.removesuffix(_LONG))
    table = TABLES[kind]
    given: dict[str, Any] = TABLES["base"] | table["settings"] | table["runs"][student]
    if kind == "long":
        given["corpora"] = made["corpora"]
    else:
        before = options.work / "runs" / long_run(name)
        given |= {"student": f"{before / 'query_encoder'}", "project": False}
    return {"teacher": f"{torch_weights()}", "queries": made["queries"], **given}


def judged(options: Namespace, encoder: Encoder) -> dict[str, dict[str, float]]:
    """The nDCG@10 of each test query, by exact search among what the teacher embedded."""
    figures = {}
    for name, split in texts.TESTS:
        found = IndexComparison(options.work / "indexes" / name, encoder)
        test = Collection.read(options.data / name, split)
        run = run_queries(found.retriever(encoder), test.queries, top_k=10, threads=1)
        figures[f"{name} {split}"] = evaluate_per_query(run, test.qrels, [METRIC])[METRIC]
    return figures


def cosines(settings: Mapping[str, Any], fp32: OnnxEncoder, int8: OnnxEncoder) -> Figures:
    """Cosines of int8 with fp32 on queries that were held out."""
    sources = [TextSource.of(Path(p).name, read_query_texts(Path(p))) for p in settings["queries"]]
    mixture = hold_out(sources, len(sources), 2 * texts.NUM_COMPARED)
    queries = mixture.texts(mixture.held_out)[: texts.NUM_COMPARED]
    found = (fp32.encode(queries) * int8.encode(queries)).sum(axis=1)
    percentiles = np.percentile(found, [50, 1, 0]).tolist()
    names = ("median", "percentile_1", "smallest")
    return {"mean": float(found.mean()), **dict(zip(names, percentiles, strict=True))}
