"""Runs of DAFT: each a recipe with some settings changed, trained and tested once, then kept.

A run is a process of `swiftlet train`. Finished runs are kept, so an interrupted set of runs can be
resumed.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray

from experiments.runs import Processes
from swiftlet.encoders import torch_weights
from swiftlet.evaluation.metrics import evaluate_per_query
from swiftlet.retrieval.manifest import FILE_NAME as MANIFEST
from swiftlet.retrieval.passages import PassageSplitter
from swiftlet.retrieval.tokenizer import Tokenizer
from training.data.sources import DataSource
from training.data.validation_set import ValidationSet, validation_from
from training.inputs import make_dual_encoder
from training.logged_run import LoggedRun, read_training_log
from training.loop.batch_encoder import BatchEncoder
from training.loop.checkpoints import CHECKPOINT, STAGES, read_checkpoint
from training.loop.devices import make_accelerator
from training.loop.embedding_cache import EmbeddingCache
from training.loop.log import FILE_NAME as LOG_FILE
from training.loop.run_directory import RECIPE_FILE
from training.loop.validator import Validator
from training.model.dual_encoder import DualEncoder
from training.model.loading import truncating_tokenizer
from training.model.towers import Tower, TowerSettings
from training.model.trained import TOWERS
from training.recipes.settings import parse_recipe
from training.train import output_key

BASE = Path(__file__).with_name("daft.toml")
TRAINING = [("squad-dev-v1.1", "train"), ("medquad", "all"), ("boolq", "dev")]
TESTS = [("squad-dev-v1.1", "test"), ("boolq", "test_disjoint"), ("scifact", "test")]
TEST_METRICS = ["nDCG@10", "R@100"]
EMBEDDED = 400
REFUSED = 2


@dataclass(frozen=True, slots=True)
class Variant:
    """A run: the settings that differ from daft.toml.

    `tested` are the states, as `_states` names them, in which the encoders are evaluated on the
    test collections. Embeddings are kept in all states.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    tested: tuple[str, ...] = ()

    def title(self, state: str) -> str:
        return self.name if state == "ended" else f"{self.name}, {state}"


@dataclass(frozen=True, slots=True)
class Workplace:
    """The folders of the data and of the runs, and the processes that make the runs."""

    data: Path
    runs: Path
    processes: Processes

    def directory(self, variant: Variant) -> Path:
        return self.runs / variant.name

    def arguments(self, variant: Variant) -> list[str]:
        weights = str(torch_weights())
        settings = {
            "query_encoder.model": weights,
            "document_encoder.model": weights,
            "embedding_cache": str(self.runs / "frozen"),
            "keep_stages": bool(variant.tested),
        } | dict(variant.settings)
        sources = [
            f"{{corpus = {str(self.data / name)!r}, qrels = {split!r}}}" for name, split in TRAINING
        ]
        changed = [f"data=[{', '.join(sources)}]"]
        # JSON's numbers, strings and lists are TOML's.
        changed += [
            f"{key}={json.dumps(value) if value != '' else ''}" for key, value in settings.items()
        ]
        words = [word for each in changed for word in ("--set", each)]
        out = str(self.directory(variant) / "run")
        return ["train", str(BASE), "--out", out, "--resume", *words]

    def train(self, variant: Variant) -> None:
        """Train a run, unless it is trained already; a collapse is an outcome, too."""
        directory = self.directory(variant)
        outcome = directory / "outcome.json"
        if outcome.is_file():
            return
        collapsed = False
        # An earlier process may have been stopped right after the training.
        if not (directory / "run" / MANIFEST).is_file():
            print(f"{variant.name}: training", flush=True)
            output = directory / "output.txt"
            status, written = self.processes.swiftlet(*self.arguments(variant), output=output)
            collapsed = status == REFUSED and verdict(self.log(variant)) is not None
            if status and not collapsed:
                raise SystemExit(f"{variant.name} failed: {written.strip().splitlines()[-1]}")
        outcome.write_text(json.dumps({"collapsed": collapsed}))

    def is_done(self, variant: Variant) -> bool:
        needed = ["outcome.json", *(["tested.json"] if variant.tested else [])]
        return all((self.directory(variant) / name).is_file() for name in needed)

    def log(self, variant: Variant) -> LoggedRun:
        return read_training_log(self.directory(variant) / "run" / LOG_FILE)

    def collapsed(self, variant: Variant) -> bool:
        """Whether `swiftlet train` ended the run because it had collapsed."""
        outcome = json.loads((self.directory(variant) / "outcome.json").read_text("utf-8"))
        return bool(outcome["collapsed"])

    def tests(self, variant: Variant, *states: str) -> dict[str, Any]:
        """Title -> values by collection, metric and query; of all states if none are given."""
        tests = json.loads((self.directory(variant) / "tested.json").read_text("utf-8"))
        return {variant.title(state): tests[state] for state in states or tests}


