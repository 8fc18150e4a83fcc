"""A folder that searches itself: the time to the first answer, and a day of edits.

    python -m experiments.folder --data DATA

DATA has the collections of folder.toml in BEIR's layout; each document becomes a file.
`swiftlet up` is timed from its start to its first answer, and to its final index. Takes an hour of
two cores.
"""

import os
import random
import shlex
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from threading import Event, Thread
from time import monotonic, process_time, sleep

import psutil

from experiments.indexes import METRIC, collections, values_of
from export.quality import Collection
from measuring.experiment import Experiment, Found, settings_beside
from measuring.processes import Service, running
from measuring.results import Figures, at_most, bound, growth, spread
from swiftlet.index.building.build import build
from swiftlet.index.updates.directory_writer import IndexWriter
from swiftlet.search.opening import open_searcher
from swiftlet.sync.folder import Folder
from swiftlet.sync.refine import is_first
from swiftlet.sync.rounds import FolderReader, FolderSync, Round
from swiftlet.sync.seen import SeenFiles
from swiftlet.sync.watch import watch

SETTINGS = settings_beside(__file__)
FIRST, DAY = SETTINGS["first"], SETTINGS["day"]
NAMES = sorted({*FIRST["collections"], *DAY["collections"]})
EXPERIMENT = Experiment("folder", __doc__, NAMES, ["onnxruntime", "faiss-cpu", "watchfiles"])

Edit = Callable[[Path], object]


def figures_of(options: Namespace, kind: str, name: str) -> Figures:
    work = Path(options.work, f"{kind} {name}")
    shutil.rmtree(work, ignore_errors=True)
    return dict(globals()[f"of_{kind}"](options, name, work))


def written(found: Collection, folder: Path, most: int) -> dict[str, str]:
    """Write documents as files; the id of each document by the name of its file."""
    folder.mkdir(parents=True, exist_ok=True)
    names = {}
    for number, document in enumerate([*found.documents][:most], sum(1 for _ in folder.iterdir())):
        heading = f"# {document.title}\n\n" if document.title else ""
        Path(folder, f"{number:05}.md").write_text(heading + document.text, "utf-8")
        names[f"{number:05}.md"] = document.document_id
    return names


def of_first(options: Namespace, name: str, work: Path) -> Figures:
    """Times of `swiftlet up`, and the quality of its first index and of its final one."""
    found = collections(options.data)[name]()
    names = written(found, work / "folder", sys.maxsize)
    files = {document_id: name for name, document_id in names.items()}
    qrels = {query: {files[each]: grade for each, grade in grades.items() if each in files}
             for query, grades in found.qrels.items()}  # fmt: skip
    found = Collection("", "", found.documents, found.queries, qrels)
    with up(work) as (index, first):
        processor = first.cpu_seconds
        shutil.copytree(index, work / "first")
        began = monotonic()
        while is_first(index):
            sleep(0.5)
        final = first.seconds_to_ready + monotonic() - began
    with up(work) as (index, again):
        by_weight = {f"{each}": fmean(values_of(work / "first", None, found, weight=each).values())
                     for each in FIRST["weights"]}  # fmt: skip
        quality = {place.name: fmean(values_of(place, None, found).values())
                   for place in (work / "first", index)}  # fmt: skip
        with open_searcher(index) as searcher:
            sizes = {"documents": searcher.num_documents, "passages": searcher.num_passages}
    return {
        **sizes, "answered": first.seconds_to_ready, "processor": processor, "final": final,
        "again": again.seconds_to_ready, "quality": quality, "by_weight": by_weight,
    }  # fmt: skip


