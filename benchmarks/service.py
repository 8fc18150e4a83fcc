"""The speed of the service, compared with its searcher without HTTP and with plain services.

    python -m benchmarks.service --queries ../shared/data/web-queries

Real processes serve the documentation of Python's standard library and get real queries. The sides
of each comparison alternate in one run: A B, B A, A B. Needs two cores and the extra `dev`. Writes
the section on speed of docs/results/service.json and its page. Exit status 1 if a target is missed.
"""

import argparse
import os
import random
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from statistics import median

# Searches in this process use one thread, as the service does.
os.environ["OMP_NUM_THREADS"] = "1"

from benchmarks.baselines.plain_corpus import write_corpus
from benchmarks.peers import INT8_FILE, QUERY_LAYERS, export_int8_peer
from loadtests.figures import TOTAL, Figures
from loadtests.http_client import Exchange, search, stage_times
from loadtests.loads import Load, closed_loop
from loadtests.processes import Service, pinned, running
from loadtests.resilience.__main__ import PAGE, TITLE
from loadtests.resilience.testbed import Testbed, one_by_one
from loadtests.results import spread, write_section
from loadtests.systems import demo_index
from loadtests.traffic import read_queries
from swiftlet import encoders
from swiftlet.evaluation.machine import describe_machine
from swiftlet.retrieval.manifest import read_manifest
from swiftlet.retrieval.searcher import Searcher

WARM_UP_SECONDS = 1.0
QUERY_SEED = 5
ONE_CORE, TWO_CORES = "one core", "two cores"
TWO_SERVICES = "two services of one core each"
SWIFTLET, PLAIN = "swiftlet", "plain, torch fp32, 6 layers"
PLAIN_INT8 = "plain, ONNX int8, {} layers"
PACKAGES = [
    "onnxruntime", "faiss-cpu", "tokenizers", "uvicorn", "uvloop", "httptools", "fastapi",
    "sentence-transformers", "torch", "optimum-onnx",
]  # fmt: skip

Rates = dict[str, list[float]]


def main() -> None:
    arguments = parse_arguments()
    index = arguments.index or demo_index(sorted(os.sched_getaffinity(0)))
    queries = read_queries(arguments.queries)
    sample = random.Random(QUERY_SEED).sample(queries, min(arguments.num_queries, len(queries)))
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(
            index, sample, folder=Path(folder), rounds=arguments.rounds,
            seconds=arguments.seconds, clients=arguments.clients,
        )  # fmt: skip
        details = read_manifest(index, "index").details
        figures = {
            "template": "benchmarks/service.md.j2",
            "machine": describe_machine(PACKAGES, threads="one a core"),
            "encoder": encoders.DEFAULT_QUERY_ENCODER.name,
            "passages": details["num_passages"],
            "factory": details["factory"],
            "queries": len(sample),
            "clients": arguments.clients,
            "http": bench.measure_http(),
            **bench.measure_cores(),
            "plain": over(bench.measure_plain(), PLAIN),
        }
    figures["targets"] = targets(figures)
    print(write_section(arguments.raw, TITLE, "Speed", figures))
    sys.exit(not all(target["kept"] for target in figures["targets"]))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=Path, required=True, help="file or BEIR folder")
    parser.add_argument("--num-queries", type=int, default=300, help="a sample of them")
    parser.add_argument("--index", type=Path, help="an index; default: the demo's")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.5, help="of one load")
    parser.add_argument("--clients", type=int, default=16, help="of one load")
    parser.add_argument("--raw", type=Path, default=PAGE, help="raw figures of the page")
    return parser.parse_args()


