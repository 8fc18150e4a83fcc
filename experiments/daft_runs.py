"""Runs of DAFT: each a recipe with some settings changed, trained and tested once with each seed.

A run is a process of `swiftlet train`. An interrupted one goes on where it was.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import bm25s
import faiss
import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray

from measuring.results import Figures
from measuring.runs import Processes
from swiftlet.encoders import DEFAULT_QUERY_ENCODER, torch_weights
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.encoders.encoding import encode_texts
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.evaluation.metrics import evaluate
from swiftlet.index.documents.passages import PassageSplitter
from swiftlet.manifest import FILE_NAME as MANIFEST
from swiftlet.progress import Silence
from swiftlet.types import Run
from training.data.passages import Passages
from training.data.sources import DataSource
from training.data.validation_set import ValidationSet, validation_from
from training.inputs import load_data, make_dual_encoder
from training.logged_run import LoggedRun, read_training_log
from training.loop.batch_encoder import BatchEncoder
from training.loop.checkpoints import BEST, CHECKPOINT, STAGES, read_checkpoint
from training.loop.devices import make_accelerator
from training.loop.embedding_cache import EmbeddingCache
from training.loop.log import FILE_NAME as LOG_FILE
from training.loop.run_directory import RECIPE_FILE
from training.loop.validator import METRICS, Encoders, Validator
from training.model.dual_encoder import DualEncoder
from training.model.loading import truncating_tokenizer
from training.model.towers import Tower, TowerSettings
from training.model.trained import TOWERS
from training.objective.negatives.sampler import Rows
from training.recipes.settings import Recipe, parse_recipe, read_recipe
from training.train import output_key

BASE = Path(__file__).with_name("daft.toml")
TRAINING = [("squad-dev-v1.1", "train"), ("medquad", "all"), ("boolq", "dev")]
TESTS = [("squad-dev-v1.1", "test"), ("boolq", "test_disjoint"), ("scifact", "test")]
EMBEDDED = 400
REFUSED = 2
RECORD = "record.json"
EVALUATED = [
    "step", "kl_per_dimension", "ndcg@10", "query_cosine", "document_cosine",
    "query_effective_rank", "document_effective_rank", "loss", "collapsed_loss", "collapse",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Variant:
    """A run: its seed, and the settings that differ from daft.toml.

    `tested` are the states, as `_states` names them, in which the encoders are evaluated on the
    test collections. Embeddings are kept in all states.
    """

    name: str
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    tested: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """A hash of all that a record depends on."""
        parts = [BASE.read_text("utf-8"), json.dumps([dict(self.settings), self.tested])]
        return hashlib.sha256("".join(parts).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Workplace:
    """The folders of the data and of the runs, and the processes that make the runs."""

    data: Path
    runs: Path
    processes: Processes

    def directory(self, variant: Variant) -> Path:
        return self.runs / f"{variant.name}-{variant.seed}"

    def overrides(self, variant: Variant) -> list[str]:
        weights = str(torch_weights())
        settings = {
            "seed": variant.seed,
            "query_encoder.model": weights,
            "document_encoder.model": weights,
            "embedding_cache": str(self.runs / "frozen"),
            "keep_stages": bool(variant.tested),
        } | dict(variant.settings)
        sources = [
            f"{{corpus = {str(self.data / name)!r}, qrels = {split!r}}}" for name, split in TRAINING
        ]
        # JSON's numbers, strings and lists are TOML's.
        return [f"data=[{', '.join(sources)}]"] + [
            f"{key}={json.dumps(value) if value != '' else ''}" for key, value in settings.items()
        ]

    def log(self, variant: Variant) -> LoggedRun:
        return read_training_log(self.directory(variant) / "run" / LOG_FILE)

    def record(self, variant: Variant) -> Figures:
        """All figures of a measured run."""
        record: Figures = json.loads((self.directory(variant) / RECORD).read_text("utf-8"))
        return record


def measure(workplace: Workplace, variant: Variant) -> Variant:
    """Train a run and test its encoders; a collapse is an outcome, too."""
    torch.set_num_threads(workplace.processes.threads)
    faiss.omp_set_num_threads(workplace.processes.threads)
    directory = workplace.directory(variant)
    # A finished run keeps its figures, but not its weights, so it cannot be tested again.
    if (directory / RECORD).is_file() and workplace.record(variant)["settings"] == variant.identity:
        return variant
    words = [word for each in workplace.overrides(variant) for word in ("--set", each)]
    status, written = 0, ""
    # An earlier process may have been stopped right after the training.
    if not (directory / "run" / MANIFEST).is_file():
        command = ["train", str(BASE), "--out", str(directory / "run"), "--resume", *words]
        output = directory / "output.txt"
        status, written = workplace.processes.swiftlet(*command, output=output)
    log = workplace.log(variant)
    collapse = verdict(log)
    if status and (status != REFUSED or collapse is None):
        raise SystemExit(f"{variant.name} failed: {written.strip().splitlines()[-1]}")
    tested, mixtures = _test(workplace.data, directory, variant.tested)
    record = {
        "settings": variant.identity,
        "collapse": collapse,
        "stages": _stages(log),
        "tests": tested,
        "mixtures": mixtures,
    }
    (directory / RECORD).write_text(json.dumps(_rounded(record)))
    # All weights of all runs would fill a disk. The query encoder's are kept for the latencies.
    for name in (CHECKPOINT, BEST, STAGES, "document_encoder", "onnx"):
        shutil.rmtree(directory / "run" / name, ignore_errors=True)
    return variant


def verdict(log: LoggedRun) -> str | None:
    """The kind of collapse in the last evaluation of a run; None if there is none."""
    kind: str = log.of_kind("evaluation")[-1].values["collapse"]
    return None if kind == "none" else kind


def _stages(log: LoggedRun) -> Figures:
    """The evaluations, losses and speed of each stage."""
    stages: Figures = {}
    for record in log.of_kind("evaluation"):
        values = {"step": record.step, **record.values}
        stage = stages.setdefault(record.stage, {"evaluations": [], "losses": [[], []]})
        stage["evaluations"].append({name: values[name] for name in EVALUATED})
    for name, stage in stages.items():
        steps = [record for record in log.of_kind("step") if record.stage == name]
        passed = [each.step for each in steps]
        stage["losses"] = [passed, [each.values["loss"] for each in steps]]
        # The median, since the machine may have been stopped meanwhile.
        paces = np.diff([each.values["seconds"] for each in steps]) / np.diff(passed)
        stage["seconds_a_step"] = float(np.median(paces)) if len(paces) else None
    return stages


def _rounded(value: Any) -> Any:
    """Five digits of each number: more would be noise, and the file is kept."""
    match value:
        case float():
            return float(f"{value:.5g}")
        case dict():
            return {key: _rounded(each) for key, each in value.items()}
        case list() | tuple():
            return [_rounded(each) for each in value]
    return value


def _splitter(recipe: Recipe, tower: Tower) -> PassageSplitter:
    tokenizer = Tokenizer(truncating_tokenizer(tower.encoder, tower.max_tokens))
    settings = recipe.passages
    return PassageSplitter(
        tokenizer, settings.tokens, settings.overlap_tokens, truncate=settings.truncate
    )


def _collections(data: Path, store: Path, splitter: PassageSplitter) -> dict[str, ValidationSet]:
    return {
        f"{name} {split}": validation_from(
            [DataSource(corpus=str(data / name), qrels=split)], store, splitter
        )
        for name, split in TESTS
    }


def _test(data: Path, directory: Path, states: Sequence[str]) -> tuple[Figures, Figures]:
    """Embed with a run's encoders at its start, aligned and at its end; test in `states`."""
    settings = json.loads((directory / "run" / RECIPE_FILE).read_text("utf-8"))
    recipe = parse_recipe(settings, str(directory))
    torch.manual_seed(recipe.seed)
    dual_encoder = make_dual_encoder(recipe)
    tower = dual_encoder.document_tower
    collections = _collections(data, directory.parent / "tests", _splitter(recipe, tower))
    outputs = Path(recipe.embedding_cache or directory)
    frozen = EmbeddingCache(outputs, output_key(tower, recipe), tower.width)
    accelerator = make_accelerator(recipe.optimiser.precision, recipe.optimiser.batch_size)
    dual_encoder.to(accelerator.device)
    tested: Figures = {}
    mixtures: Figures = {}
    embeddings: dict[str, Any] = {}
    for state, encoder in _states(directory / "run", dual_encoder, frozen, accelerator):
        queries, documents = _embeddings(encoder, next(iter(collections.values())))
        embeddings |= {f"{state} queries": queries, f"{state} documents": documents}
        mixtures[state] = mixture(queries, documents)
        if state in states:
            tested[state] = {
                title: Validator(collection, EMBEDDED).quality(encoder)
                for title, collection in collections.items()
            }
    np.savez(directory / "embeddings.npz", **embeddings)
    return tested, mixtures


