"""What FastAPI and each part of the service cost: all of it, beside services without the part.

    python -m benchmarks.service_ablation --queries ../shared/data/web-queries

Sides alternate in one run. Writes docs/results/service-ablation.json and its page. With --before,
the `swiftlet serve` of another checkout takes part, such as one of an earlier revision.
"""

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks.baselines import ablated
from benchmarks.service import PACKAGES, QUERY_SEED, WARM_UP_SECONDS, in_turns, over
from loadtests.figures import Figures
from loadtests.http_client import OK
from loadtests.loads import closed_loop
from loadtests.processes import SWIFTLET as SWIFTLET_PROGRAM
from loadtests.processes import Service, pinned, running
from loadtests.resilience.attacks import OVERLOAD, attack
from loadtests.resilience.stops import stops
from loadtests.resilience.testbed import Testbed
from loadtests.results import RESULTS, write
from loadtests.systems import demo_index, num_passages
from loadtests.traffic import read_queries
from swiftlet import encoders
from swiftlet.evaluation.machine import describe_machine

SWIFTLET, BEFORE = "this service", "the service before"
PLAIN = {
    "plain FastAPI, bytes": {"ANSWER": "bytes", "RUN": "loop"},
    "plain FastAPI, response models": {"ANSWER": "models", "RUN": "loop"},
    "plain FastAPI, its thread pool": {"ANSWER": "bytes", "RUN": "threads"},
}
PARTS = {
    SWIFTLET: "",
    "head and body of an answer written separately": ablated.SEPARATE_WRITES,
    "a thread pool instead of the event loop and threads beside it": ablated.THREAD_POOL,
    "no share of time for searching": ablated.NO_SHARE,
    "uvicorn's connections and stop": ablated.UVICORN,
}
CLIENTS = (1, 16)


def main() -> None:
    arguments = parse_arguments()
    cores = sorted(os.sched_getaffinity(0))[:2]
    index = arguments.index or demo_index(cores)
    queries = random.Random(QUERY_SEED).sample(read_queries(arguments.queries), 300)
    machine = describe_machine(PACKAGES, threads="one a core")
    with tempfile.TemporaryDirectory() as folder:
        testbed = Testbed(
            Path(folder), index, encoders.DEFAULT_QUERY_ENCODER, queries, cores[:1], cores[1:]
        )
        figures = {
            "template": "benchmarks/service_ablation.md.j2",
            "machine": machine,
            "passages": num_passages(index),
            "before": bool(arguments.before),
            "cpu_ms": measure_cpu(testbed, arguments),
            "parts": {name: measure_part(testbed, part, arguments) for name, part in PARTS.items()},
        }
    print(write(arguments.raw, figures))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=Path, required=True, help="file or BEIR folder")
    parser.add_argument("--index", type=Path, help="an index; default: the demo's")
    parser.add_argument("--before", type=Path, help="a checkout of another revision")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=2.0, help="of one load")
    parser.add_argument("--stops", type=int, default=20)
    parser.add_argument("--raw", type=Path, default=RESULTS / "service-ablation.json")
    return parser.parse_args()


def measure_cpu(testbed: Testbed, arguments: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds of processor time for an answer, by number of clients and side."""
    command = "-m uvicorn benchmarks.baselines.searcher_app:app --no-access-log --loop uvloop"
    command = f"{sys.executable} {command} --http httptools --log-level warning --port {{port}}"
    with ExitStack() as stack:
        services = {SWIFTLET: stack.enter_context(testbed.serve())}
        if arguments.before:
            program = ["env", "-C", str(arguments.before.resolve()), *SWIFTLET_PROGRAM]
            earlier = replace(testbed, program=program)
            services[BEFORE] = stack.enter_context(earlier.serve())
        for name, settings in PLAIN.items():
            variables = {"INDEX": str(testbed.index), **settings}
            services[name] = stack.enter_context(
                running(command, cores=testbed.service_cores, settings=variables)
            )
        return {
            str(clients): _alternate(testbed, services, clients, arguments) for clients in CLIENTS
        }


def _alternate(
    testbed: Testbed,
    services: Mapping[str, Service],
    clients: int,
    arguments: argparse.Namespace,
) -> dict[str, Any]:
    found: dict[str, list[float]] = {name: [] for name in services}

    def side(name: str, seconds: float) -> Callable[[], None]:
        def measure() -> None:
            service = services[name]
            before = service.cpu_seconds
            with pinned(testbed.generator_cores):
                load = closed_loop(
                    service.address, cycle(testbed.requests), clients=clients, seconds=seconds
                )
            answered = sum(each.status == OK for each in load.exchanges)
            found[name].append(1000 * (service.cpu_seconds - before) / answered)

        return measure

    for name in services:
        side(name, WARM_UP_SECONDS)()
        found[name].clear()
    in_turns([side(name, arguments.seconds) for name in services], arguments.rounds)
    return over(found, BEFORE if BEFORE in services else SWIFTLET)


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
            each.capacity(service, each.requests)  # warms up
            load = closed_loop(
                service.address, cycle(each.requests), clients=16, seconds=2 * arguments.seconds
            )
            rates[name] = Figures(load).answered_rate
    with pinned(testbed.generator_cores):
        return {
            "rates": rates,
            "overload": attack(testbed, *OVERLOAD, seconds=2 * arguments.seconds),
            "lost": stops(testbed, arguments.stops)["lost"],
        }


if __name__ == "__main__":
    main()