@contextmanager
def up(work: Path) -> Iterator[tuple[Path, Service]]:
    """The index of a folder that is up, and what serves it since its first answer."""
    command = shlex.join([sys.executable, "-m", "swiftlet", "up", f"{work / 'folder'}"])
    cores = os.sched_getaffinity(0)
    settings = {"XDG_CACHE_HOME": f"{work / 'cache'}", "OMP_NUM_THREADS": f"{len(cores)}"}
    with running(
        command + " --port {port}", ready_path="/search?q=first", cores=cores, settings=settings
    ) as service:
        (index,) = work.glob("cache/swiftlet/folders/*/index")
        yield index, service


def of_day(options: Namespace, _name: str, work: Path) -> Figures:
    """Replay edits while a watch follows them."""
    folder, index = work / "folder", work / "index"
    for name in DAY["collections"]:
        have = sum(1 for _ in folder.iterdir()) if folder.exists() else 0
        written(collections(options.data)[name](), folder, DAY["files"] - have)
    reader = FolderReader(Folder(folder), SeenFiles(index, folder))
    build(reader.documents(Round()), index)
    rounds, stop, warnings = list[tuple[float, Round]](), Event(), list[str]()
    memory = psutil.Process().memory_info
    with IndexWriter(index, None) as writer:
        following = FolderSync(reader, writer)
        arguments = (following, lambda done: rounds.append((monotonic(), done)), warnings.append)
        thread = Thread(target=watch, args=(*arguments, stop))
        thread.start()
        while not rounds:
            sleep(0.1)
        began, latencies = process_time(), {"alone": list[float](), "burst": list[float]()}
        sizes = []
        for kind, batch in edits(folder):
            asked = len(rounds)
            for edit, path in batch:
                edit(path)
            last, wanted = monotonic(), len(batch)
            while sum(done.num_put + done.num_deleted for _, done in rounds[asked:]) < wanted:
                sleep(0.01)
            latencies[kind].append(rounds[-1][0] - last)
            sizes.append(memory().rss)
        seconds = process_time() - began
        stop.set()
        thread.join()
        rest = following.round()
    done = [each for _, each in rounds]
    return {"latency": {kind: spread(each) for kind, each in latencies.items()},
            "rounds": len(done), "encoded": sum(each.num_encoded for each in done),
            "kept": sum(each.num_reused for each in done), "processor": seconds,
            "memory": [sizes[0], max(sizes), sizes[-1]], "left": rest.num_put + rest.num_deleted,
            "warnings": warnings}  # fmt: skip


def edits(folder: Path) -> Iterator[tuple[str, list[tuple[Edit, Path]]]]:
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


def collected(_options: Namespace, found: Found) -> Figures:
    (day,) = (figures for (kind, _), figures in found.items() if kind == "day")
    first = {name: figures for (kind, name), figures in found.items() if kind == "first"}
    return {"metric": METRIC, "first": first, "day": day, "settings": DAY,
            "bounds": bounds(first, day)}  # fmt: skip


def bounds(first: Figures, day: Figures) -> list[Figures]:
    """The goals, kept or missed; the first answer has one for folders of `passages` at most."""
    goals, form = SETTINGS["goals"], "{:.1f} s".format
    kept = min(each["quality"]["first"] / each["quality"]["index"] for each in first.values())
    latency = day["latency"]
    return [
        *(
            at_most(f"first answer, {name}, {each['passages']:,} passages",
                    each["answered"], goals["answered"], form)
            for name, each in first.items() if each["passages"] <= goals["passages"]
        ),
        bound("least share of the final quality that the first index has", f"{kept:.1%}",
              f"at least {goals['kept']:.0%}", kept=kept >= goals["kept"]),
        *(
            at_most(f"{kind}, {how}", latency[key][how], goals["latency"], form)
            for key, kind in (("alone", "an edit alone"), ("burst", "a burst"))
            for how in ("median", "most")
        ),
        growth("memory after the first edit, and at most", *day["memory"][:2]),
    ]  # fmt: skip


if __name__ == "__main__":
    runs = [("first", name) for name in FIRST["collections"]] + [("day", "edits")]
    EXPERIMENT.main(lambda _: [runs], figures_of, collected)