class Bench:
    """One index and its queries on two cores, the first for the service, the second for clients."""

    def __init__(
        self,
        index: Path,
        queries: Sequence[str],
        *,
        folder: Path,
        rounds: int,
        seconds: float = 1.5,
        clients: int = 16,
    ) -> None:
        self._folder, self._index = folder, index
        self._queries, self._requests = queries, list(map(search, queries))
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            raise SystemExit("1 core is available; 2 are expected, for service and generator")
        self._serving, self._asking = cores[:2]
        self._rounds, self._seconds, self.clients = rounds, seconds, clients

    def measure_http(self) -> dict[str, object]:
        """Searches in this process, requests of one client and of many, alternating on one core."""
        found: dict[str, list[float]] = {}
        stages: list[dict[str, float]] = []

        def add(name: str, value: float) -> None:
            found.setdefault(name, []).append(value)

        with ExitStack() as stack:
            searcher = Searcher.open(self._index, encoders.DEFAULT_QUERY_ENCODER)
            stack.callback(searcher.close)
            service = self._serve(stack, [self._serving])

            def in_process() -> None:
                with pinned([self._serving]):
                    seconds = [timed(searcher.search, query) for query in self._queries]
                add("in_process_ms", 1000 * median(seconds))
                add("in_process_rate", len(seconds) / sum(seconds))

            def over_http() -> None:
                with pinned([self._asking]):
                    alone = one_by_one(service.address, self._requests)
                    cpu_before = service.cpu_seconds
                    load = self._saturate(service)
                cpu_seconds = service.cpu_seconds - cpu_before
                add("http_ms", Figures(alone).latency(50.0))
                add("http_rate", Figures(load).answered_rate)
                add("cpu_ms", 1000 * cpu_seconds / len(load.exchanges))
                stages.extend(map(stage_microseconds, alone.exchanges))

            in_turns([in_process, over_http], self._rounds)
        pairs = {
            "latency": zip(found["http_ms"], found["in_process_ms"], strict=True),
            "rate": zip(found["http_rate"], found["in_process_rate"], strict=True),
        }
        return {
            **{name: spread(values) for name, values in found.items()},
            **{f"{name}_ratio": spread([a / b for a, b in both]) for name, both in pairs.items()},
            "stages_us": {name: median(each[name] for each in stages) for name in stages[0]},
        }

    def measure_cores(self) -> dict[str, object]:
        """Answers a second of one core and of two; the generator shares the service's cores."""
        one, two = [self._serving], [self._serving, self._asking]
        systems = {ONE_CORE: [one], TWO_CORES: [two], TWO_SERVICES: [one, [self._asking]]}
        generator = []
        with ExitStack() as stack:
            services = {
                name: [self._serve(stack, cores) for cores in each]
                for name, each in systems.items()
            }

            def measure(name: str) -> float:
                with pinned({core for cores in systems[name] for core in cores}):
                    load = self._saturate(*services[name])
                generator.append(1e6 * load.cpu_seconds / len(load.exchanges))
                return Figures(load).answered_rate

            rates = self._rates(systems, measure)
        return {"cores": over(rates, ONE_CORE), "generator_us": median(generator)}

    def measure_plain(self) -> Rates:
        """Answers a second on one core, of this service and of the plain ones."""
        corpus = self._folder / "corpus"
        write_corpus(self._index, corpus)
        plain = {PLAIN: {"MODEL": str(encoders.torch_weights())}}
        for layers in ((), QUERY_LAYERS):
            model = export_int8_peer(self._folder / f"peer-{len(layers)}", layers)
            name = PLAIN_INT8.format(len(layers) or 6)
            plain[name] = {"MODEL": str(model), "ONNX_FILE": INT8_FILE}
        command = shlex.join(
            [sys.executable, "-m", "uvicorn", "benchmarks.baselines.plain:app", "--no-access-log",
             "--log-level", "warning"]
        )  # fmt: skip
        with ExitStack() as stack:
            services = {SWIFTLET: self._serve(stack, [self._serving])}
            for name, settings in plain.items():
                services[name] = stack.enter_context(
                    running(
                        f"{command} --port {{port}}", ready_path="/health", cores=[self._serving],
                        settings={"CORPUS": str(corpus), **settings},
                    )
                )  # fmt: skip
                self._saturate(services[name], seconds=WARM_UP_SECONDS)

            def measure(name: str) -> float:
                with pinned([self._asking]):
                    return Figures(self._saturate(services[name])).answered_rate

            return self._rates(services, measure)

    def _serve(self, stack: ExitStack, cores: Sequence[int]) -> Service:
        testbed = Testbed(self._folder, self._index, None, self._queries, cores, [self._asking])
        service = stack.enter_context(testbed.serve())
        self._saturate(service, seconds=WARM_UP_SECONDS)
        return service

    def _saturate(self, *services: Service, seconds: float | None = None) -> Load:
        addresses = [service.address for service in services]
        return closed_loop(
            addresses, cycle(self._requests), clients=self.clients, seconds=seconds or self._seconds
        )

    def _rates(self, names: Iterable[str], measure: Callable[[str], float]) -> Rates:
        rates: Rates = {name: [] for name in names}

        def side(name: str) -> Callable[[], None]:
            return lambda: rates[name].append(measure(name))

        in_turns([side(name) for name in rates], self._rounds)
        return rates


def in_turns(sides: Sequence[Callable[[], None]], rounds: int) -> None:
    """Call all sides several times, in one order and then in the reverse order."""
    for number in range(rounds):
        for side in sides if number % 2 == 0 else reversed(sides):
            side()


def timed(function: Callable[[str], object], argument: str) -> float:
    """The duration of one call in seconds."""
    began = time.perf_counter()
    function(argument)
    return time.perf_counter() - began


def stage_microseconds(exchange: Exchange) -> dict[str, float]:
    """The stages of one request, the rest of the service, and the time outside it."""
    stages = stage_times(exchange.server_timing.decode())
    total, latency = stages.pop(TOTAL), 1000 * exchange.latency
    stages["the rest inside the application"] = total - sum(stages.values())
    stages["outside it: HTTP, event loop, sockets"] = latency - total
    stages["the whole, at the client"] = latency
    return {name: 1000 * milliseconds for name, milliseconds in stages.items()}


def over(rates: Rates, other: str) -> dict[str, dict[str, object]]:
    """Answers a second of each side, and the median of its ratio to `other` over the rounds."""
    return {
        name: {
            **spread(values),
            "over": median(a / b for a, b in zip(values, rates[other], strict=True)),
        }
        for name, values in rates.items()
    }


def targets(figures: dict[str, dict[str, dict[str, float]]]) -> list[dict[str, object]]:
    """The target ratios, and the measured ones."""
    rows = [
        ("`POST /search` over in process, p50 at one client",
         figures["http"]["latency_ratio"]["median"], "at most", 1.5),
        ("`POST /search` over in process, rate at full load",
         figures["http"]["rate_ratio"]["median"], "at least", 0.8),
        ("two cores over one", figures["cores"][TWO_CORES]["over"], "at least", 1.7),
        (f"swiftlet over {PLAIN}", figures["plain"][SWIFTLET]["over"], "at least", 20.0),
    ]  # fmt: skip
    return [
        {
            "name": name,
            "measured": f"{measured:.2f}",
            "bound": f"{relation} {wanted:g}",
            "kept": measured <= wanted if relation == "at most" else measured >= wanted,
        }
        for name, measured, relation, wanted in rows
    ]


if __name__ == "__main__":
    main()
