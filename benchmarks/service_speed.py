"""The section on speed of docs/results/service.md."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from load import Load
from service_page import write_section

from evaluation.machine import describe_machine
from evaluation.markdown import table

BEFORE, AFTER = "before", "after"
ONE_CORE, TWO_CORES = "one core", "two cores"
TWO_SERVICES = "two services of one core each"
MISSED = "**missed**"
STAGES = ("queue", "tokenise", "encode", "search", "aggregate", "fetch")
PACKAGES = [
    "onnxruntime", "faiss-cpu", "tokenizers", "uvicorn", "uvloop", "httptools", "fastapi",
    "sentence-transformers", "torch",
]  # fmt: skip

Rates = dict[str, list[Load]]


@dataclass(frozen=True, slots=True)
class Trip:
    """One round of one tree: searches without HTTP (seconds each), requests alone, a full load."""

    in_process: list[float]
    alone: Load
    load: Load
    cpu_seconds: float

    @property
    def in_process_rate(self) -> float:
        """Searches a second without HTTP."""
        return len(self.in_process) / sum(self.in_process)

    @property
    def latency_ratio(self) -> float:
        """Median latency of a request over that of a search without HTTP."""
        return median(self.alone.latencies) / median(self.in_process)

    @property
    def rate_ratio(self) -> float:
        """Rate under a full load over that without HTTP."""
        return self.load.rate / self.in_process_rate


@dataclass(frozen=True, slots=True)
class Start:
    """From the start of a process to its readiness, and its memory beyond the index, in MiB."""

    seconds: float
    first_mib: float
    later_mib: float


@dataclass(frozen=True, slots=True)
class Results:
    """All that was measured."""

    command: str
    encoder: str
    passages: int
    factory: str
    queries: int
    connections: int
    trips: Mapping[str, Sequence[Trip]]
    cores: Rates
    plain: Rates
    starts: Sequence[Start]


def write_speed(results: Results, page: Path) -> bool:
    """Put the section into the page, in place of the one that is there; whether all was kept."""
    one, two = (results.cores[name] for name in (ONE_CORE, TWO_CORES))
    targets = target_table(results)
    write_section(
        page,
        "Speed",
        WORDS.format(
            command=results.command,
            machine=describe_machine(PACKAGES, threads="one a core"),
            encoder=results.encoder,
            passages=f"{results.passages:,}",
            factory=results.factory,
            queries=results.queries,
            connections=results.connections,
            targets=targets,
            trips=trip_table(results.trips),
            stages=stage_table(results.trips),
            generator=f"{median(load.cpu_microseconds for load in one + two):.0f}",
            cores=rate_table(results.cores, ONE_CORE),
            plain=rate_table(results.plain, "plain"),
            seconds=f"{median(start.seconds for start in results.starts):.2f}",
            first_mib=f"{median(start.first_mib for start in results.starts):.0f}",
            later_mib=f"{max(start.later_mib for start in results.starts):.0f}",
        ),
    )
    return MISSED not in targets


def target_table(results: Results) -> str:
    """What was wanted, and what came of it."""
    after = results.trips[AFTER]
    rows = [
        ("`POST /search` over in process, p50 at one client",
         median(trip.latency_ratio for trip in after), "at most", 1.5),
        ("`POST /search` over in process, rate at full load",
         median(trip.rate_ratio for trip in after), "at least", 0.8),
        ("two cores over one", rate_ratio(results.cores, TWO_CORES, ONE_CORE), "at least", 1.7),
        ("swiftlet over the plain service",
         rate_ratio(results.plain, "swiftlet", "plain"), "at least", 20.0),
    ]  # fmt: skip
    cells = [["ratio", "measured", "wanted", ""]]
    for name, measured, relation, bound in rows:
        kept = measured <= bound if relation == "at most" else measured >= bound
        verdict = "kept" if kept else MISSED
        cells.append([name, f"{measured:.2f}", f"{relation} {bound:g}", verdict])
    return table(cells)


def rate_ratio(rates: Rates, name: str, other: str) -> float:
    """The median over the rounds."""
    return median(
        load.rate / base.rate for load, base in zip(rates[name], rates[other], strict=True)
    )


def trip_table(trips: Mapping[str, Sequence[Trip]]) -> str:
    """What HTTP costs in both trees: medians over the rounds."""
    rows: dict[str, tuple[Callable[[Trip], float], int]] = {
        "in process, p50, ms": (lambda trip: 1000 * median(trip.in_process), 3),
        "`POST /search`, one client, p50, ms": (
            lambda trip: 1000 * median(trip.alone.latencies),
            3,
        ),
        "**ratio of the two**": (lambda trip: trip.latency_ratio, 2),
        "in process, searches a second": (lambda trip: trip.in_process_rate, 0),
        "`POST /search`, full load, answers a second": (lambda trip: trip.load.rate, 0),
        "**ratio of the two**, full load": (lambda trip: trip.rate_ratio, 2),
        "CPU time of the service for an answer, full load, ms": (
            lambda trip: 1000 * trip.cpu_seconds,
            3,
        ),
    }
    cells = [["", BEFORE, AFTER]]
    for name, (figure, digits) in rows.items():
        middles = [median(map(figure, trips[tree])) for tree in (BEFORE, AFTER)]
        cells.append([name, *(f"{middle:,.{digits}f}" for middle in middles)])
    return table(cells)


def stage_table(trips: Mapping[str, Sequence[Trip]]) -> str:
    """Where the time of a request at one client goes, in microseconds."""
    columns = [stage_microseconds(trips[tree]) for tree in (BEFORE, AFTER)]
    rows = [[name, *(f"{column[name]:.0f}" for column in columns)] for name in columns[0]]
    return table([["microseconds", BEFORE, AFTER], *rows])


def stage_microseconds(trips: Sequence[Trip]) -> dict[str, float]:
    """Medians over all requests of all rounds."""
    stages = [stages for trip in trips for stages in trip.alone.stage_seconds]
    latencies = [latency for trip in trips for latency in trip.alone.latencies]
    measured = {stage: [each[stage] for each in stages] for stage in STAGES}
    measured["the rest inside the application"] = [
        each["total"] - sum(each[stage] for stage in STAGES) for each in stages
    ]
    measured["outside it: HTTP, event loop, sockets"] = [
        latency - each["total"] for latency, each in zip(latencies, stages, strict=True)
    ]
    measured["the whole, as the client sees it"] = latencies
    return {name: 1e6 * median(values) for name, values in measured.items()}


def rate_table(rates: Rates, other: str) -> str:
    """Answers a second of each side, and the median over the rounds of its ratio to `other`."""
    cells = [["", "answers a second, median", "least", "most", f"over {other}"]]
    for name, loads in rates.items():
        found = [load.rate for load in loads]
        cells.append(
            [
                name,
                *(f"{rate:,.0f}" for rate in (median(found), min(found), max(found))),
                f"{rate_ratio(rates, name, other):.2f}",
            ]
        )
    return table(cells)


WORDS = """\
Made by `{command}`. {machine}

