"""What FastAPI and each part of the service cost: all of it, beside services without the part.

    python -m benchmarks.service_ablation --queries ../shared/data/web-queries

Sides alternate in one run. Writes docs/results/service-ablation.json and its page. With --before,
the `swiftlet serve` of another checkout takes part, such as one of an earlier revision.
"""

import argparse
import os
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks.service import PACKAGES, WARM_UP_SECONDS, over, two_cores
from loadtests.command_line import script_options
from loadtests.figures import Figures
from loadtests.http_client import OK
from loadtests.loads import closed_loop
from loadtests.processes import SWIFTLET as SWIFTLET_PROGRAM
from loadtests.processes import pinned, running
from loadtests.resilience.attacks import OVERLOAD, attack
from loadtests.resilience.stops import stops
from loadtests.resilience.testbed import Testbed
from loadtests.results import RESULTS, alternating, write
from loadtests.systems import demo_index, num_passages
from loadtests.traffic import sample_of
from swiftlet.evaluation.machine import describe_machine

SWIFTLET, BEFORE = "this service", "the service before"
PLAIN = {
    "plain FastAPI, bytes": {"ANSWER": "bytes", "RUN": "loop"},
    "plain FastAPI, response models": {"ANSWER": "models", "RUN": "loop"},
    "plain FastAPI, its thread pool": {"ANSWER": "bytes", "RUN": "threads"},
}
PARTS = {
    SWIFTLET: "",
    "head and body of an answer written separately": "write_separately",
    "a thread pool instead of the event loop and threads beside it": "use_thread_pool",
    "no share of time for searching": "share_no_time",
    "one handle of the listening socket instead of 16": "listen_once",
    "garbage collections over all objects": "collect_all_objects",
    "uvicorn's connections and stop": "use_uvicorn",
}
CLIENTS = (1, 16)


def main() -> None:
    arguments = script_options(
        __doc__, queries=Path, index=None, before=None, rounds=6, seconds=2.0, stops=20,
        raw=RESULTS / "service-ablation.json",
    )  # fmt: skip
    index = (arguments.index or demo_index(sorted(os.sched_getaffinity(0)))).resolve()
    machine = describe_machine(PACKAGES, threads="one a core")
    with tempfile.TemporaryDirectory() as folder:
        testbed = two_cores(Path(folder), index, sample_of(arguments.queries, 300))
        figures = {
            "template": "benchmarks/service_ablation.md.j2",
            "machine": machine,
            "passages": num_passages(index),
            "before": bool(arguments.before),
            "cpu_ms": measure_cpu(testbed, arguments),
            "parts": {name: measure_part(testbed, part, arguments) for name, part in PARTS.items()},
        }
    print(write(arguments.raw, figures))


def measure_cpu(testbed: Testbed, arguments: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds of processor time for an answer, by number of clients and side."""
    command = "-m uvicorn benchmarks.baselines.searcher_app:app --no-access-log --loop uvloop"
    command = f"{sys.executable} {command} --http httptools --log-level warning --port {{port}}"
    with ExitStack() as stack:
        services = {SWIFTLET: stack.enter_context(testbed.serve())}
        if arguments.before:
            program = ["env", "-C", str(arguments.before.resolve()), *SWIFTLET_PROGRAM]
            services[BEFORE] = stack.enter_context(replace(testbed, program=program).serve())
        for name, settings in PLAIN.items():
            variables = {"INDEX": str(testbed.index), **settings}
            service = running(command, cores=testbed.service_cores, settings=variables)
            services[name] = stack.enter_context(service)

        def cpu_ms(name: str, clients: int, seconds: float) -> float:
            before, requests = services[name].cpu_seconds, cycle(testbed.requests)
            with pinned(testbed.generator_cores):
                load = closed_loop(
                    services[name].address, requests, clients=clients, seconds=seconds
                )
            answered = sum(each.status == OK for each in load.exchanges)
            return 1000 * (services[name].cpu_seconds - before) / answered

        figures = {}
        for clients in CLIENTS:
            found = defaultdict(list)
            for name in services:
                cpu_ms(name, clients, WARM_UP_SECONDS)
            for name in alternating(services, arguments.rounds):
                found[name].append(cpu_ms(name, clients, arguments.seconds))
            figures[str(clients)] = over(found, BEFORE if arguments.before else SWIFTLET)
        return figures


def measure_part(testbed: Testbed, part: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Full load on one core and on two, overload, and stops, of the service without a part."""
    if part:
        program = [sys.executable, "-m", "benchmarks.baselines.ablated", part]
        testbed = replace(testbed, program=program)
    both = [*testbed.service_cores, *testbed.generator_cores]
    two = replace(testbed, service_cores=both, generator_cores=both)
    rates = {}
    for name, each in (("one core", testbed), ("two cores", two)):
        with each.serve() as service, pinned(each.generator_cores):
            each.saturate(service, seconds=2 * WARM_UP_SECONDS)
            load = each.saturate(service, seconds=2 * arguments.seconds)
            rates[name] = Figures(load).answered_rate
    with pinned(testbed.generator_cores):
        return {
            "rates": rates,
            "overload": attack(testbed, *OVERLOAD, seconds=2 * arguments.seconds),
            "lost": stops(testbed, arguments.stops)["lost"],
        }


if __name__ == "__main__":
    main()
