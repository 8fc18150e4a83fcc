"""A day of edits in a folder, which a watch follows."""

import os
import random
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any

import psutil

from experiments.indexes import collections, written
from measuring.experiment import settings_beside
from measuring.results import Figures, spread
from swiftlet.index.building.build import build
from swiftlet.index.updates.directory_writer import IndexWriter
from swiftlet.sync.folder import Folder
from swiftlet.sync.rounds import FolderReader, FolderSync, Round
from swiftlet.sync.seen import SeenFiles
from swiftlet.sync.watch import watch

DAY: dict[str, Any] = settings_beside(__file__)

Edit = Callable[[Path], object]
Batch = tuple[str, list[tuple[Edit, Path]]]


def of_day(options: Namespace, _name: str, work: Path) -> Figures:
    """Replay edits while a watch follows them."""
    folder, index = work / "folder", work / "index"
    for name in DAY["collections"]:
        have = sum(1 for _ in folder.iterdir()) if folder.exists() else 0
        written(collections(options.data)[name](), folder, DAY["files"] - have)
    reader = FolderReader(Folder(folder), SeenFiles(index, folder))
    build(reader.documents(Round()), index)
    return replayed(reader, index, edits(folder))


def replayed(reader: FolderReader, index: Path, batches: Iterable[Batch]) -> Figures:
    """Do what each batch says while a watch follows the folder, and wait for each."""
    rounds, stop, warnings = list[tuple[float, Round]](), Event(), list[str]()
    memory, sizes = psutil.Process().memory_info, list[int]()
    latencies: dict[str, list[float]] = {"alone": [], "burst": []}
    with IndexWriter(index, None) as writer:
        following = FolderSync(reader, writer)
        arguments = (following, lambda done: rounds.append((monotonic(), done)), warnings.append)
        thread = Thread(target=watch, args=(*arguments, stop))
        thread.start()
        while not rounds:
            sleep(0.1)
        before = _processor_seconds()
        for kind, batch in batches:
            asked = len(rounds)
            for edit, path in batch:
                edit(path)
            last, wanted = monotonic(), len(batch)
            while sum(done.num_put + done.num_deleted for _, done in rounds[asked:]) < wanted:
                sleep(0.01)
            latencies[kind].append(rounds[-1][0] - last)
            sizes.append(memory().rss)
        seconds = _processor_seconds() - before
        stop.set()
        thread.join()
        began = monotonic()
        rest = following.round()
        look = monotonic() - began
    done = [each for _, each in rounds]
    return {"latency": {kind: spread(each) for kind, each in latencies.items()},
            "rounds": len(done), "encoded": sum(each.num_encoded for each in done),
            "kept": sum(each.num_reused for each in done), "processor": seconds,
            "memory": [sizes[0], max(sizes), sizes[-1]], "left": rest.num_put + rest.num_deleted,
            "look": look, "warnings": warnings}  # fmt: skip


def _processor_seconds() -> float:
    """Of this process, and of those that it has started and that have ended, such as for merges."""
    return sum(os.times()[:4])


def edits(folder: Path) -> Iterator[Batch]:
    """Each a kind, and a list of edits with their paths; always in the same random order."""
    drawn, paths = random.Random(0), sorted(folder.iterdir())
    drawn.shuffle(paths)
    kinds: dict[str, Edit] = {"changes": change, "renames": rename, "deletions": Path.unlink}
    todo = [(edit, paths.pop()) for name, edit in kinds.items() for _ in range(DAY[name])]
    drawn.shuffle(todo)
    alone = DAY["alone"]
    yield from (("alone", [edit]) for edit in todo[:alone])
    for at in range(alone, len(todo), DAY["burst"]):
        yield "burst", todo[at : at + DAY["burst"]]


def change(path: Path) -> None:
    """Put a sentence into the middle of a file, between two lines or words."""
    text = path.read_text("utf-8")
    at = text.find(" ", len(text) // 2) + 1
    path.write_text(f"{text[:at]}This was looked at again today. {text[at:]}", "utf-8")


def rename(path: Path) -> None:
    moved = path.parent / "moved" / path.name
    moved.parent.mkdir(exist_ok=True)
    path.rename(moved)
