"""How fast the service is: beside its searcher without HTTP, on two cores, beside a plain service.

    python benchmarks/service.py --data ../shared/data

Real processes over the documentation of Python's standard library, asked real queries. What is
compared takes turns in one run: A B, B A, A B. Needs two cores, git for the revision --before, and
the extra `dev`. Writes the section on speed of docs/results/service.md. Exit status 1 if a bound
was missed.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from pathlib import Path

from load import Load, one_by_one, saturate, search_request
from plain_corpus import write_corpus
from processes import ROOT, InProcess, Service, check_out, pin, serve, serve_plain
from queries import sample_queries
from service_page import PAGE, command_of
from service_speed import (
    AFTER,
    BEFORE,
    ONE_CORE,
    TWO_CORES,
    TWO_SERVICES,
    Rates,
    Results,
    Start,
    Trip,
    write_speed,
)

import models
from indexing.build import build_index
from indexing.standard_library import read_standard_library
from models import torch_weights
from retrieval.manifest import read_manifest

FIRST_REVISION = "a7c2dd4"
WARM_UP_SECONDS = 1.0
STARTS = 5


def main() -> None:
    parser = make_parser()
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        raise SystemExit("two cores are needed: one to serve, one to ask")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        index = arguments.index or folder / "index"
        if arguments.index is None:
            build_index(read_standard_library(), models.DEFAULT_ENCODER, index)
        bench = Bench(arguments, folder, index, cores)
        details = read_manifest(index, "index").details
        results = Results(
            command=command_of(parser, arguments),
            encoder=arguments.encoder.name,
            passages=details["num_passages"],
            factory=details["factory"],
            queries=len(bench.queries),
            connections=arguments.connections,
            trips=bench.measure_trips(),
            cores=bench.measure_cores(),
            plain=bench.measure_plain(),
            starts=bench.measure_start(),
        )
        pin(cores)
    sys.exit(not write_speed(results, arguments.out))


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of collections")
    parser.add_argument("--before", default=FIRST_REVISION, help="git revision to compare with")
    parser.add_argument(
        "--encoder", type=Path, default=models.DEFAULT_QUERY_ENCODER, help="for queries"
    )
    parser.add_argument("--index", type=Path, help="an index of that documentation made earlier")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.5, help="of one load")
    parser.add_argument("--connections", type=int, default=16, help="of one load")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page")
    return parser


class Bench:
    """One index, one set of queries, two cores: `cores[0]` serves, `cores[1]` asks."""

    def __init__(
        self, arguments: argparse.Namespace, folder: Path, index: Path, cores: list[int]
    ) -> None:
        self.queries = sample_queries(arguments.data / "web-queries", arguments.queries)
        self._requests = [search_request(query) for query in self.queries]
        self._queries_file = folder / "queries.json"
        self._queries_file.write_text(json.dumps(self.queries), "utf-8")
        self._arguments, self._folder, self._index = arguments, folder, index
        self._serving, self._asking = cores

    def measure_trips(self) -> dict[str, list[Trip]]:
        """The way of a request in both trees, round by round, on one core."""
        before = check_out(self._arguments.before, self._folder / "before")
        trips: dict[str, list[Trip]] = {BEFORE: [], AFTER: []}
        pin([self._asking])
        with ExitStack() as stack:
            trees = {}
            for name, tree in {BEFORE: before, AFTER: ROOT}.items():
                service = self._serve(stack, [self._serving], tree)
                searcher = InProcess(
                    tree, self._index, self._arguments.encoder, self._queries_file, [self._serving]
                )
                stack.callback(searcher.close)
                trees[name] = (service, searcher)

            def measure(name: str) -> None:
                service, searcher = trees[name]
                alone = one_by_one(service.address, self._requests)
                cpu_before = service.cpu_seconds
                load = self._saturate(service)
                cpu_seconds = service.cpu_seconds - cpu_before
                trips[name].append(Trip(searcher.run(), alone, load, cpu_seconds / load.answers))

            self._in_turns(trees, measure)
        return trips

    def measure_cores(self) -> Rates:
        """Answers a second of one core and of two, which the load shares with what serves."""
        one, two = [self._serving], [self._serving, self._asking]
        # The cores of each service of each side.
        sides = {ONE_CORE: [one], TWO_CORES: [two], TWO_SERVICES: [one, [self._asking]]}
        rates: Rates = {name: [] for name in sides}
        with ExitStack() as stack:
            services = {
                name: [self._serve(stack, cores) for cores in side] for name, side in sides.items()
            }

            def measure(name: str) -> None:
                pin({core for cores in sides[name] for core in cores})
                rates[name].append(self._saturate(*services[name]))

            self._in_turns(sides, measure)
        return rates

    def measure_plain(self) -> Rates:
        """Answers a second on one core, of this service and of the plain one."""
        corpus = self._folder / "corpus"
        write_corpus(self._index, corpus)
        pin([self._asking])
        rates: Rates = {"swiftlet": [], "plain": []}
        with ExitStack() as stack:
            services = {
                "swiftlet": self._serve(stack, [self._serving]),
                "plain": serve_plain(corpus, torch_weights(), [self._serving]),
            }
            stack.callback(services["plain"].close)
            self._saturate(services["plain"], seconds=WARM_UP_SECONDS)

            def measure(name: str) -> None:
                rates[name].append(self._saturate(services[name]))

            self._in_turns(rates, measure)
        return rates

    def measure_start(self) -> list[Start]:
        """How soon a service is ready on one core, and how much memory it then takes, and later."""
        starts = []
        pin([self._asking])
        for _ in range(STARTS):
            with ExitStack() as stack:
                service = self._serve(stack, [self._serving], warm=False)
                at_first = service.resident_mib(without=self._index)
                self._saturate(service)
                later = service.resident_mib(without=self._index)
                starts.append(Start(service.seconds_to_ready, at_first, later))
        return starts

    def _serve(
        self, stack: ExitStack, cores: Collection[int], tree: Path = ROOT, *, warm: bool = True
    ) -> Service:
        service = serve(tree, self._index, self._arguments.encoder, cores)
        stack.callback(service.close)
        if warm:
            self._saturate(service, seconds=WARM_UP_SECONDS)
        return service

    def _saturate(self, *services: Service, seconds: float | None = None) -> Load:
        return saturate(
            [service.address for service in services],
            self._requests,
            connections=self._arguments.connections,
            seconds=seconds or self._arguments.seconds,
        )

    def _in_turns(self, sides: Mapping[str, object], measure: Callable[[str], None]) -> None:
        for number in range(self._arguments.rounds):
            for name in sides if number % 2 == 0 else reversed(list(sides)):
                measure(name)


if __name__ == "__main__":
    main()
