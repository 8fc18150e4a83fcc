"""The speed of the service, compared with its searcher without HTTP and with plain services.

    python -m benchmarks.service --queries DATA/web-queries [--cores-only]

Real processes serve the documentation of Python's standard library and get real queries. The sides
of each comparison alternate in one run: A B, B A, A B. Needs two cores and the extra `dev`. Writes
the section on speed of docs/results/service.json and its page; processors without VNNI have one of
their own, and so has --cores-only, which measures one core and two alone. Exit status 1 if a target
is missed.
"""

import os
import shlex
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from timeit import timeit
from typing import Any

# Searches in this process use one thread, as the service does.
os.environ["OMP_NUM_THREADS"] = "1"

from benchmarks.peers import INT8_FILE, int8_directories
from measuring.command_line import existing, refuse, script_options
from measuring.http_client import Exchange, stage_times
from measuring.load_figures import TOTAL, Figures
from measuring.machine import describe_machine, processor_kind
from measuring.processes import Service, pinned, running
from measuring.results import alternating, at_most, bound, spread, write_section
from measuring.testbed import CLIENTS, PAGE, TITLE, Testbed, demo_index, one_by_one
from measuring.traffic import sample_of
from swiftlet import encoders
from swiftlet.errors import RetrievalError
from swiftlet.manifest import read_manifest
from swiftlet.search.searcher import Searcher

WARM_UP_SECONDS = 1.0
ONE_CORE, TWO_CORES, TWO_PROCESSES = "one core", "two cores", "two processes of one service"
SWIFTLET, LOOKUP, PLAIN = "swiftlet", "swiftlet, look-up", "plain, torch fp32, 6 layers"
PACKAGES = [
    "onnxruntime", "faiss-cpu", "tokenizers", "uvicorn", "uvloop", "httptools", "fastapi",
    "sentence-transformers", "torch", "optimum-onnx",
]  # fmt: skip

# The targets for the ratios to the plain service: of two layers, and of the look-up encoder.
LEAST, LEAST_ELSEWHERE = {"AVX-512 VNNI": (20.0, 40.0, 0.45)}, (14.0, 30.0)
LOOKUP_MS, LOOKUP_US, BEYOND_MS = 0.2, 20, 0.25

Rates = Mapping[str, Sequence[float]]


def main() -> None:
    arguments = script_options(
        __doc__, queries=existing, num_queries=300, index=None, rounds=9, seconds=1.5, raw=PAGE,
        cores_only=False,
    )  # fmt: skip
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise SystemExit("1 core is available; 2 are expected, for service and generator")
    index = arguments.index or demo_index(cores)
    rounds, seconds = arguments.rounds, arguments.seconds
    with tempfile.TemporaryDirectory() as folder:
        queries = sample_of(arguments.queries, arguments.num_queries)
        testbed = Testbed(Path(folder), index, None, queries, cores[:1], cores[1:2], mode="dense")
        lookup = replace(testbed, encoder=encoders.LOOKUP_QUERY_ENCODER)
        sides = {"dense": testbed, "hybrid": replace(testbed, mode="hybrid"), "look-up": lookup}
        ours = {SWIFTLET: testbed, LOOKUP: lookup}
        details = read_manifest(index, "index").details
        figures = {
            "template": "benchmarks/service.md.j2",
            "machine": describe_machine(PACKAGES, threads="one a core"),
            "encoder": encoders.DEFAULT_QUERY_ENCODER.name,
            "passages": details["num_passages"],
            "factory": details["factory"],
            "queries": len(queries),
            "clients": CLIENTS,
            "cores": {name: measure_cores(each, rounds, seconds) for name, each in sides.items()},
        }
        if arguments.cores_only:
            figures["template"] = "benchmarks/cores_only.md.j2"
            figures["targets"] = targets_of_cores(figures["cores"])
        else:
            figures["http"] = {
                name: measure_http(each, rounds, seconds) for name, each in sides.items()
            }
            figures["plain"] = over(measure_plain(ours, rounds, seconds), PLAIN)
            figures["targets"] = targets(figures, *LEAST.get(processor_kind(), LEAST_ELSEWHERE))
    heading = "Two cores" if arguments.cores_only else "Speed"
    heading += "" if processor_kind() in LEAST else f", {processor_kind()}"
    print(write_section(arguments.raw, TITLE, heading, figures))
    sys.exit(not all(target["kept"] for target in figures["targets"]))


