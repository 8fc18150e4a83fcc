"""A folder that searches itself: the time to the first answer, and a day of edits.

    python -m experiments.folder --data DATA

DATA has the collections of folder.toml and edits.toml in BEIR's layout; each document becomes a
file. `swiftlet up` is timed from its start to its first answer, and to its final index. Takes an
hour of two cores.
"""

import os
import shlex
import shutil
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from time import monotonic, sleep

from experiments.edits import DAY, of_day
from experiments.indexes import METRIC, collections, values_of, written
from measuring.experiment import Experiment, Found, settings_beside
from measuring.processes import Service, running
from measuring.results import Figures, at_most, bound, growth
from swiftlet.search.opening import open_searcher
from swiftlet.sync.refine import is_first

SETTINGS = settings_beside(__file__)
FIRST = SETTINGS["first"]
NAMES = sorted({*FIRST["collections"], *DAY["collections"]})
EXPERIMENT = Experiment("folder", __doc__, NAMES, ["onnxruntime", "faiss-cpu", "watchfiles"])


def figures_of(options: Namespace, kind: str, name: str) -> Figures:
    """The figures of a collection's first answer, or of a day of edits."""
    work = Path(options.work, f"{kind} {name}")
    shutil.rmtree(work, ignore_errors=True)
    return of_first(options, name, work) if kind == "first" else of_day(options, work)


def of_first(options: Namespace, name: str, work: Path) -> Figures:
    """Times of `swiftlet up`, and the quality of its first index and of its final one."""
    found = collections(options.data)[name]()
    names = written(found, work / "folder", sys.maxsize)
    files = {document_id: name for name, document_id in names.items()}
    qrels = {query: {files[each]: grade for each, grade in grades.items() if each in files}
             for query, grades in found.qrels.items()}  # fmt: skip
    found = replace(found, qrels=qrels)
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
    runs = [("day", "edits")] + [("first", name) for name in FIRST["collections"]]
    EXPERIMENT.main(lambda _: [runs], figures_of, collected)
