"""A folder of a hundred thousand files: its first index, rounds, edits, and their memory.

    python -m experiments.folder.many_files --data DATA

DATA has the collections of many_files.toml in BEIR's layout. Their texts are cut into files. Takes
about five minutes of two cores.
"""

import json
import random
import shutil
from argparse import Namespace
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from textwrap import wrap
from threading import Event, Thread
from time import monotonic, process_time
from typing import cast

import psutil

from experiments.folder.edits import Batch, Edit, change, replayed
from measuring.experiment import Experiment, Found, settings_beside
from measuring.results import Figures, at_most, growth
from swiftlet.index.updates.directory_writer import IndexWriter
from swiftlet.progress import Silence
from swiftlet.sync.ahead import ReadAhead
from swiftlet.sync.folder import Folder
from swiftlet.sync.refine import build_first
from swiftlet.sync.rounds import FolderReader, FolderSync
from swiftlet.sync.seen import SeenFiles

SETTINGS = settings_beside(__file__)
PACKAGES = ["onnxruntime", "faiss-cpu", "watchfiles"]
EXPERIMENT = Experiment("many-files", __doc__, SETTINGS["collections"], PACKAGES)
_OF_A_FOLDER = 1_000


def texts(data: Path) -> Iterator[str]:
    """Parts of the texts of all collections, cut between words."""
    for name in SETTINGS["collections"]:
        with Path(data, name, "corpus.jsonl").open(encoding="utf-8") as lines:
            for line in lines:
                yield from wrap(json.loads(line)["text"], SETTINGS["characters"])


def figures_of(options: Namespace, _: str) -> Figures:
    """Index the folder, follow it, and edit it; in this process, but for reading and merges."""
    work = Path(options.work, "many")
    shutil.rmtree(work, ignore_errors=True)
    folder, index = work / "folder", work / "place" / "index"
    for number, text in enumerate(islice(texts(options.data), SETTINGS["files"])):
        path = folder / f"{number // _OF_A_FOLDER:03}" / f"{number:06}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    stages = dict[str, Figures]()
    with Stage(stages, "first"):
        found = build_first(index, folder, Silence(), ahead=ReadAhead(folder))
    reader = FolderReader(Folder(folder), SeenFiles(index, folder))
    with IndexWriter(index, None) as writer:
        with Stage(stages, "open"):
            following = FolderSync(reader, writer)
        with Stage(stages, "round"):
            following.round()
    return {"files": found.num_put, "passages": found.num_encoded, "stages": stages,
            "edits": replayed(reader, index, edits(folder))}  # fmt: skip


class Stage:
    """Measures a part of the work: its time, and the resident memory of this process."""

    def __init__(self, stages: dict[str, Figures], name: str) -> None:
        self._stages, self._name, self._ended = stages, name, Event()
        self._sizes, self._sampling = list[int](), Thread(target=self._sample, daemon=True)

    def __enter__(self) -> None:
        self._began = monotonic(), process_time()
        self._sampling.start()

    def __exit__(self, *_: object) -> None:
        seconds, processor = (
            now - then for now, then in zip((monotonic(), process_time()), self._began, strict=True)
        )
        self._ended.set()
        self._sampling.join()
        self._stages[self._name] = {"seconds": seconds, "processor": processor,
                                    "memory": [max(self._sizes), self._sizes[-1]]}  # fmt: skip

    def _sample(self) -> None:
        size, ends = psutil.Process().memory_info, False
        while not ends:
            ends = self._ended.wait(0.25)
            self._sizes.append(size().rss)


def edits(folder: Path) -> Iterator[Batch]:
    """Changes alone, then in bursts, always of the same random files."""
    drawn, paths, edit = random.Random(0), sorted(folder.glob("*/*.md")), cast("Edit", change)
    yield from (("alone", [(edit, drawn.choice(paths))]) for _ in range(SETTINGS["alone"]))
    for _ in range(SETTINGS["bursts"]):
        yield "burst", [(edit, path) for path in drawn.sample(paths, SETTINGS["burst"])]


def collected(_options: Namespace, found: Found) -> Figures:
    """The figures, and the goals, kept or missed."""
    (figures,) = found.values()
    latency, most, form = (
        figures["edits"]["latency"],
        SETTINGS["goals"]["latency"],
        "{:.1f} s".format,
    )
    bounds = [
        at_most(f"{kind}, {how}", latency[key][how], most, form)
        for key, kind in (("alone", "an edit alone"), ("burst", "a burst"))
        for how in ("median", "most")
    ]
    bounds += [growth("memory after the first edit, and at most", *figures["edits"]["memory"][:2])]
    return {**figures, "settings": SETTINGS, "bounds": bounds}


if __name__ == "__main__":
    EXPERIMENT.main(lambda _: [[("files",)]], figures_of, collected)
