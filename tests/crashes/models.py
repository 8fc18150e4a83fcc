"""Walks the points at which `swiftlet export` and `swiftlet train` change files.

It runs with the recorder preloaded: `python -m tests.crashes` starts it. An export takes a second,
and a training some, so not all points are walked.
"""

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

import torch

from export.encoder_directory import export_encoder
from swiftlet.errors import RetrievalError, UnfinishedWriteError
from swiftlet.manifest import FILE_NAME, load_manifest
from tests.checkpoints import ARCHITECTURES
from tests.crashes import recorder
from tests.crashes.filesystem import FileSystem, write_out
from tests.crashes.recorder import FAULTS
from tests.crashes.walk import Tally
from tests.runs import recipe, write_collection
from tests.runs import run as train
from training.model.quiet import quiet
from training.model.trained import KIND

OUT = "made"


@dataclass(frozen=True)
class Command:
    """What makes one artefact; `picture` is what is there, and None without a whole one."""

    name: str
    begin: Callable[[Path], object]
    """Makes an earlier artefact."""
    run: Callable[[Path], object]
    picture: Callable[[Path], object]


def commands(folder: Path) -> list[Command]:
    """The commands, with models and a collection in `folder`."""
    checkpoints = {}
    for name in ("bert", "roberta"):
        torch.manual_seed(7)
        model, tokenizer = ARCHITECTURES[name](folder / name)
        with quiet():
            model.save_pretrained(folder / name)
            tokenizer.save_pretrained(folder / name)
        checkpoints[name] = folder / name
    collection = write_collection(folder / "words")
    settings = {"fine_tuning": {"epochs": 1}, "alignment__max_epochs": 1}
    wanted = recipe(collection, checkpoints["roberta"], checkpoints["bert"], **settings)

    def export(model: str) -> Callable[[Path], object]:
        options = {"pooling": "mean", "precisions": ["fp32"], "overwrite": True}
        return lambda root: export_encoder(checkpoints[model], root / OUT, **options)

    def resume(root: Path) -> None:
        if not (root / OUT / FILE_NAME).is_file():
            train(wanted, root / OUT, resume=(root / OUT).exists())

    def encoder(root: Path) -> object:
        return load_manifest(root / OUT, "encoder").fingerprint

    def trained(root: Path) -> object:
        if not (root / OUT / FILE_NAME).is_file():
            return None
        return load_manifest(root / OUT, KIND).details["validation"]

    return [
        Command("export", export("bert"), export("roberta"), encoder),
        Command("train", lambda _: None, resume, trained),
    ]


def walk_crashes(command: Command, work: Path, tally: Tally, *, every: int) -> None:
    """Kill after every so many changes, and lose power; the next process runs the command again."""
    root = _begun(command, work / "recorded")
    before = command.picture(root) if (root / OUT).exists() else None
    files = FileSystem(root)
    recorder.watch(root, record=True)
    command.run(root)
    recorder.end()
    after = command.picture(root)
    for number, entry in enumerate(recorder.log(), start=1):
        files.apply(entry)
        if number % every:
            continue
        *_, lost = files.after_power_loss(number, 1)
        for kind, left in {"killed": files.after_kill(), "power loss": lost}.items():
            crashed = _emptied(work / "crashed")
            write_out(left, crashed)
            name = Path(entry.path).name
            where = f"{kind} after {command.name}, change {number} ({entry.op.name} {name})"
            tally.points[kind] += 1
            tally.operations[command.name] += kind == "killed"
            tally.check(where, partial(_goes_on, command, crashed, [before, after]))


def walk_faults(command: Command, work: Path, tally: Tally, *, every: int) -> None:
    """Let each fault happen at every so many points; then the cause is gone."""
    begun = _begun(command, work / "begun")
    finished = Path(shutil.copytree(begun, work / "finished", dirs_exist_ok=True))
    command.run(finished)
    after = command.picture(finished)
    for fault in FAULTS:
        for number in count(1, every):
            root = _emptied(work / "struck")
            shutil.copytree(begun, root, dirs_exist_ok=True)
            before = command.picture(root) if (root / OUT).exists() else None
            answer, expected = "done", [after]
            recorder.watch(root)
            recorder.strike(number, FAULTS[fault])
            try:
                command.run(root)
            except UnfinishedWriteError:
                answer, expected = "unknown", [before, after]
            except RetrievalError:
                answer, expected = "refused", [before]
            except Exception as error:  # noqa: BLE001
                answer, expected = f"{type(error).__name__}: {error}"[:200], [before, after]
            struck_at = recorder.end()
            if not struck_at:
                break
            tally.points[fault] += 1
            tally.operations[command.name] += 1
            place = struck_at.replace(str(root), "")
            where = f"{command.name}, {fault} at {number} ({place}), {answer}"
            tally.answers[answer if len(expected) < 2 or answer == "unknown" else "other"] += 1
            if answer not in {"done", "unknown", "refused"}:
                tally.note(f"{where}: an error without a type")
            tally.check(where, partial(_goes_on, command, root, expected, after))


def _goes_on(command: Command, root: Path, allowed: list[object], after: object = None) -> None:
    """There is one of the pictures, and the command ends when it is run again."""
    found = command.picture(root) if (root / OUT).exists() else None
    assert found in allowed, f"found {found}, expected {allowed}"
    command.run(root)
    assert command.picture(root) == (after or allowed[-1])


def _begun(command: Command, root: Path) -> Path:
    command.begin(_emptied(root))
    return root


def _emptied(path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def main() -> None:
    """Walk as the arguments say, as JSON; print the tally as JSON."""
    work, wanted = Path(sys.argv[1]), json.loads(sys.argv[2])
    torch.set_num_threads(1)
    tally = Tally()
    for command in commands(work / "inputs"):
        if command.name == wanted["command"]:
            walk = walk_faults if wanted["faults"] else walk_crashes
            walk(command, work, tally, every=wanted["every"])
    print(json.dumps(vars(tally)))


if __name__ == "__main__":
    main()
