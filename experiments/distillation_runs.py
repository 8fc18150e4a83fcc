"""Distillations: `swiftlet distill` with some settings changed, run and judged once, then kept.

Whatever a run left behind is found again: the whole set can be interrupted and started anew.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from distillation_data import DEVELOPMENT, TESTS, Collection, Prepared

from evaluation.experiment import run_queries
from evaluation.metrics import evaluate_per_query
from evaluation.retrievers import SearcherRetriever
from models import torch_weights
from retrieval.collections import read_qrels
from retrieval.documents import DocumentStore
from retrieval.encoder import Encoder, OnnxEncoder
from retrieval.index import FaissIndex
from retrieval.manifest import FILE_NAME as MANIFEST
from retrieval.manifest import Manifest, load_manifest
from retrieval.searcher import DOCUMENTS_FILE, INDEX_FILE, PASSAGE_TO_DOCUMENT_FILE, Searcher
from training.distillation.agreement import TorchEncoder
from training.encoders import Tower, TowerSettings

METRIC = "nDCG@10"
TEACHER = "teacher"
SETS: Mapping[str, Sequence[Collection]] = {"development": DEVELOPMENT, "tests": TESTS}

BASE: Mapping[str, str] = {
    "layers": "[0, 5]",
    "batch_size": "128",
    "precision": '"bf16"',
    "sentences": "120000",
}


@dataclass(frozen=True, slots=True)
class Variant:
    """A run by its name: which settings differ from BASE, as TOML, and whether prose is read too.

    `after` names the run that it goes on from, and `why` says what it is there for, on the page.
    """

    name: str
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)
    prose: bool = True
    why: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where things are kept; `threads` for each of `jobs` processes at a time."""

    prepared: Prepared
    jobs: int
    threads: int

    def directory(self, name: str) -> Path:
        """Where a run is kept."""
        return self.prepared.folder / "runs" / name

    @property
    def environment(self) -> dict[str, str]:
        """Of each process."""
        return {**os.environ, "OMP_NUM_THREADS": str(self.threads)}

    def command(self, variant: Variant) -> list[str]:
        """The command of a run."""
        prepared = self.prepared
        arguments = ["--teacher", str(torch_weights()), "--out", str(self.directory(variant.name))]
        arguments += ["--teacher-embeddings", str(prepared.folder / "teacher-embeddings")]
        for path in (prepared.web_queries, prepared.training_queries):
            arguments += ["--queries", str(path)]
        for path in prepared.corpora if variant.prose else []:
            arguments += ["--corpus", str(path)]
        settings = {**BASE, **variant.settings}
        if variant.after:
            del settings["layers"]
            earlier = self.directory(variant.after) / "query_encoder"
            arguments += ["--student", str(earlier), "--no-projection"]
        for name, value in settings.items():
            arguments += ["--set", f"{name}={value}"]
        return [sys.executable, "-m", "swiftlet", "distill", *arguments, "--resume"]


def run_all(workplace: Workplace, variants: Sequence[Variant], kind: str) -> None:
    """Distil and judge what is not there yet, `jobs` at a time; `kind` is a key of SETS."""
    judge_apart(workplace, TEACHER, kind)
    unique = {variant.name: variant for variant in variants}
    with ThreadPoolExecutor(workplace.jobs) as executor:
        list(executor.map(lambda variant: run(workplace, variant, kind), unique.values()))


def run(workplace: Workplace, variant: Variant, kind: str) -> None:
    """Distil one variant and judge it, unless that was done."""
    directory = workplace.directory(variant.name)
    if not (directory / MANIFEST).is_file():
        print(f"{variant.name}: distilling", flush=True)
        said = directory.with_suffix(".txt")
        said.parent.mkdir(parents=True, exist_ok=True)
        with said.open("wb") as output:
            process = subprocess.run(
                workplace.command(variant),
                env=workplace.environment,
                stdout=output,
                stderr=output,
                check=False,
            )
        if process.returncode:
            raise SystemExit(f"{variant.name} failed: {said.read_text('utf-8').splitlines()[-1]}")
    judge_apart(workplace, variant.name, kind)


