"""One run of training: its directory, how it begins, and how it ends."""

import json
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypedDict, Unpack

import torch
from accelerate import Accelerator
from pydantic import BaseModel

from swiftlet import disk
from swiftlet.errors import CollectionError, InvalidArgumentError
from swiftlet.manifest import FILE_NAME, Manifest, describe_files, write_manifest
from swiftlet.publication import discard, flush, locked_working_directory
from training.errors import RecipeError, TrainingDataError
from training.loop.checkpoints import BEST, CHECKPOINT
from training.loop.devices import make_accelerator, memory_errors
from training.loop.log import FILE_NAME as LOG_FILE
from training.loop.log import TrainingProgress, logged
from training.loop.optimisation import Optimiser
from training.model.trained import KIND, MODEL, TOWERS

RECIPE_FILE = "recipe.json"


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
    """Run `settings` in the directory `out`, which is locked meanwhile.

    During the run, `out` has `recipe.json`, `metrics.jsonl` and `checkpoint/`. `manifest.json` is
    written last: without it, `out` is not a valid artefact. A run without a checkpoint is started
    again. A run that ends before it writes anything, or whose data are refused before a step is
    logged, leaves no directory. An overwritten run is restored if the new run ends before its first
    checkpoint.

    :param may_change: Settings, as `table.setting`, that may change when a run is resumed.
    :param advice: What to do when memory runs out, as the part of a sentence after a colon.
    :param temporary: Directories in `out` that are removed at the end, or if the data are refused.
    :raises RetrievalError: When the settings or `out` are invalid, another process trains there, or
        the run cannot continue: see `training.errors`.
    :raises KeyboardInterrupt: When the user interrupts the run; the message has the way to resume.
    """
    with _locked(out, settings, may_change, temporary, **start), memory_errors(advice, out):
        accelerator = make_accelerator(optimiser.precision)
        torch.manual_seed(seed)
        yield Run(out, optimiser, accelerator, progress, start, tensorboard, temporary)


def publish_run(
    out: Path,
    *,
    dim: int,
    embedding_space: str,
    details: Mapping[str, Any],
    temporary: Sequence[str] = (),
) -> None:
    """Write the manifest of a finished run, and then remove its checkpoints.

    :param temporary: Other directories in `out` to remove.
    """
    files = [LOG_FILE, RECIPE_FILE]
    with disk.storage_errors(out):
        flush(out)  # the checkpoints are removed below
    for encoder in (*TOWERS, MODEL):
        paths = (path for path in (out / encoder).rglob("*") if path.is_file())
        files += [path.relative_to(out).as_posix() for path in paths]
    with disk.storage_errors(out):
        described = describe_files(out, files)
    packages = ("torch", "transformers", "sentence-transformers", "accelerate")
    manifest = Manifest(
        kind=KIND,
        dim=dim,
        embedding_space=embedding_space,
        files=described,
        created_by=f"swiftlet {version('swiftlet-retrieval')}",
        details={**details, "made_with": {package: version(package) for package in packages}},
    )
    write_manifest(out, manifest)
    for name in (CHECKPOINT, BEST, *temporary):
        disk.remove_tree(out / name, ignore_errors=True)


@contextmanager
def _locked(
    out: Path,
    recipe: BaseModel,
    may_change: AbstractSet[str],
    temporary: Sequence[str],
    *,
    resume: bool = False,
    finish: bool = False,
    overwrite: bool = False,
) -> Iterator[None]:
    """Create `out` with the recipe in it, and lock it; other arguments as of `training_run`."""
    if (resume or finish) and overwrite:
        option = "--finish" if finish else "--resume"
        raise InvalidArgumentError(f"{option} and --overwrite exclude each other: pass one of them")
    if finish and not (out / BEST).is_dir():
        raise InvalidArgumentError(
            f"{out} has no checkpoint to finish with: its alignment, or its first evaluation, is "
            "not over; pass --resume instead"
        )
    resume = resume or finish
    _check(out, resume=resume, overwrite=overwrite)
    with locked_working_directory(out) as lock:
        earlier = lock / "earlier"
        _restore_or_remove(earlier, out)  # left by a killed process
        try:
            _check(out, resume=resume, overwrite=overwrite)
            with disk.storage_errors(out):
                _prepare(out, recipe, may_change, lock, overwrite=overwrite)
            try:
                yield
            except (CollectionError, TrainingDataError):
                if not logged(out / LOG_FILE, "step"):
                    for name in (CHECKPOINT, BEST, LOG_FILE, *temporary):
                        _remove(out / name)
                raise
        except KeyboardInterrupt:
            if not (out / CHECKPOINT).is_dir():
                raise
            advice = "interrupted: run the same command with --resume to continue"
            if (out / BEST).is_dir():
                advice += ", or with --finish to take the best checkpoint so far"
            raise KeyboardInterrupt(advice) from None
        finally:
            _restore_or_remove(earlier, out)
            _remove_if_unused(out)
            discard(lock)


