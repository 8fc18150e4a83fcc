"""What a query encoder that was learnt from an index keeps of its black box."""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from time import process_time
from typing import Any

from experiments.own_vectors.boxes import (
    LEARNT,
    STUDENTS,
    alone,
    collection,
    encoder_of,
    index_of,
    log_of,
)
from export.encoder_directory import export_encoder
from measuring.experiment import Stages
from measuring.results import Figures
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.evaluation.encoders import compare_encoders
from swiftlet.manifest import read_manifest
from swiftlet.types import Query
from training.distillation.distill import distill
from training.distillation.overlap import IndexComparison
from training.distillation.pairs import read_pairs
from training.distillation.settings import Distillation
from training.distillation.verdict import judge
from training.model.trained import QUERY_ENCODER


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