def judge_apart(workplace: Workplace, name: str, kind: str) -> None:
    """Judge in a process of its own, unless that was done."""
    if judged_file(workplace.directory(name), kind).is_file():
        return
    print(f"{name}: judging by {kind}", flush=True)
    prepared = workplace.prepared
    script = [sys.executable, __file__, str(prepared.data), str(prepared.folder), name, kind]
    subprocess.run(script, env=workplace.environment, check=True)


def judged_file(directory: Path, kind: str) -> Path:
    """Where the figures of a run are kept, beside it."""
    return directory.with_name(f"{directory.name}.{kind}.json")


def judge(prepared: Prepared, name: str, kind: str) -> None:
    """Keep the nDCG@10 of a run, or of the teacher, for each query of each collection."""
    kept = judged_file(prepared.folder / "runs" / name, kind)
    encoder = load_encoder(prepared, name)
    figures = {
        f"{collection.name} {collection.split}": _figures(prepared, encoder, collection, kind)
        for collection in SETS[kind]
    }
    partial = kept.with_suffix(".partial")
    partial.write_text(json.dumps(figures))
    partial.rename(kept)


def load_encoder(prepared: Prepared, name: str) -> Encoder:
    """The query encoder of a run or the teacher, in fp32; with " int8" behind it, as it ships."""
    run, _, precision = name.partition(" ")
    if precision:
        return OnnxEncoder.load(prepared.folder / "encoders" / run, precision=precision)
    model = torch_weights() if run == TEACHER else prepared.folder / "runs" / run / "query_encoder"
    tower = Tower.load(TowerSettings(model=model)).eval()
    space = load_manifest(prepared.index(DEVELOPMENT[0].name), "index").embedding_space
    return TorchEncoder(tower, tower, tower.width, space)


def read_figures(workplace: Workplace, name: str, kind: str) -> dict[str, dict[str, float]]:
    """nDCG@10 by collection and query."""
    path = judged_file(workplace.directory(name), kind)
    found: dict[str, dict[str, float]] = json.loads(path.read_text("utf-8"))
    return found


def kept_shares(workplace: Workplace, name: str, kind: str) -> dict[str, float]:
    """Which share of the teacher's nDCG@10 a run keeps, by collection."""
    teacher, student = (read_figures(workplace, each, kind) for each in (TEACHER, name))
    return {
        collection: float(
            np.mean(list(student[collection].values())) / np.mean(list(values.values()))
        )
        for collection, values in teacher.items()
    }


def details(workplace: Workplace, name: str) -> Mapping[str, Any]:
    """What the manifest of a run says."""
    return load_manifest(workplace.directory(name), "model").details


def searcher_of(prepared: Prepared, encoder: Encoder, collection: str) -> Searcher:
    """A searcher of a collection by this encoder, exact, among documents by the teacher."""
    directory = prepared.index(collection)
    return Searcher(
        encoder=encoder,
        index=FaissIndex.load(directory / INDEX_FILE),
        passage_to_document=np.load(directory / PASSAGE_TO_DOCUMENT_FILE),
        store=DocumentStore(directory / DOCUMENTS_FILE),
        index_manifest=load_manifest(directory, "index"),
        encoder_manifest=Manifest("encoder", encoder.dim, encoder.embedding_space, {}, ""),
    )


def _figures(
    prepared: Prepared, encoder: Encoder, collection: Collection, kind: str
) -> dict[str, float]:
    queries, qrels_path = prepared.judged(collection, development=kind == "development")
    searcher = searcher_of(prepared, encoder, collection.name)
    run = run_queries(SearcherRetriever(searcher), queries, top_k=10, threads=1)
    searcher.close()
    qrels = read_qrels(qrels_path)
    asked = {query.query_id: qrels[query.query_id] for query in queries}
    per_query = evaluate_per_query(run, asked, [METRIC])
    return {query_id: float(value) for query_id, value in per_query[METRIC].items()}


if __name__ == "__main__":
    judge(Prepared(Path(sys.argv[1]), Path(sys.argv[2])), *sys.argv[3:])
