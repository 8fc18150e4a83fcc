"""How the service behaves when things go wrong: too much load, stops, reloads, hours.

    python benchmarks/conduct.py --data ../shared/data all

Real processes over the documentation of Python's standard library, asked real queries: one core
serves and another one asks, or the two of them share both. Each part writes its own section of
docs/results/service.md. Exit status 1 if a bound was missed. Needs two cores, for the part
`prometheus` that program, and the extra `dev`.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from conduct_bench import Bench, Section
from conduct_memory import memory
from conduct_overload import overload
from conduct_prometheus import prometheus
from conduct_reload import reload
from conduct_start import start
from conduct_stop import stop
from processes import pin
from queries import sample_queries
from service_page import PAGE, write_section

import models
from evaluation.machine import describe_machine
from indexing.build import build_index
from indexing.standard_library import read_standard_library
from retrieval.index import FaissIndex
from retrieval.searcher import INDEX_FILE

ALL = "all"
PARTS: dict[str, tuple[Callable[[Bench, Any], Section], str]] = {
    "start": (start, "starts"),
    "overload": (overload, "seconds"),
    "stop": (stop, "stops"),
    "reload": (reload, "reloads"),
    "memory": (memory, "minutes"),
    "prometheus": (prometheus, "seconds"),
}
"""Each part, and the option that says how much of it."""


class Cores(NamedTuple):
    """How a page says how many cores serve."""

    heading: str
    threads: str


CORES = {
    1: Cores("", "one, on a core of its own"),
    2: Cores(" on two cores", "two, whose two cores the load shares"),
}
PACKAGES = ["onnxruntime", "faiss-cpu", "tokenizers", "uvicorn", "uvloop", "httptools"]


def main() -> None:
    arguments = parse_arguments()
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        raise SystemExit("two cores are needed: one to serve, one to ask")
    missed = False
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        index = arguments.index or folder / "index"
        if arguments.index is None:
            build_index(read_standard_library(), models.DEFAULT_ENCODER, index)
        queries = sample_queries(arguments.data / "web-queries", arguments.queries)
        serving, asking = (cores[:1], cores[1:]) if arguments.cores == 1 else (cores, cores)
        bench = Bench(folder, index, arguments.encoder, queries, serving, arguments.rate)
        for name in PARTS if arguments.part == ALL else [arguments.part]:
            part, option = PARTS[name]
            pin(asking)
            section = part(bench, getattr(arguments, option))
            pin(cores)
            made_by = describe(arguments, name, FaissIndex.load(index / INDEX_FILE).size)
            heading = section.heading + CORES[arguments.cores].heading
            write_section(arguments.out, heading, section.render(made_by))
            missed |= not section.kept
    sys.exit(missed)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=[*PARTS, ALL], nargs="?", default=ALL)
    parser.add_argument("--data", type=Path, required=True, help="folder of collections")
    parser.add_argument(
        "--encoder", type=Path, default=models.DEFAULT_QUERY_ENCODER, help="for queries"
    )
    parser.add_argument("--index", type=Path, help="an index of that documentation made earlier")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument(
        "--rate", type=float, help="searches a second it can do; measured where it is not given"
    )
    parser.add_argument("--cores", type=int, choices=CORES, default=1, help="that serve")
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--stops", type=int, default=20)
    parser.add_argument("--reloads", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60, help="of overload, and of Prometheus")
    parser.add_argument("--minutes", type=float, default=10, help="of the part memory")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page")
    return parser.parse_args()


def describe(arguments: argparse.Namespace, part: str, passages: int) -> str:
    """By which command a section was made, on what machine, over what."""
    _, option = PARTS[part]
    given = f"--{option} {getattr(arguments, option):g}"
    if arguments.cores > 1:
        given += f" --cores {arguments.cores}"
    if arguments.rate is not None:
        given += f" --rate {arguments.rate:g}"
    command = f"python benchmarks/conduct.py --data DATA {given} {part}"
    machine = describe_machine(PACKAGES, threads=CORES[arguments.cores].threads)
    return (
        f"Made by `{command}`. {machine} {passages:,} passages, query encoder "
        f"{arguments.encoder.name}, {arguments.queries} queries."
    )


if __name__ == "__main__":
    main()