def mixture(queries: NDArray[np.float32], documents: NDArray[np.float32]) -> float:
    """The share of the points whose nearest other point is of the other kind."""
    points = np.concatenate((queries, documents))
    scores = points @ points.T
    np.fill_diagonal(scores, -np.inf)
    kinds = np.arange(len(points)) < len(queries)
    return float((kinds[scores.argmax(1)] != kinds).mean())


def _states(
    run: Path, dual_encoder: DualEncoder, frozen: EmbeddingCache, accelerator: Accelerator
) -> Iterator[tuple[str, BatchEncoder]]:
    """The encoders before training, "aligned" if there was such a stage, and "ended"."""
    encoder_of = partial(BatchEncoder, accelerator=accelerator, micro_batch_size=32)
    encoder = encoder_of(dual_encoder, embedding_cache=frozen)
    yield "start", encoder
    # The untrained document encoder alone.
    tower = dual_encoder.document_tower
    alone = DualEncoder(tower, tower, dim=dual_encoder.dim)
    alone.document_projection = alone.query_projection = dual_encoder.document_projection
    yield "start, document encoder for both", encoder_of(alone, embedding_cache=frozen)
    if (run / STAGES / "alignment").is_dir():
        dual_encoder.load_state_dict(read_checkpoint(run / STAGES / "alignment")["model"])
        yield "aligned", encoder
    if (run / "query_encoder").is_dir():
        towers = [Tower.load(TowerSettings(model=run / name)) for name in TOWERS]
        dual_encoder = DualEncoder(*towers, projection="none").to(accelerator.device)
    else:  # collapsed
        dual_encoder.load_state_dict(read_checkpoint(run / CHECKPOINT)["model"])
    yield "ended", encoder_of(dual_encoder)


