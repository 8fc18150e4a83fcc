"""Systems that DAFT is compared with: the encoders that ship, and BM25."""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import bm25s
import faiss
import torch

from experiments.daft.runs import BASE, overrides, record_of
from experiments.daft.tests import EMBEDDED, Bench, quality
from measuring.results import Figures
from swiftlet.encoders import DEFAULT_QUERY_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.encoders.encoding import encode_texts
from swiftlet.progress import Silence
from swiftlet.types import Run
from training.contrastive.batch_encoder import BatchEncoder
from training.contrastive.validator import Encoders, Validator
from training.data.passages import Passages
from training.data.validation_set import ValidationSet
from training.inputs import load_data
from training.model.dual_encoder import DualEncoder
from training.objective.negatives.sampler import Rows
from training.recipes.settings import Recipe, read_recipe

BASELINES = "baselines"


def figures_of(options: Namespace, name: str, seed: int) -> Figures:
    """The record of a run, or what the other systems find."""
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    if name != BASELINES:
        return record_of(options, name, seed)
    pooling = [f"{tower}.pooling=mean" for tower in ("query_encoder", "document_encoder")]
    return baselines(options, read_recipe(BASE, [*overrides(options, "default", seed), *pooling]))


@dataclass(frozen=True, slots=True)
class _WithStudent:
    """The teacher's documents, and the queries of an exported student."""

    student: OnnxEncoder
    teacher: BatchEncoder

    def queries(self, texts: Sequence[str]) -> torch.Tensor:
        return torch.from_numpy(encode_texts(self.student, texts))

    def passages(self, passages: Passages, rows: Rows) -> torch.Tensor:
        return self.teacher.passages(passages, rows)


def baselines(options: Namespace, recipe: Recipe) -> dict[str, dict[str, Any]]:
    """The encoders that ship and BM25, on the tests and on the validation queries of a seed."""
    bench = Bench(options, recipe)
    tower = bench.dual_encoder.document_tower
    validation = load_data(recipe, tower, bench.store, Silence())[1]
    both = DualEncoder(tower, tower, projection="none")
    teacher = bench.encoder_of(both, embedding_cache=bench.frozen)
    student = OnnxEncoder.load(DEFAULT_QUERY_ENCODER)
    systems: dict[str, Encoders] = {
        "teacher for both": teacher,
        "teacher, distilled student": _WithStudent(student, teacher),
    }
    found: dict[str, dict[str, Any]] = {name: {"by_query": {}} for name in (*systems, "BM25")}
    for title, collection in {"validation": validation, **bench.collections}.items():
        runs = {name: Validator(collection, EMBEDDED).run(each) for name, each in systems.items()}
        for name, run in (runs | {"BM25": _bm25(collection)}).items():
            found[name][title], found[name]["by_query"][title] = quality(run, collection)
    return found


def _bm25(collection: ValidationSet) -> Run:
    index = bm25s.BM25()
    texts = collection.passages.texts(collection.rows)
    index.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)
    words = bm25s.tokenize(collection.queries, show_progress=False)
    rows, scores = index.retrieve(words, k=min(100, len(texts)), show_progress=False)
    owners = collection.passages.passage_to_document[collection.rows]
    ids = collection.passages.document_ids
    return {
        query: {ids[owners[row]]: float(score) for row, score in zip(*found, strict=True)}
        for query, *found in zip(collection.query_ids, rows, scores, strict=True)
    }
