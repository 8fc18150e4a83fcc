"""A run's directory: who may write there, and what may be gone on with."""

import json
import shutil
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from retrieval.errors import InvalidArgumentError
from retrieval.manifest import FILE_NAME
from retrieval.publication import discard, locked_working_directory, storage_errors
from training.context import CHECKPOINT
from training.devices import is_main_process, processes
from training.errors import RecipeError

RECIPE_FILE = "recipe.json"


@contextmanager
def run_directory(
    out: Path, recipe: BaseModel, may_change: AbstractSet[str], *, resume: bool, overwrite: bool
) -> Iterator[None]:
    """Make `out`, with the recipe in it, and hold it alone while inside.

    A run that never got to a checkpoint is begun anew, and one that did nothing leaves nothing. One
    that is overwritten comes back if the new one does not get there either.

    :param may_change: Settings, as `table.setting`, that may change while a run is interrupted.
    :raises InvalidArgumentError: When `out` has something else, or a run that is not to be touched,
        or when it is to be both gone on with and overwritten.
    :raises RecipeError: When the run there was begun with another recipe.
    :raises ArtefactError: When another process is training there.
    :raises StorageError: When the file system refuses.
    :raises KeyboardInterrupt: When that came from inside, and with it how to go on.
    """
    if resume and overwrite:
        raise InvalidArgumentError("--resume goes on with a run, --overwrite removes it: pass one")
    if not is_main_process():
        processes().wait_for_everyone()
        yield
        return
    _check(out, resume=resume, overwrite=overwrite)
    with locked_working_directory(out) as lock:
        earlier = lock / "earlier"
        _settle(earlier, out)  # where a process was killed
        try:
            _check(out, resume=resume, overwrite=overwrite)
            with storage_errors(out):
                _prepare(out, recipe, may_change, earlier if overwrite else None)
            processes().wait_for_everyone()
            yield
        except KeyboardInterrupt:
            if not (out / CHECKPOINT).is_dir():
                raise
            raise KeyboardInterrupt("interrupted: the same with --resume goes on") from None
        finally:
            _settle(earlier, out)
            _leave_nothing_but_work(out)
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
            f"{out} has a finished run; choose another place or pass --overwrite"
        )
    if (out / CHECKPOINT).is_dir() and not resume:
        raise InvalidArgumentError(
            f"{out} has an unfinished run; pass --resume to go on or --overwrite to begin anew"
        )


def _settle(earlier: Path, out: Path) -> None:
    """Let go of the run that was overwritten, or bring it back if the new one got nowhere."""
    if not earlier.is_dir():
        return
    got_somewhere = (out / CHECKPOINT).is_dir() or (out / FILE_NAME).is_file()
    with storage_errors(out):
        if got_somewhere:
            shutil.rmtree(earlier)
        else:
            shutil.rmtree(out, ignore_errors=True)
            earlier.rename(out)


def _leave_nothing_but_work(out: Path) -> None:
    """Remove what a run leaves that was refused before it did anything: its recipe alone."""
    with storage_errors(out):
        if out.is_dir() and [entry.name for entry in out.iterdir()] == [RECIPE_FILE]:
            shutil.rmtree(out)


def _prepare(
    out: Path, recipe: BaseModel, may_change: AbstractSet[str], earlier: Path | None
) -> None:
    """Write the recipe; what is overwritten goes to `earlier`."""
    content = recipe.model_dump(mode="json")
    if earlier is not None and out.exists():
        out.rename(earlier)
    if (out / CHECKPOINT).is_dir():
        before = json.loads((out / RECIPE_FILE).read_text("utf-8"))
        different = [
            f"{name} {_short(then)}, not {_short(now)}"
            for name, then, now in _differences(before, content)
            if name not in may_change
        ]
        if different:
            raise RecipeError(
                f"{out} was begun with another recipe: {'; '.join(sorted(different))}: use the "
                "same, or begin anew elsewhere"
            )
    out.mkdir(parents=True, exist_ok=True)
    (out / RECIPE_FILE).write_text(json.dumps(content, indent=1), "utf-8")


def _differences(
    earlier: Mapping[str, Any], content: Mapping[str, Any], within: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """The settings that are not the same, as `table.setting`, with both values."""
    for name in {*earlier, *content}:
        before, now = earlier.get(name), content.get(name)
        if isinstance(before, Mapping) and isinstance(now, Mapping):
            yield from _differences(before, now, f"{within}{name}.")
        elif before != now:
            yield within + name, before, now


def _short(value: Any) -> str:
    return f"{json.dumps(value):.60}"
