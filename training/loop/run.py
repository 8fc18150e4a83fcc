"""One run of training: how it begins, its loop, and what it leaves."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

import torch
from accelerate import Accelerator
from pydantic import BaseModel
from torch import nn

from training.loop.devices import make_accelerator, memory_errors
from training.loop.log import TrainingLog, TrainingProgress
from training.loop.loop import TrainingLoop
from training.loop.optimisation import Optimiser
from training.loop.run_directory import publish_run, run_directory
from training.loop.state_files import weight_errors


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

    def loop(
        self, model: nn.Module, dim: int, *, average: float = 0.0, keep_stages: bool = False
    ) -> TrainingLoop:
        """The training loop, which has read the checkpoint if there is one."""
        draws = self.tensorboard and self.accelerator.is_main_process
        return TrainingLoop(
            model,
            dim=dim,
            optimiser=self.optimiser,
            directory=self.out,
            accelerator=self.accelerator,
            log=TrainingLog(self.out, tensorboard=draws),
            progress=self.progress,
            average=average,
            keep_stages=keep_stages,
            resume=self.start.get("resume", False),
            finish=self.start.get("finish", False),
        )

    def publish(
        self,
        loop: TrainingLoop,
        save: Callable[[Path], object],
        end: Mapping[str, Any],
        *,
        dim: int,
        embedding_space: str,
        details: Mapping[str, Any],
    ) -> None:
        """Save the encoders, write the manifest, and then remove the checkpoints.

        :param save: Writes the encoders into the folder that it is given.
        :param end: The last record of the log.
        :raises StorageError: When the file system refuses.
        """
        loop.log.write("end", **end)
        loop.log.close()
        with weight_errors(self.out):
            save(self.out)
        publish_run(
            self.out,
            dim=dim,
            embedding_space=embedding_space,
            details=details,
            temporary=self.temporary,
        )


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
