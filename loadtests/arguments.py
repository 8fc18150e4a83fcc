"""The arguments of `python -m loadtests`, checked before anything is started."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from measuring.command_line import LoadTestError, Parser, number
from measuring.traffic import Mix, add_mix_options, mix_of, read_queries

DEMO_QUERIES = Path(__file__).with_name("demo-queries.txt")
PERCENTS = (20.0, 50.0, 80.0, 95.0, 150.0)
_SEVERAL = (
    ("--index", "NAME=DIR", "index to serve; without it and --service the demo's"),
    ("--encoder", "ENCODER", "query encoder; each index is served with each; default: its own"),
    ("--setting", "NAME=VALUE", "setting of `swiftlet serve`, such as SWIFTLET_THREADS=1"),
    ("--service", "NAME=COMMAND", "another service; {port} in the command becomes a free port"),
)
"""Options that may be given several times."""

_WARM_UP_SHARE = 0.1
_LONGEST_WARM_UP_SECONDS = 3.0
_LONGEST_STEP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How to measure; `percents` refer to the saturation rate, times are in seconds."""

    queries_file: Path
    queries: Sequence[str]
    mix: Mix
    percents: Sequence[float]
    seconds: float
    warm_up: float
    step_seconds: float
    seed: int
    service_cores: Sequence[int]
    generator_cores: Sequence[int]
    with_locust: bool = True


def parse_arguments(arguments: Sequence[str]) -> tuple[argparse.Namespace, Plan]:
    """The options as given, and the plan that follows from them.

    :raises RetrievalError: When the queries cannot be read, the mix is empty, or a core does not
        exist.
    """
    options = _parser().parse_args(arguments)
    mix, (service_cores, generator_cores) = mix_of(options), _share_out(options)
    warm_up = min(_LONGEST_WARM_UP_SECONDS, _WARM_UP_SHARE * options.duration)
    step_seconds = min(_LONGEST_STEP_SECONDS, options.duration)
    return options, Plan(
        options.queries.resolve(), read_queries(options.queries), mix, sorted(set(options.rates)),
        options.duration, warm_up, step_seconds, options.seed, service_cores, generator_cores,
        options.locust,
    )  # fmt: skip


def _parser() -> Parser:
    parser = Parser(
        prog="loadtests",
        description="Start services, load them at rates around their saturation, write a report.",
    )
    add = parser.add_argument
    for name, form, description in _SEVERAL:
        of = Path if form == "ENCODER" else str
        add(name, type=of, action="append", default=[], metavar=form, help=description)
    add("--service-ready", default="/health", help="path it answers 200 when ready")
    add("--queries", type=Path, default=DEMO_QUERIES, help="file of queries, or BEIR folder")
    percent = number(0.1, 1000)
    add("--rates", type=percent, nargs="+", default=PERCENTS, help="per cent of the saturation")
    add("--duration", type=number(1, 3600), default=30.0, help="seconds of each rate")
    add_mix_options(add)
    add("--service-cores", type=_cores, help="such as 0,1; default: all but the last")
    add("--generator-cores", type=_cores, help="default: the last")
    add("--start-timeout", type=number(0.1, 3600), default=180.0, help="seconds to readiness")
    add("--no-locust", dest="locust", action="store_false", help="do not run Locust")
    add("--strict", action="store_true", help="exit with 1 if there are warnings")
    add("--out", type=Path, required=True, help="folder of the report")
    return parser


def _share_out(options: argparse.Namespace) -> tuple[list[int], list[int]]:
    """The cores of the service and of the generator: separate ones if there are two."""
    available = sorted(os.sched_getaffinity(0))
    service = options.service_cores or available[:-1] or available
    generator = options.generator_cores or available[-1:]
    for core in {*service, *generator}.difference(available):
        names = ", ".join(map(str, available))
        raise LoadTestError(f"core {core} is not available; available are {names}")
    return service, generator


def _cores(text: str) -> list[int]:
    return sorted({int(core) for core in text.split(",")})
