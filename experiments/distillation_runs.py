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
from distillation_data import DEVELOPMENT, TESTS, Collection, Prepared, prepare
from minilm_weights import weights

from evaluation.experiment import run_queries
from evaluation.metrics import evaluate_per_query
from evaluation.retrievers import SearcherRetriever
from retrieval.collections import read_qrels
from retrieval.documents import DocumentStore
from retrieval.encoder import Encoder
from retrieval.index import FaissIndex
from retrieval.manifest import FILE_NAME as MANIFEST
from retrieval.manifest import Manifest, load_manifest
from retrieval.searcher import DOCUMENTS_FILE, INDEX_FILE, PASSAGE_TO_DOCUMENT_FILE, Searcher
from training.distillation.agreement import TorchEncoder
from training.encoders import Tower, TowerSettings

METRIC = "nDCG@10"
TEACHER = "teacher"
SETS: Mapping[str, Sequence[Collection]] = {"development": DEVELOPMENT, "tests": TESTS}

# Of them `swiftlet distill` has options; all else is set by name.
MIXTURES = {
    "web": (True, False, False),
    "queries": (True, True, False),
    "sentences": (False, False, True),
    "all": (True, True, True),
}
BASE: Mapping[str, str] = {
    "layers": "[0, 5]",
    "epochs": "2.0",
    "precision": '"bf16"',
    "sentences": "150000",
}


@dataclass(frozen=True, slots=True)
class Variant:
    """A run by its name: its texts, and which settings differ from BASE, as TOML."""

    name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    mixture: str = "all"


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where things are kept; `threads` for each of `jobs` processes at a time."""

    prepared: Prepared
    jobs: int
    threads: int

    def directory(self, name: str) -> Path:
        """Where a run is kept."""
        return self.prepared.folder / "runs" / name

    def command(self, variant: Variant) -> list[str]:
        """The command of a run."""
        web, learnt, sentences = MIXTURES[variant.mixture]
        prepared = self.prepared
        queries = [prepared.web_queries] * web + [prepared.training_queries] * learnt
        arguments = ["--teacher", str(weights()), "--out", str(self.directory(variant.name))]
        arguments += ["--teacher-embeddings", str(prepared.folder / "teacher-embeddings")]
        for path in queries:
            arguments += ["--queries", str(path)]
        for path in prepared.corpora if sentences else []:
            arguments += ["--corpus", str(path)]
        for name, value in {**BASE, **variant.settings}.items():
            arguments += ["--set", f"{name}={value}"]
        return [sys.executable, "-m", "swiftlet", "distill", *arguments, "--resume"]


def run_all(workplace: Workplace, variants: Sequence[Variant], kind: str) -> None:
    """Distil and judge what is not there yet, `jobs` at a time; `kind` is a key of SETS."""
    unique = {variant.name: variant for variant in variants}
    with ThreadPoolExecutor(workplace.jobs) as executor:
        list(executor.map(lambda variant: run(workplace, variant, kind), unique.values()))


def run(workplace: Workplace, variant: Variant, kind: str) -> None:
    """Distil one variant and judge it, unless that was done."""
    directory = workplace.directory(variant.name)
    environment = {**os.environ, "OMP_NUM_THREADS": str(workplace.threads)}
    if not (directory / MANIFEST).is_file():
        print(f"{variant.name}: distilling", flush=True)
        said = directory.with_suffix(".txt")
        said.parent.mkdir(parents=True, exist_ok=True)
        with said.open("wb") as output:
            process = subprocess.run(
                workplace.command(variant),
                env=environment,
                stdout=output,
                stderr=output,
                check=False,
            )
        if process.returncode:
            raise SystemExit(f"{variant.name} failed: {said.read_text('utf-8').splitlines()[-1]}")
    if not judged_file(directory, kind).is_file():
        print(f"{variant.name}: judging by {kind}", flush=True)
        prepared = workplace.prepared
        script = [sys.executable, __file__, str(prepared.data), str(prepared.folder), kind]
        subprocess.run([*script, variant.name], env=environment, check=True)


def judged_file(directory: Path, kind: str) -> Path:
    """Where the figures of a run are kept, beside it."""
    return directory.with_name(f"{directory.name}.{kind}.json")


def judge(prepared: Prepared, name: str, kind: str) -> None:
    """Keep a run's nDCG@10 for each query of each collection, and if need be the teacher's."""
    runs = prepared.folder / "runs"
    for judged in dict.fromkeys((TEACHER, name)):
        if judged_file(runs / judged, kind).is_file():
            continue
        model = weights() if judged == TEACHER else runs / judged / "query_encoder"
        tower = Tower.load(TowerSettings(model=model)).eval()
        space = load_manifest(prepared.index(DEVELOPMENT[0].name), "index").embedding_space
        encoder = TorchEncoder(tower, tower, tower.width, space)
        figures = {
            f"{collection.name} {collection.split}": _figures(prepared, encoder, collection, kind)
            for collection in SETS[kind]
        }
        partial = judged_file(runs / judged, kind).with_suffix(".partial")
        partial.write_text(json.dumps(figures))
        partial.rename(judged_file(runs / judged, kind))


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


def _figures(
    prepared: Prepared, encoder: Encoder, collection: Collection, kind: str
) -> dict[str, float]:
    queries, qrels_path = prepared.judged(collection, development=kind == "development")
    directory = prepared.index(collection.name)
    manifest = load_manifest(directory, "index")
    searcher = Searcher(
        encoder=encoder,
        index=FaissIndex.load(directory / INDEX_FILE),
        passage_to_document=np.load(directory / PASSAGE_TO_DOCUMENT_FILE),
        store=DocumentStore(directory / DOCUMENTS_FILE),
        index_manifest=manifest,
        encoder_manifest=Manifest("encoder", encoder.dim, encoder.embedding_space, {}, ""),
    )
    run = run_queries(SearcherRetriever(searcher), queries, top_k=10, threads=1)
    searcher.close()
    qrels = read_qrels(qrels_path)
    asked = {query.query_id: qrels[query.query_id] for query in queries}
    per_query = evaluate_per_query(run, asked, [METRIC])
    return {query_id: float(value) for query_id, value in per_query[METRIC].items()}


if __name__ == "__main__":
    judge(prepare(Path(sys.argv[1]), Path(sys.argv[2])), sys.argv[4], sys.argv[3])
