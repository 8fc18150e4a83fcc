"""One run of training: its directory, its processes, and how it begins."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, Unpack

import torch
from accelerate import Accelerator
from pydantic import BaseModel

from training.loop.devices import make_accelerator, memory_errors
from training.loop.log import TrainingProgress
from training.loop.optimisation import Optimiser
from training.loop.run_directory import run_directory


class Start(TypedDict, total=False):
    """How a run begins; by default, its directory must not have a run.

    With `resume`, it continues from the checkpoint of an earlier process, if there is one. With
    `finish`, it ends the run of an earlier process with its best evaluation so far. With
    `overwrite`, an earlier run is removed first.
    """

    resume: bool
    finish: bool
    overwrite: bool


@dataclass(frozen=True, slots=True)
class Run:
    """A run in the directory `out`, which others cannot use meanwhile."""

    out: Path
    optimiser: Optimiser
    accelerator: Accelerator
    progress: TrainingProgress
    start: Start
    tensorboard: bool
    temporary: Sequence[str]


@contextmanager
def training_run(
    settings: BaseModel,
    out: Path,
    optimiser: Optimiser,
    *,
    seed: int,
    may_change: AbstractSet[str],
    advice: str,
    progress: TrainingProgress,
    tensorboard: bool = False,
    temporary: Sequence[str] = (),
    **start: Unpack[Start],
) -> Iterator[Run]:
    """Run `settings` in the directory `out`.

    During the run, `out` has `recipe.json`, `metrics.jsonl` and `checkpoint/`. `manifest.json` is
    written last: without it, `out` is not a valid artefact.

    :param may_change: Settings, as `table.setting`, that may change when a run is resumed.
    :param advice: What to do when memory runs out, as the part of a sentence after a colon.
    :param temporary: Directories in `out` that are removed at the end.
    :raises RetrievalError: When the settings or `out` are invalid, or the run cannot continue: see
        `training.errors`.
    """
    with (
        run_directory(out, settings, may_change, temporary=temporary, **start),
        memory_errors(advice, out),
    ):
        accelerator = make_accelerator(optimiser.precision, optimiser.batch_size)
        torch.manual_seed(seed)
        yield Run(out, optimiser, accelerator, progress, start, tensorboard, temporary)
        accelerator.wait_for_everyone()
