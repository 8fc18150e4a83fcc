"""Starts, loads, attacks, stops, reloads, memory and changing documents of a service.

    python -m loadtests.resilience overload|neighbours|attacks|stops|reloads|churn|…|all

Real processes serve the demo's index and get real queries. The service has one core and the
generator another one, or both share two. Each run writes its section of docs/results/service.md and
the raw figures beside it. Exit status 1 if a bound was missed. Needs two cores.
"""

import os
import resource
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from loadtests.arguments import DEMO_QUERIES
from loadtests.resilience.attacks import attacks
from loadtests.resilience.churn import churn
from loadtests.resilience.memory import memory, starts
from loadtests.resilience.neighbours import neighbours
from loadtests.resilience.overload import overload
from loadtests.resilience.reloads import reloads
from loadtests.resilience.stops import stops
from measuring.command_line import Parser, Stopped, number, refuse, stop_on_signals
from measuring.machine import describe_machine
from measuring.processes import pinned
from measuring.results import write_section
from measuring.testbed import PAGE, TITLE, Testbed, demo_index, num_passages
from measuring.traffic import sample_of
from swiftlet.encoders import DEFAULT_QUERY_ENCODER
from swiftlet.errors import RetrievalError

RUNS: dict[str, tuple[str, Callable[[Testbed, Any], dict[str, Any]], str, Any, float]] = {
    "starts": ("Start", starts, "starts", number(1, 1000, int), 20),
    "overload": ("Overload", overload, "seconds", number(1, 3600), 60.0),
    "neighbours": (
        "A busy index beside a quiet one", neighbours, "round_seconds", number(0.1, 600), 20.0,
    ),
    "attacks": ("Attacks", attacks, "attack_seconds", number(1, 600), 10.0),
    "stops": ("Stopping under load", stops, "stops", number(1, 1000, int), 20),
    "reloads": ("Reloading under load", reloads, "reloads", number(2, 10_000, int), 100),
    "memory": ("Memory", memory, "minutes", number(0.05, 1440), 10.0),
    "churn": ("Documents that change", churn, "churn_minutes", number(0.05, 1440), 10.0),
}  # fmt: skip
"""Each run: its heading, its function, and the option with its length or number."""

ALL = "all"
TEMPLATES = "loadtests/resilience/templates"
PACKAGES = ["onnxruntime", "faiss-cpu", "tokenizers", "uvicorn", "uvloop", "httptools"]
HEADINGS = {1: "", 2: " on two cores"}
THREADS = {1: "one, on a core of its own", 2: "two, which share both cores with the generator"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and write the sections; 1 if a bound was missed."""
    parser = _parser()
    options = parser.parse_args(arguments)
    stop_on_signals()
    # Services and generators inherit it; overload takes thousands of connections.
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    if len(os.sched_getaffinity(0)) < 2:
        refuse("1 core is available; 2 are expected, for service and generator")
    try:
        cores = sorted(os.sched_getaffinity(0))[:2]
        service, generator = (cores[:1], cores[1:]) if options.cores == 1 else (cores, cores)
        index = options.index or demo_index(cores)
        sample = sample_of(options.queries, options.num_queries)
        # Before this process is pinned to the generator's cores.
        machine = describe_machine(PACKAGES, threads=THREADS[options.cores])
        tested = f"{machine} {num_passages(index):,} passages, query encoder {options.encoder.name}"
        missed = False
        for name in RUNS if options.run == ALL else [options.run]:
            heading, run, option, *_ = RUNS[name]
            with pinned(generator), tempfile.TemporaryDirectory() as folder:
                testbed = Testbed(
                    Path(folder), index, options.encoder, sample, service, generator,
                    options.rate, options.times,
                )  # fmt: skip
                found = run(testbed, getattr(options, option))
            given = f"{name} --{option.replace('_', '-')} {getattr(options, option):g}"
            for other in ("times", "cores", "rate"):
                if getattr(options, other) != parser.get_default(other):
                    given += f" --{other} {getattr(options, other):g}"
            made_by = f"Made by `python -m loadtests.resilience {given}`. {tested}, "
            figures = {
                "template": f"{TEMPLATES}/{name}.md.j2",
                "made_by": f"{made_by}{len(sample)} queries.",
                **found,
            }
            page = write_section(options.raw, TITLE, heading + HEADINGS[options.cores], figures)
            missed |= not all(bound["kept"] for bound in found["bounds"])
    except RetrievalError as error:
        refuse(error)
    except Stopped as stop:
        refuse(f"ended by {stop.signal.name}", 128 + stop.signal)
    print(page)
    return int(missed)


def _parser() -> Parser:
    parser = Parser(prog="loadtests.resilience", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("run", choices=[*RUNS, ALL])
    add("--queries", type=Path, default=DEMO_QUERIES, help="file of queries, or BEIR folder")
    add("--num-queries", type=number(1, 1e6, int), default=300, help="a sample of them")
    add("--index", type=Path, help="an index; default: the demo's")
    add("--encoder", type=Path, default=DEFAULT_QUERY_ENCODER, help="query encoder for it")
    add("--rate", type=number(0.1, 1e6), help="searches a second that it can answer, if known")
    add("--cores", type=int, choices=HEADINGS, default=1, help="of the service")
    for name, (*_, option, kind, default) in RUNS.items():
        add(f"--{option.replace('_', '-')}", type=kind, default=default, help=f"of the run {name}")
    add("--times", type=number(1, 100), default=4.0, help="of overload: offered over answerable")
    add("--raw", type=Path, default=PAGE, help="raw figures of the page, which is beside them")
    return parser


if __name__ == "__main__":
    sys.exit(main())