def _check(out: Path, *, resume: bool, overwrite: bool) -> None:
    if out.exists() and not out.is_dir():
        raise InvalidArgumentError(f"{out} exists and is not a directory")
    if not out.is_dir() or not any(out.iterdir()):
        return
    if not (out / RECIPE_FILE).is_file():
        raise InvalidArgumentError(f"{out} is not empty and has no {RECIPE_FILE}: it is no run")
    if overwrite:
        return
    if (out / FILE_NAME).is_file():
        raise InvalidArgumentError(
            f"{out} has a finished run: choose another place, or pass --overwrite to train again, "
            "or --resume to export what is not exported yet"
        )
    if (out / CHECKPOINT).is_dir() and not resume:
        raise InvalidArgumentError(
            f"{out} has an unfinished run; pass --resume to continue or --overwrite to start again"
        )


def _restore_or_remove(earlier: Path, out: Path) -> None:
    """Remove the overwritten run, or restore it if the new run has no checkpoint."""
    if not earlier.is_dir():
        return
    has_begun = (out / CHECKPOINT).is_dir() or (out / FILE_NAME).is_file()
    with disk.storage_errors(out):
        if has_begun:
            disk.remove_tree(earlier)
        else:
            disk.remove_tree(out, ignore_errors=True)
            disk.rename(earlier, out)


def _remove(path: Path) -> None:
    """Remove a file or a directory, if there is one."""
    if path.is_dir():
        disk.remove_tree(path, ignore_errors=True)
    else:
        disk.remove(path, missing_ok=True)


def _remove_if_unused(out: Path) -> None:
    """Remove the directory of a run that ended before its first step: it has only the recipe."""
    with disk.storage_errors(out):
        if out.is_dir() and [entry.name for entry in out.iterdir()] == [RECIPE_FILE]:
            disk.remove_tree(out)


def _prepare(
    out: Path, recipe: BaseModel, may_change: AbstractSet[str], working: Path, *, overwrite: bool
) -> None:
    """Write the recipe, by way of `working`. The overwritten run is moved there, to `earlier`."""
    content = recipe.model_dump(mode="json")
    if overwrite and out.exists():
        disk.rename(out, working / "earlier")
    if (out / CHECKPOINT).is_dir():
        before = json.loads((out / RECIPE_FILE).read_text("utf-8"))
        different = [
            f"{name} {_short(then)}, not {_short(now)}"
            for name, then, now in _differences(before, content)
            if name not in may_change
        ]
        if different:
            raise RecipeError(
                f"{out} was started with another recipe: {'; '.join(sorted(different))}: use the "
                "same recipe, or another directory"
            )
    disk.make_directory(out, parents=True, exist_ok=True)
    written = working / RECIPE_FILE
    disk.write(written, json.dumps(content, indent=1))
    disk.sync(written)
    disk.rename(written, out / RECIPE_FILE)
    disk.sync(out)


def _differences(
    earlier: Mapping[str, Any], content: Mapping[str, Any], within: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """The settings that differ, as `table.setting`, with both values."""
    for name in {*earlier, *content}:
        before, now = earlier.get(name), content.get(name)
        if isinstance(before, Mapping) and isinstance(now, Mapping):
            yield from _differences(before, now, f"{within}{name}.")
        elif before != now:
            yield within + name, before, now


def _short(value: Any) -> str:
    return f"{json.dumps(value):.60}"
