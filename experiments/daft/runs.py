"""Runs of DAFT: each a recipe with some settings changed, trained and tested once with each seed.

An interrupted run goes on where it was.
"""

import hashlib
import json
import shutil
from argparse import Namespace
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from experiments.daft.tests import tested
from experiments.pairs import run_of
from measuring.experiment import Run, settings_beside
from measuring.machine import processor_kind
from measuring.results import Figures
from swiftlet.encoders import torch_weights
from training.errors import CollapsedError
from training.loop.checkpoints import BEST, CHECKPOINT, STAGES
from training.loop.log import FILE_NAME as LOG_FILE
from training.loop.log import logged
from training.recipes.settings import read_recipe

BASE = Path(__file__).with_name("recipe.toml")
TABLE = settings_beside(__file__)
EXPERIMENTS: dict[str, list[str]] = TABLE["experiments"]
NAMES = list(dict.fromkeys(chain(*EXPERIMENTS.values())))
# Other processors are slower in bf16.
PRECISION = "bf16" if processor_kind() == "AMX" else "fp32"
EVALUATED = [
    "step", "kl_per_dimension", "ndcg@10", "query_cosine", "document_cosine",
    "query_effective_rank", "document_effective_rank", "loss", "collapsed_loss", "collapse",
]  # fmt: skip


def settings_of(name: str) -> dict[str, Any]:
    """The settings of recipe.toml that a run changes."""
    own = dict(TABLE["settings"][name])
    shared = [settings_of(other).items() for other in own.pop("like", [])]
    return dict(chain(*shared)) | own


def states_of(name: str) -> list[str]:
    """The states in which a run is tested; those of the map are not."""
    return [] if name.startswith("map-") else TABLE["tested"].get(name, ["ended"])


def identity(name: str) -> str:
    """A hash of all that a record depends on."""
    parts = [BASE.read_text("utf-8"), json.dumps([settings_of(name), states_of(name)])]
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:12]


def overrides(options: Namespace, name: str, seed: int) -> list[str]:
    """The settings of a run that differ from recipe.toml, as `--set` takes them."""
    weights = str(torch_weights())
    settings = {
        "seed": seed,
        "query_encoder.model": weights,
        "document_encoder.model": weights,
        "embedding_cache": str(options.work / "frozen"),
        "keep_stages": bool(states_of(name)),
        "optimiser.precision": PRECISION,
    } | settings_of(name)
    sources = [
        f"{{corpus = {str(options.data / corpus)!r}, qrels = {split!r}}}"
        for corpus, split in TABLE["training"]
    ]
    # JSON's numbers, strings and lists are TOML's.
    return [f"data=[{', '.join(sources)}]", *TABLE["changes"]] + [
        f"{key}={json.dumps(value) if value != '' else ''}" for key, value in settings.items()
    ]


def directory(options: Namespace, run: Run) -> Path:
    """The folder of a run."""
    return Path(options.work) / "{}-{}".format(*run)


def record_of(options: Namespace, name: str, seed: int) -> Figures:
    """Train a run and test its encoders; a collapse is an outcome, too."""
    folder = directory(options, (name, seed))
    recipe = read_recipe(BASE, overrides(options, name, seed))
    with suppress(CollapsedError):
        run_of(recipe, folder / "run")
    log = folder / "run" / LOG_FILE
    record = {
        "settings": identity(name),
        "collapse": verdict(log),
        "closed_form": logged(log, "closed form"),
        "precision": recipe.optimiser.precision,
        "stages": stages_of(log),
        **tested(options, recipe, folder, states_of(name)),
    }
    # All weights of all runs would fill a disk. The query encoder's are kept for the latencies.
    for each in (CHECKPOINT, BEST, STAGES, "document_encoder"):
        shutil.rmtree(folder / "run" / each, ignore_errors=True)
    # More digits would be noise, and the file is kept.
    rounded = json.loads(json.dumps(record), parse_float=lambda each: float(f"{float(each):.5g}"))
    return dict(rounded)


def verdict(log: Path) -> str | None:
    """The kind of collapse in the last evaluation of a run; None if there is none."""
    kind: str = logged(log, "evaluation")[-1]["collapse"]
    return None if kind == "none" else kind


def stages_of(log: Path) -> Figures:
    """The evaluations, losses and speed of each stage."""
    stages: Figures = {}
    for record in logged(log, "evaluation"):
        stage = stages.setdefault(record["stage"], {"evaluations": [], "losses": [[], []]})
        stage["evaluations"].append({name: record[name] for name in EVALUATED})
    for name, stage in stages.items():
        steps = [record for record in logged(log, "step") if record["stage"] == name]
        passed = [each["step"] for each in steps]
        stage["losses"] = [passed, [each["loss"] for each in steps]]
        # The median, since the machine may have been stopped meanwhile.
        paces = np.diff([each["seconds"] for each in steps]) / np.diff(passed)
        stage["seconds_a_step"] = float(np.median(paces)) if len(paces) else None
    return stages
