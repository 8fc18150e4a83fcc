"""The arguments of `python -m loadtests`, checked before anything is started."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loadtests.command_line import LoadTestError, Parser, number
from loadtests.traffic import Mix, add_mix_options, mix_of, read_queries

DEMO_QUERIES = Path(__file__).with_name("demo-queries.txt")
PERCENTS = (20.0, 50.0, 80.0, 95.0, 150.0)
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

    :raises LoadTestError: When the queries cannot be read, the mix is empty, or a core does not
        exist.
    """
    options = _parser().parse_args(arguments)
    mix = mix_of(options)
    service_cores, generator_cores = _share_out(options)
    plan = Plan(
        queries_file=options.queries.resolve(),
        queries=read_queries(options.queries),
        mix=mix,
        percents=sorted(set(options.rates)),
        seconds=options.duration,
        warm_up=min(_LONGEST_WARM_UP_SECONDS, _WARM_UP_SHARE * options.duration),
        step_seconds=min(_LONGEST_STEP_SECONDS, options.duration),
        seed=options.seed,
        service_cores=service_cores,
        generator_cores=generator_cores,
        with_locust=options.locust,
    )
    return options, plan


def _parser() -> Parser:
    parser = Parser(
        prog="loadtests",
        description="Start services, load them at rates around their saturation, write a report.",
    )
    add = parser.add_argument
    add(
        "--index",
        action="append",
        default=[],
        metavar="NAME=DIR",
        help="index to serve, once or several times; without it and --service the demo's",
    )
    add("--encoder", type=Path, help="query encoder for them; default: the one that ships")
    add(
        "--setting",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="setting of `swiftlet serve` as docs/settings.md names it, such as SWIFTLET_THREADS=1",
    )
    add(
        "--service",
        action="append",
        default=[],
        metavar="NAME=COMMAND",
        help="another service to compare; {port} in the command becomes a free port",
    )
    add("--service-ready", default="/health", help="path it answers 200 when ready")
    add("--queries", type=Path, default=DEMO_QUERIES, help="file of queries, or BEIR folder")
    add(
        "--rates",
        type=number(0.1, 1000),
        nargs="+",
        default=PERCENTS,
        metavar="PERCENT",
        help="per cent of the saturation rate",
    )
    add("--duration", type=number(1, 3600), default=30.0, help="seconds of each rate")
    add_mix_options(add)
    add("--service-cores", type=_cores, help="such as 0,1; default: all but the last")
    add("--generator-cores", type=_cores, help="default: the last")
    add("--start-timeout", type=number(0.1, 3600), default=180.0, help="seconds to readiness")
    add("--no-locust", dest="locust", action="store_false", help="do not run Locust")
    add("--no-requests", dest="requests", action="store_false", help="do not keep each request")
    add("--strict", action="store_true", help="exit with 1 if there are warnings")
    add("--out", type=Path, required=True, help="folder of the report")
    return parser  # fmt: skip


def _share_out(options: argparse.Namespace) -> tuple[list[int], list[int]]:
    """The cores of the service and of the generator: separate ones if there are two."""
    available = sorted(os.sched_getaffinity(0))
    service = options.service_cores or available[:-1] or available
    generator = options.generator_cores or available[-1:]
    for core in [*service, *generator]:
        if core not in available:
            raise LoadTestError(
                f"core {core} is not available; available are {', '.join(map(str, available))}"
            )
    return service, generator


def _cores(text: str) -> list[int]:
    try:
        return sorted({int(core) for core in text.split(",")})
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is given; core numbers such as 0,1 are expected"
        ) from None