The documentation of Python's standard library, {passages} passages, index `{factory}`, query
encoder {encoder}; {queries} queries of the kinds that people type into search engines, top_k 10, no
cache of embeddings. What is compared takes turns in one run; figures are medians of the rounds,
ratios medians of the rounds' ratios. The service has one core, the load generator another.

{targets}

Where something was missed: a profile showed most of the service's time at a full load inside
`Searcher.search`, most of that in ONNX Runtime; the rest in the kernel's sockets and in many small
steps of Python, none of which stands out. The faster the searcher, the more they weigh. Beside the
plain service, encoding is many times as fast ([query encoding](query-encoding.md)); searching,
reading documents and HTTP are what both have to do. Two cores share the interpreter's lock, and two
services of one core each do not: [below](#two-cores) is what that makes.

### What HTTP costs

"In process" is `Searcher.search` in a loop. A full load is {connections} connections, each of which
asks again as soon as it has its answer.

{trips}

Where the time of one request goes at one client. The rest inside the application is reading and
checking the request, handing it to whoever searches and back, writing JSON, and headers; outside it
are HTTP, the event loop, the sockets, metrics, and waking up client and server.

{stages}

### Two cores

Here the load generator has no core of its own in any case, so that all pay for it: it takes
{generator} µs of CPU time for a request. Two services share nothing but the machine.

{cores}

### A plain service

`benchmarks/baselines/plain.py`: FastAPI with response models on uvicorn, Sentence Transformers
(torch, fp32) with all-MiniLM-L6-v2, a flat FAISS index of the same embeddings, ten passages an
answer. One core each.

{plain}

### Start and memory

From the start of the process to the first 200 of `/health/ready`, on one core, files in the page
cache: {seconds} s. Resident memory but for the mapped files of the index: {first_mib} MiB when
ready, at most {later_mib} MiB after a full load.
"""