def verdict(log: LoggedRun) -> str | None:
    """The last kind of collapse that the last stage of a run logged."""
    evaluations = log.of_kind("evaluation")
    stage = [record for record in evaluations if record.stage == evaluations[-1].stage]
    kinds = [record.values["collapse"] for record in reversed(stage)]
    return next((kind for kind in kinds if kind != "none"), None)


def run_all(workplace: Workplace, variants: Sequence[Variant]) -> None:
    unique = {variant.name: variant for variant in variants}
    workplace.processes.each(workplace.train, unique.values())
    for variant in unique.values():
        if not workplace.is_done(variant):
            print(f"{variant.name}: testing", flush=True)
            test(workplace.data, workplace.directory(variant), variant.tested)


def test(data: Path, directory: Path, states: Sequence[str]) -> None:
    """Embed with a run's encoders at its start, aligned and at its end; test in `states`."""
    settings = json.loads((directory / "run" / RECIPE_FILE).read_text("utf-8"))
    recipe = parse_recipe(settings, str(directory))
    torch.manual_seed(recipe.seed)
    dual_encoder = make_dual_encoder(recipe)
    tower = dual_encoder.document_tower
    tokenizer = Tokenizer(truncating_tokenizer(tower.encoder, tower.max_tokens))
    passages = recipe.passages
    splitter = PassageSplitter(tokenizer, passages.tokens, passages.overlap_tokens, truncate=True)
    collections = {
        f"{name} {split}": validation_from(
            [DataSource(corpus=str(data / name), qrels=split)], directory.parent / "tests", splitter
        )
        for name, split in TESTS
    }
    outputs = Path(recipe.embedding_cache or directory)
    frozen = EmbeddingCache(outputs, output_key(tower, recipe), tower.width)
    accelerator = make_accelerator(recipe.optimiser.precision, recipe.optimiser.batch_size)
    dual_encoder.to(accelerator.device)
    figures: dict[str, Any] = {}
    embeddings: dict[str, Any] = {}
    for state, encoder in _states(directory / "run", dual_encoder, frozen, accelerator):
        embeddings |= _embeddings(encoder, next(iter(collections.values())), state)
        if state in states:
            figures[state] = {
                title: evaluate_per_query(
                    Validator(collection, EMBEDDED).run(encoder), collection.qrels, TEST_METRICS
                )
                for title, collection in collections.items()
            }
    np.savez(directory / "embeddings.npz", **embeddings)
    (directory / "tested.json").write_text(json.dumps(figures))


def _states(
    run: Path, dual_encoder: DualEncoder, frozen: EmbeddingCache, accelerator: Accelerator
) -> Iterator[tuple[str, BatchEncoder]]:
    """The encoders before training, "aligned" if there was such a stage, and "ended"."""
    encoder_of = partial(BatchEncoder, accelerator=accelerator, micro_batch_size=32)
    encoder = encoder_of(dual_encoder, embedding_cache=frozen)
    yield "start", encoder
    # The untrained document encoder alone.
    alone = DualEncoder(dual_encoder.document_tower, dual_encoder.document_tower)
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
    encoder: BatchEncoder, collection: ValidationSet, state: str
) -> dict[str, NDArray[np.float32]]:
    relevant = list(dict.fromkeys(document for q in collection.qrels.values() for document in q))
    rows = [collection.passages.document_ids.index(document) for document in relevant[:EMBEDDED]]
    chosen = collection.queries[:: max(1, len(collection.queries) // EMBEDDED)][:EMBEDDED]
    return {
        f"{state} queries": encoder.queries(chosen).cpu().numpy(),
        f"{state} documents": encoder.passages(collection.passages, np.array(rows)).cpu().numpy(),
    }