@contextmanager
def warm_service(
    testbed: Testbed, cores: Sequence[int] = (), *, workers: int = 1
) -> Iterator[Service]:
    """A service that has answered queries, on `cores` or those of the testbed."""
    on_cores = replace(testbed, service_cores=cores or testbed.service_cores)
    with on_cores.serve(workers=workers) as service:
        testbed.saturate(service, seconds=WARM_UP_SECONDS)
        yield service


def measure_http(testbed: Testbed, rounds: int, seconds: float) -> dict[str, Any]:
    """Searches in this process, requests of one client and of many, alternating on one core."""
    found: dict[str, list[float]] = defaultdict(list)
    stages: list[dict[str, float]] = []
    encoder = testbed.encoder or encoders.DEFAULT_QUERY_ENCODER
    with Searcher.open(testbed.index, encoder) as searcher, warm_service(testbed) as service:
        for in_process in alternating((True, False), rounds):
            if in_process:
                with pinned(testbed.service_cores):
                    search = partial(searcher.search, mode=testbed.mode)
                    taken = [timeit(partial(search, q), number=1) for q in testbed.queries]
                found["in_process_ms"].append(1000 * median(taken))
                found["in_process_rate"].append(len(taken) / sum(taken))
                continue
            with pinned(testbed.generator_cores):
                alone = one_by_one(service.address, testbed.requests)
                cpu_before = service.cpu_seconds
                load = testbed.saturate(service, seconds=seconds)
            cpu_seconds = service.cpu_seconds - cpu_before
            found["http_ms"].append(Figures(alone).latency(50.0))
            found["http_rate"].append(Figures(load).answered_rate)
            found["cpu_ms"].append(1000 * cpu_seconds / len(load.exchanges))
            stages += map(stage_microseconds, alone.exchanges)
    for name, unit in (("latency_ratio", "ms"), ("rate_ratio", "rate")):
        pairs = zip(found[f"http_{unit}"], found[f"in_process_{unit}"], strict=True)
        found[name] = [over_http / within for over_http, within in pairs]
    return {
        **{name: spread(values) for name, values in found.items()},
        "stages_us": {name: median(each[name] for each in stages) for name in stages[0]},
    }


def measure_cores(testbed: Testbed, rounds: int, seconds: float) -> dict[str, Any]:
    """Answers a second of one core and of two; the generator shares the service's cores."""
    one, other = testbed.service_cores, testbed.generator_cores
    systems: dict[str, list[Sequence[int]]] = {
        ONE_CORE: [one], TWO_CORES: [[*one, *other]], TWO_PROCESSES: [[*one, *other]],
        "two services of one core each": [one, other],
    }  # fmt: skip
    rates, generator = defaultdict(list), []
    with ExitStack() as stack:
        services = {
            name: [
                stack.enter_context(
                    warm_service(testbed, cores, workers=1 + (name == TWO_PROCESSES))
                )
                for cores in each
            ]
            for name, each in systems.items()
        }
        for name in alternating(systems, rounds):
            with pinned({core for cores in systems[name] for core in cores}):
                load = testbed.saturate(*services[name], seconds=seconds)
            generator.append(1e6 * load.cpu_seconds / len(load.exchanges))
            rates[name].append(Figures(load).answered_rate)
        resident_bytes = {
            name: sum(each.resident_bytes() for each in found) for name, found in services.items()
        }
    return {
        "rates": over(rates, ONE_CORE),
        "generator_us": median(generator),
        "resident_bytes": resident_bytes,
    }