def _embeddings(
    encoder: BatchEncoder, collection: ValidationSet
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    relevant = list(dict.fromkeys(document for q in collection.qrels.values() for document in q))
    rows = [collection.passages.document_ids.index(document) for document in relevant[:EMBEDDED]]
    chosen = collection.queries[:: max(1, len(collection.queries) // EMBEDDED)][:EMBEDDED]
    documents = encoder.passages(collection.passages, np.array(rows))
    return encoder.queries(chosen).float().cpu().numpy(), documents.float().cpu().numpy()


@dataclass(frozen=True, slots=True)
class _WithStudent:
    """The teacher's documents, and the queries of an exported student."""

    student: OnnxEncoder
    teacher: BatchEncoder

    def queries(self, texts: Sequence[str]) -> torch.Tensor:
        return torch.from_numpy(encode_texts(self.student, texts))

    def passages(self, passages: Passages, rows: Rows) -> torch.Tensor:
        return self.teacher.passages(passages, rows)


def baselines(workplace: Workplace, seeds: int) -> Figures:
    """The encoders that ship and BM25, on the tests and on the validation queries of each seed."""
    measured: Figures = {}
    changes = {"query_encoder.pooling": "mean", "document_encoder.pooling": "mean"}
    for seed in range(seeds):
        overrides = workplace.overrides(Variant("baselines", seed, changes))
        recipe = read_recipe(BASE, overrides)
        tower = make_dual_encoder(recipe).document_tower
        store = workplace.runs / "tests"
        collections = {"validation": load_data(recipe, tower, store, Silence())[1]}
        if seed == 0:
            collections |= _collections(workplace.data, store, _splitter(recipe, tower))
        outputs = EmbeddingCache(workplace.runs / "frozen", output_key(tower, recipe), tower.width)
        accelerator = make_accelerator(recipe.optimiser.precision, recipe.optimiser.batch_size)
        teacher = BatchEncoder(
            DualEncoder(tower, tower, projection="none"),
            accelerator,
            micro_batch_size=32,
            embedding_cache=outputs,
        )
        systems: dict[str, Encoders] = {
            "teacher for both": teacher,
            "teacher, distilled student": _WithStudent(
                OnnxEncoder.load(DEFAULT_QUERY_ENCODER), teacher
            ),
        }
        for title, collection in collections.items():
            validator = Validator(collection, EMBEDDED)
            found = {name: validator.quality(system) for name, system in systems.items()}
            found["BM25"] = evaluate(_bm25(collection), collection.qrels, METRICS)
            for name, figures in found.items():
                kept = measured.setdefault(name, {"validation": []})
                if title == "validation":
                    kept[title].append(figures["nDCG@10"])
                else:
                    kept[title] = figures
    result: Figures = _rounded(measured)
    return result


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
