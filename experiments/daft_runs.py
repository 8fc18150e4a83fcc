"""Runs of DAFT: each a recipe with some settings changed, trained and tested once, then kept.

A run is a process of `swiftlet train`, so what is measured is what users get. Whatever a run left
behind is found again: the whole set can be interrupted and started anew.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray

from evaluation.metrics import evaluate_per_query
from models import torch_weights
from retrieval.manifest import FILE_NAME as MANIFEST
from retrieval.passages import PassageSplitter
from retrieval.tokenizer import Tokenizer
from training.checkpoints import read_checkpoint
from training.context import CHECKPOINT, STAGES
from training.devices import make_accelerator
from training.dual_encoder import DualEncoder
from training.encoders import Tower, TowerSettings
from training.encoding import BatchEncoder
from training.frozen_outputs import FrozenOutputs
from training.inputs import make_dual_encoder
from training.loading import truncating_tokenizer
from training.recipe import Recipe, parse_recipe
from training.sources import DataSource
from training.train import RECIPE_FILE, TOWERS, output_key
from training.validation import ValidationSet, validation_from
from training.validator import Validator

BASE = Path(__file__).with_name("daft.toml")
TRAINING = [("squad-dev-v1.1", "train"), ("medquad", "all"), ("boolq", "dev")]
TESTS = [("squad-dev-v1.1", "test"), ("boolq", "test_disjoint"), ("scifact", "test")]
TEST_METRICS = ["nDCG@10", "R@100"]
EMBEDDED = 400
STEPS_AN_EPOCH = 840  # of the training data above, in batches of daft.toml
REFUSED = 2


@dataclass(frozen=True, slots=True)
class Variant:
    """A run by its name: which settings differ from those of daft.toml, as TOML.

    `tested` says in which states the encoders are evaluated on the test collections, as `_states`
    names them; embeddings are kept of all.
    """

    name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    tested: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where the data are, and where runs are kept; `threads` for each of `jobs` processes."""

    data: Path
    runs: Path
    jobs: int
    threads: int

    def directory(self, variant: Variant) -> Path:
        """Where a run is kept."""
        return self.runs / variant.name

    def settings(self, variant: Variant) -> dict[str, str]:
        """All that a run sets on top of daft.toml."""
        settings = {
            "data": "["
            + ", ".join(
                f"{{corpus = {str(self.data / name)!r}, qrels = {split!r}}}"
                for name, split in TRAINING
            )
            + "]",
            "query_encoder.model": repr(str(torch_weights())),
            "document_encoder.model": repr(str(torch_weights())),
            "frozen_outputs": repr(str(self.runs / "frozen")),
            "keep_stages": "true" if variant.tested else "false",
        }
        return settings | dict(variant.settings)


def steps(count: int) -> str:
    """So many steps as epochs, for a setting."""
    return f"{count / STEPS_AN_EPOCH:.6f}"


def run_all(workplace: Workplace, variants: Sequence[Variant]) -> None:
    """Train and test what is not there yet, `jobs` at a time."""
    unique = {variant.name: variant for variant in variants}
    with ThreadPoolExecutor(workplace.jobs) as executor:
        list(executor.map(lambda variant: run(workplace, variant), unique.values()))


def run(workplace: Workplace, variant: Variant) -> None:
    """Train and test one variant, unless that was done."""
    directory = workplace.directory(variant)
    environment = {**os.environ, "OMP_NUM_THREADS": str(workplace.threads)}
    if not (directory / "outcome.json").is_file() and not _is_finished(workplace, directory):
        arguments = [str(BASE), "--out", str(directory / "run"), "--resume"]
        for key, value in workplace.settings(variant).items():
            arguments += ["--set", f"{key}={value}"]
        directory.mkdir(parents=True, exist_ok=True)
        print(f"{variant.name}: training", flush=True)
        with (directory / "output.txt").open("wb") as output:
            process = subprocess.run(
                [sys.executable, "-m", "swiftlet", "train", *arguments],
                env=environment,
                stdout=output,
                stderr=output,
                check=False,
            )
        said = (directory / "output.txt").read_text("utf-8")
        collapsed = process.returncode == REFUSED and "have collapsed" in said
        if process.returncode and not collapsed:
            raise SystemExit(f"{variant.name} failed: {said.strip().splitlines()[-1]}")
        _write_outcome(workplace, directory, collapsed=collapsed)
    if variant.tested and not (directory / "tested.json").is_file():
        print(f"{variant.name}: testing", flush=True)
        script = [sys.executable, __file__, str(workplace.data), str(directory), *variant.tested]
        subprocess.run(script, env=environment, check=True)


def _is_finished(workplace: Workplace, directory: Path) -> bool:
    """Whether training ended after the process that had started it was stopped."""
    finished = (directory / "run" / MANIFEST).is_file()
    if finished:
        _write_outcome(workplace, directory, collapsed=False)
    return finished


def _write_outcome(workplace: Workplace, directory: Path, *, collapsed: bool) -> None:
    outcome = {"collapsed": collapsed, "threads": workplace.threads}
    (directory / "outcome.json").write_text(json.dumps(outcome))


def outcome(workplace: Workplace, variant: Variant) -> dict[str, Any]:
    """Whether a run collapsed, and where tested, its figures."""
    directory = workplace.directory(variant)
    found: dict[str, Any] = json.loads((directory / "outcome.json").read_text("utf-8"))
    if (directory / "tested.json").is_file():
        found["tests"] = json.loads((directory / "tested.json").read_text("utf-8"))
    return found


def test(data: Path, directory: Path, states: Sequence[str]) -> None:
    """Embed with a run's encoders at its start, when aligned and at its end; test in `states`."""
    recipe = parse_recipe(
        json.loads((directory / "run" / RECIPE_FILE).read_text("utf-8")), str(directory)
    )
    torch.manual_seed(recipe.seed)
    dual_encoder = make_dual_encoder(recipe)
    collections = [_collection(data, test, directory, dual_encoder, recipe) for test in TESTS]
    frozen = FrozenOutputs(
        Path(recipe.frozen_outputs or directory),
        output_key(dual_encoder.document_tower, recipe),
        dual_encoder.document_tower.width,
    )
    accelerator = make_accelerator(recipe.optimiser.precision, recipe.optimiser.batch_size)
    figures: dict[str, Any] = {}
    embeddings = {}
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
    run: Path, dual_encoder: DualEncoder, frozen: FrozenOutputs, accelerator: Accelerator
) -> Iterator[tuple[str, BatchEncoder]]:
    """The encoders untrained, "aligned" if there was such a stage, and as the run "ended"."""
    encoder = BatchEncoder(dual_encoder, accelerator, micro_batch_size=32, frozen_outputs=frozen)
    yield "start", encoder
    # How well the document encoder would answer by itself, untrained.
    alone = DualEncoder(dual_encoder.document_tower, dual_encoder.document_tower)
    alone.document_projection = alone.query_projection = dual_encoder.document_projection
    yield (
        "start, document encoder for both",
        BatchEncoder(alone, accelerator, micro_batch_size=32, frozen_outputs=frozen),
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


if __name__ == "__main__":
    test(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
