"""Distillations: `swiftlet distill` with changed settings, run and evaluated once, then kept.

Finished runs are kept, so an interrupted set of runs can be resumed.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, cast

import numpy as np

from experiments import distillation_data as data
from experiments.distillation_data import Collection, Workplace
from experiments.runs import Processes, kept
from export.encoder_directory import export_encoder
from loadtests.results import Figures
from swiftlet.encoders import torch_weights
from swiftlet.encoders.encoder import Encoder, OnnxEncoder, Precision
from swiftlet.evaluation.experiment import run_queries
from swiftlet.evaluation.metrics import evaluate_per_query
from swiftlet.evaluation.retrievers import SearcherRetriever
from swiftlet.manifest import FILE_NAME as MANIFEST
from swiftlet.manifest import load_manifest
from swiftlet.search.searcher import Searcher
from training.distillation import teacher
from training.distillation.overlap import IndexComparison
from training.distillation.texts import TextSource, hold_out, read_query_texts
from training.model.towers import TowerSettings

METRIC = "nDCG@10"
NUM_QUERIES = 1000
QUANTISED: Sequence[Precision] = ("int8", "int8_static")
TEACHER, LOOKUP = "teacher", "look-up"
SETS: Mapping[str, Sequence[Collection]] = {
    "development": data.DEVELOPMENT, "tests": data.TESTS,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Variant:
    """A run: its settings, and whether it uses prose beside queries.

    `after` is the run that it continues, and `why` its description on the page.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    prose: bool = True
    why: str = ""
    after: str = ""

    @property
    def quantised(self) -> Sequence[Precision]:
        """Its precisions beside fp32; a look-up table has no activations to calibrate."""
        return QUANTISED[:1] if self.name == LOOKUP else QUANTISED


def judged_file(workplace: Workplace, name: str, kind: str) -> Path:
    return workplace.run(f"{name}.{kind}.json")


def is_judged(workplace: Workplace, name: str, kind: str = "development") -> bool:
    return judged_file(workplace, name, kind).is_file()


def mean_ndcg(workplace: Workplace, name: str, kind: str) -> dict[str, float]:
    figures = json.loads(judged_file(workplace, name, kind).read_text("utf-8"))
    return {collection: fmean(values.values()) for collection, values in figures.items()}


def kept_shares(workplace: Workplace, name: str, kind: str) -> dict[str, float]:
    """The nDCG@10 of a run as a share of the teacher's, by collection."""
    student = mean_ndcg(workplace, name, kind)
    teacher = mean_ndcg(workplace, TEACHER, kind)
    return {collection: student[collection] / ndcg for collection, ndcg in teacher.items()}


def details(workplace: Workplace, name: str) -> Mapping[str, Any]:
    return load_manifest(workplace.run(name), "model").details


def run_all(
    workplace: Workplace, processes: Processes, variants: Sequence[Variant], kind: str
) -> None:
    unique = {variant.name: variant for variant in variants}
    processes.each(lambda variant: distil(workplace, processes, variant), unique.values())
    for name in (TEACHER, *unique):
        judge(workplace, name, kind)


def distil(workplace: Workplace, processes: Processes, variant: Variant) -> None:
    directory = workplace.run(variant.name)
    if not (directory / MANIFEST).is_file():
        print(f"{variant.name}: distilling", flush=True)
        output = directory.with_suffix(".txt")
        status, written = processes.swiftlet(*_arguments(workplace, variant), output=output)
        if status:
            raise SystemExit(f"{variant.name} failed: {written.splitlines()[-1]}")


def _arguments(workplace: Workplace, variant: Variant) -> list[str]:
    arguments = ["--teacher", str(torch_weights()), "--out", str(workplace.run(variant.name))]
    arguments += ["--teacher-embeddings", str(workplace.folder / "teacher-embeddings")]
    for path in (workplace.web_queries, workplace.training_queries):
        arguments += ["--queries", str(path)]
    if variant.prose:
        corpora = [
            *(workplace.data / name for name in data.CORPORA),
            workplace.folder / data.WORDNET,
        ]
        arguments += [word for path in corpora for word in ("--corpus", str(path))]
    settings = dict(variant.settings)
    if variant.after:
        earlier = workplace.run(variant.after) / "query_encoder"
        arguments += ["--student", str(earlier), "--no-projection"]
    for name, value in settings.items():
        arguments += ["--set", f"{name}={json.dumps(value)}"]  # also TOML
    return ["distill", *arguments, "--resume"]


def judge(workplace: Workplace, name: str, kind: str) -> None:
    """Write the nDCG@10 of a run, or of the teacher, for each query, unless it is there already."""
    if is_judged(workplace, name, kind):
        return
    print(f"{name}: judging by {kind}", flush=True)
    encoder, figures = load_encoder(workplace, name), {}
    for each in SETS[kind]:
        queries, qrels = workplace.judged(each, development=kind == "development")
        with closing(searcher_of(workplace, encoder, each.name)) as searcher:
            retriever = SearcherRetriever(searcher, mode="dense")
            run = run_queries(retriever, queries, top_k=10, threads=1)
        figures[f"{each.name} {each.split}"] = evaluate_per_query(run, qrels, [METRIC])[METRIC]
    judged_file(workplace, name, kind).write_text(json.dumps(figures))


def load_encoder(workplace: Workplace, name: str) -> Encoder:
    """The query encoder of a run or of the teacher in fp32, or of "RUN PRECISION" as exported."""
    run, _, precision = name.partition(" ")
    if precision:
        return OnnxEncoder.load(workplace.exported(run), precision=cast("Precision", precision))
    model = torch_weights() if run == TEACHER else workplace.run(run) / "query_encoder"
    return teacher.load_query_encoder(TowerSettings(model=model))[0]


def searcher_of(workplace: Workplace, encoder: Encoder, collection: str) -> Searcher:
    """Exact search with this encoder among the documents that the teacher embedded."""
    directory = workplace.index(collection)
    found = IndexComparison(directory)
    return found.searcher(encoder, found.index)


def export_students(workplace: Workplace, names: Sequence[str]) -> None:
    """Export the students that are not exported yet, calibrated on queries typed by people."""
    for name in names:
        out = workplace.exported(name)
        if not out.is_dir():
            run = workplace.run(name) / "query_encoder"
            export_encoder(run, out, name=name, calibrate=workplace.web_queries, progress=print)


def measure_int8(workplace: Workplace, name: str, precision: Precision) -> Figures:
    """Cosines of one of QUANTISED with fp32 on held-out queries; measured once and kept."""

    def measure() -> Figures:
        paths = [workplace.web_queries, workplace.training_queries]
        sources = [TextSource.of(path.name, read_query_texts(path)) for path in paths]
        mixture = hold_out(sources, len(sources), 2 * NUM_QUERIES)
        queries = mixture.texts(mixture.held_out)[:NUM_QUERIES]
        fp32, int8 = (
            OnnxEncoder.load(workplace.exported(name), precision=each).encode(queries)
            for each in ("fp32", precision)
        )
        percentiles = np.percentile((fp32 * int8).sum(axis=1), [50, 1, 0]).tolist()
        names = ("median", "percentile_1", "smallest")
        mean = float((fp32 * int8).sum(axis=1).mean())
        return {"mean": mean, **dict(zip(names, percentiles, strict=True))}

    return dict(kept(workplace.exported(f"{name}.{precision}.json"), measure))
