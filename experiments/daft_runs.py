"""Runs of DAFT: each a recipe with some settings changed, trained and tested once, then kept.

A run is a process of `swiftlet train`. Finished runs are kept, so an interrupted set of runs can be
resumed.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray

from experiments.processes import Processes
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
from training.recipes.settings import Recipe, parse_recipe
from training.train import output_key

BASE = Path(__file__).with_name("daft.toml")
TRAINING = [("squad-dev-v1.1", "train"), ("medquad", "all"), ("boolq", "dev")]
TESTS = [("squad-dev-v1.1", "test"), ("boolq", "test_disjoint"), ("scifact", "test")]
TEST_METRICS = ["nDCG@10", "R@100"]
EMBEDDED = 400
STEPS_AN_EPOCH = 840  # of the training data above, in batches of daft.toml
REFUSED = 2


@dataclass(frozen=True, slots=True)
class Variant:
    """A run: the settings that differ from daft.toml, as TOML.

    `tested` are the states, as `_states` names them, in which the encoders are evaluated on the
    test collections. Embeddings are kept in all states.
    """

    name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    tested: tuple[str, ...] = ()

    def title(self, state: str) -> str:
        """The name of the run in a state, as in tables."""
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
        sources = ", ".join(
            f"{{corpus = {str(self.data / name)!r}, qrels = {split!r}}}" for name, split in TRAINING
        )
        settings = {
            "data": f"[{sources}]",
            "query_encoder.model": repr(str(torch_weights())),
            "document_encoder.model": repr(str(torch_weights())),
            "frozen_outputs": repr(str(self.runs / "frozen")),
            "keep_stages": "true" if variant.tested else "false",
        } | dict(variant.settings)
        arguments = [str(BASE), "--out", str(self.directory(variant) / "run"), "--resume"]
        for key, value in settings.items():
            arguments += ["--set", f"{key}={value}"]
        return ["train", *arguments]

    def is_done(self, variant: Variant) -> bool:
        """Whether a run is trained and, if it is to be, tested."""
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


def steps(count: int) -> str:
    """A number of steps in epochs, for a setting."""
    return f"{count / STEPS_AN_EPOCH:.6f}"


def run_all(workplace: Workplace, variants: Sequence[Variant]) -> None:
    """Train and test all runs that are missing."""
    unique = {variant.name: variant for variant in variants}
    workplace.processes.each(lambda variant: run(workplace, variant), unique.values())
    for variant in unique.values():
        if not workplace.is_done(variant):
            print(f"{variant.name}: testing", flush=True)
            test(workplace.data, workplace.directory(variant), variant.tested)


def run(workplace: Workplace, variant: Variant) -> None:
    """Train one variant, unless it is trained already."""
    directory = workplace.directory(variant)
    outcome = directory / "outcome.json"
    if not outcome.is_file():
        collapsed = False
        # An earlier process may have been stopped right after the training.
        if not (directory / "run" / MANIFEST).is_file():
            print(f"{variant.name}: training", flush=True)
            arguments, output = workplace.arguments(variant), directory / "output.txt"
            status, written = workplace.processes.swiftlet(*arguments, output=output)
            collapsed = status == REFUSED and verdict(workplace.log(variant)) is not None
            if status and not collapsed:
                raise SystemExit(f"{variant.name} failed: {written.strip().splitlines()[-1]}")
        outcome.write_text(json.dumps({"collapsed": collapsed}))


def test(data: Path, directory: Path, states: Sequence[str]) -> None:
    """Embed with a run's encoders at its start, aligned and at its end; test in `states`."""
    recipe = parse_recipe(
        json.loads((directory / "run" / RECIPE_FILE).read_text("utf-8")), str(directory)
    )
    torch.manual_seed(recipe.seed)
    dual_encoder = make_dual_encoder(recipe)
    collections = [_collection(data, test, directory, dual_encoder, recipe) for test in TESTS]
    frozen = EmbeddingCache(
        Path(recipe.frozen_outputs or directory),
        output_key(dual_encoder.document_tower, recipe),
        dual_encoder.document_tower.width,
    )
    accelerator = make_accelerator(recipe.optimiser.precision, recipe.optimiser.batch_size)
    figures: dict[str, Any] = {}
    embeddings: dict[str, Any] = {}
    for state, state_encoder in _states(
        directory / "run", dual_encoder.to(accelerator.device), frozen, accelerator
    ):
        embeddings |= _embeddings(state_encoder, collections[0], state)
        if state in states:
            figures[state] = {
                f"{name} {split}": evaluate_per_query(
                    Validator(collection, EMBEDDED).run(state_encoder),
                    collection.qrels,
                    TEST_METRICS,
                )
                for (name, split), collection in zip(TESTS, collections, strict=True)
            }
    np.savez(directory / "embeddings.npz", **embeddings)
    (directory / "tested.json").write_text(json.dumps(figures))


def _collection(
    data: Path, test: tuple[str, str], directory: Path, dual_encoder: DualEncoder, recipe: Recipe
) -> ValidationSet:
    tower = dual_encoder.document_tower
    return validation_from(
        [DataSource(corpus=str(data / test[0]), qrels=test[1])],
        directory.parent / "tests",
        PassageSplitter(
            Tokenizer(truncating_tokenizer(tower.encoder, tower.max_tokens)),
            recipe.passages.tokens,
            recipe.passages.overlap_tokens,
            truncate=True,
        ),
    )


def _states(
    run: Path, dual_encoder: DualEncoder, frozen: EmbeddingCache, accelerator: Accelerator
) -> Iterator[tuple[str, BatchEncoder]]:
    """The encoders before training, "aligned" if there was such a stage, and "ended"."""
    encoder = BatchEncoder(dual_encoder, accelerator, micro_batch_size=32, embedding_cache=frozen)
    yield "start", encoder
    # The untrained document encoder alone.
    alone = DualEncoder(dual_encoder.document_tower, dual_encoder.document_tower)
    alone.document_projection = alone.query_projection = dual_encoder.document_projection
    yield (
        "start, document encoder for both",
        BatchEncoder(alone, accelerator, micro_batch_size=32, embedding_cache=frozen),
    )
    if (run / STAGES / "alignment").is_dir():
        dual_encoder.load_state_dict(read_checkpoint(run / STAGES / "alignment")["model"])
        yield "aligned", encoder
    if (run / "query_encoder").is_dir():
        towers = [Tower.load(TowerSettings(model=run / name)) for name in TOWERS]
        dual_encoder = DualEncoder(*towers, projection="none").to(accelerator.device)
    else:  # collapsed
        dual_encoder.load_state_dict(read_checkpoint(run / CHECKPOINT)["model"])
    yield "ended", BatchEncoder(dual_encoder, accelerator, micro_batch_size=32)


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
