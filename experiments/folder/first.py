"""The time to the first answer of `swiftlet up`, and the quality of what it finds."""

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
from time import monotonic, process_time, sleep

import swiftlet
from experiments.indexes import collections, values_of, written
from export.quality import Collection
from measuring.experiment import settings_beside
from measuring.processes import Service, running
from measuring.results import Figures
from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.sync.refine import is_first

SETTINGS = settings_beside(__file__)


def as_files(options: Namespace, name: str, folder: Path) -> Collection:
    """Write a collection as files; the names of the files are the ids of its judgements."""
    found = collections(options.data)[name]()
    names = written(found, folder, sys.maxsize)
    files = {document_id: name for name, document_id in names.items()}
    qrels = {query: {files[each]: grade for each, grade in grades.items() if each in files}
             for query, grades in found.qrels.items()}  # fmt: skip
    return replace(found, qrels=qrels)


def of_first(options: Namespace, name: str, work: Path) -> Figures:
    """Times of `swiftlet up`, and the quality of its first index and of its final one."""
    found = as_files(options, name, work / "folder")
    with up(work) as (index, first):
        processor = first.cpu_seconds
        shutil.copytree(index, work / "first")
        began = monotonic()
        while is_first(index):
            sleep(0.5)
        final = first.seconds_to_ready + monotonic() - began
    with up(work) as (index, again):
        by_weight = {f"{each}": fmean(values_of(work / "first", None, found, weight=each).values())
                     for each in SETTINGS["weights"]}  # fmt: skip
        quality = {place.name: fmean(values_of(place, None, found).values())
                   for place in (work / "first", index)}  # fmt: skip
        with swiftlet.open(index) as searcher:
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


def of_query(options: Namespace, name: str, work: Path) -> Figures:
    """Of the first index by query encoder: processor seconds of a query in one process, quality."""
    found = as_files(options, name, work / "folder")
    place, texts = Path(options.work, f"first {name}", "first"), [q.text for q in found.queries]
    figures = {}
    for encoder, named in (("default", None), ("look-up", LOOKUP_QUERY_ENCODER)):
        with swiftlet.open(place, encoder=named) as searcher:
            searcher.search("first", 10)
            timed = texts[: SETTINGS["timed"]]
            before = process_time()
            for text in timed:
                searcher.search(text, 10)
            seconds = (process_time() - before) / len(timed)
        quality = fmean(values_of(place, named, found).values())
        figures[encoder] = {"seconds": seconds, "quality": quality}
    return figures