def measure_plain(ours: Mapping[str, Testbed], rounds: int, seconds: float) -> Rates:
    """Answers a second on one core, of services of ours and of the plain ones."""
    testbed = ours[SWIFTLET]
    plain = {PLAIN: {"MODEL": str(encoders.torch_weights())}}
    for layers, model in int8_directories(testbed.folder).items():
        plain[f"plain, ONNX int8, {layers} layers"] = {"MODEL": str(model), "ONNX_FILE": INT8_FILE}
    command = f"{shlex.quote(sys.executable)} -m uvicorn benchmarks.baselines.plain:app"
    command += " --no-access-log --log-level warning --port {port}"
    rates = defaultdict(list)
    with ExitStack() as stack:
        services = {name: stack.enter_context(warm_service(each)) for name, each in ours.items()}
        for name, settings in plain.items():
            variables = {"INDEX": str(testbed.index), **settings}
            service = running(
                command, ready_path="/health", cores=testbed.service_cores, settings=variables
            )
            services[name] = stack.enter_context(service)
            testbed.saturate(services[name], seconds=WARM_UP_SECONDS)
        for name in alternating(services, rounds):
            with pinned(testbed.generator_cores):
                load = testbed.saturate(services[name], seconds=seconds)
            rates[name].append(Figures(load).answered_rate)
    return rates


def stage_microseconds(exchange: Exchange) -> dict[str, float]:
    """The stages of one request, the rest of the service, and the time outside it."""
    stages = stage_times(exchange.server_timing.decode())
    total, latency = stages.pop(TOTAL), 1000 * exchange.latency
    stages["the rest inside the application"] = total - sum(stages.values())
    stages["outside it: HTTP, event loop, sockets"] = latency - total
    stages["the whole, at the client"] = latency
    return {name: 1000 * milliseconds for name, milliseconds in stages.items()}


def over(rates: Rates, other: str) -> dict[str, dict[str, Any]]:
    """The figures of each side, and the median of its ratio to `other` over the rounds."""
    ratios = {
        name: median(a / b for a, b in zip(values, rates[other], strict=True))
        for name, values in rates.items()
    }
    return {name: {**spread(values), "over": ratios[name]} for name, values in rates.items()}


def targets(
    figures: Mapping[str, Any], two_layers: float, lookup: float, in_process_ms: float | None = None
) -> list[dict[str, Any]]:
    """The targets, and the measured figures."""
    http = figures["http"]["dense"]
    name = "`POST /search` over in process, p50 at one client"
    found = [at_most(name, http["latency_ratio"]["median"], 1.5, "{:.2f}".format)]
    for name, measured, least in (
        ("`POST /search` over in process, rate at full load", http["rate_ratio"]["median"], 0.8),
        (f"{SWIFTLET} over {PLAIN}", figures["plain"][SWIFTLET]["over"], two_layers),
        (f"{LOOKUP} over {PLAIN}", figures["plain"][LOOKUP]["over"], lookup),
    ):
        found.append(bound(name, f"{measured:.2f}", f"at least {least:g}", kept=measured >= least))
    found += targets_of_cores(figures["cores"])
    for name, mode, most in ((SWIFTLET, "dense", in_process_ms), (LOOKUP, "look-up", LOOKUP_MS)):
        http = figures["http"][mode]
        if most is not None:
            p50 = http["in_process_ms"]["median"]
            found.append(at_most(f"{name}, in process, p50, ms", p50, most, "{:.3f}".format))
        beyond = http["cpu_ms"]["median"] - 1000 / http["in_process_rate"]["median"]
        time = f"{name}, processor time of an answer beyond in process, ms"
        found.append(at_most(time, beyond, BEYOND_MS, "{:.3f}".format))
    encode, name = http["stages_us"]["encode"], f"{LOOKUP}, encode in the service, µs"
    found.append(at_most(name, encode, LOOKUP_US, "{:.0f}".format))
    return found


def targets_of_cores(cores: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The targets of two processes, in answers and in memory."""
    found = []
    for mode, each in cores.items():
        name, ratio = (
            f"{mode}, {TWO_PROCESSES}, over one core",
            each["rates"][TWO_PROCESSES]["over"],
        )
        found.append(bound(name, f"{ratio:.2f}", "at least 1.8", kept=ratio >= 1.8))
        held = each["resident_bytes"]
        name, ratio = f"{mode}, resident memory of these two", held[TWO_PROCESSES] / held[ONE_CORE]
        found.append(at_most(f"{name}, over one", ratio, 1.3, "{:.2f}".format))
    return found


if __name__ == "__main__":
    try:
        main()
    except RetrievalError as error:
        refuse(error, program="benchmarks")
