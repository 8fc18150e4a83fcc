"""A load test of services at rates around their saturation, and a report of it.

python -m loadtests --index INDEX --queries QUERIES --out REPORT
"""

import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from loadtests.arguments import parse_arguments
from loadtests.measure import Measurement, measure
from loadtests.report import REPORT_FILE, write_report
from loadtests.systems import systems_under_test
from measuring.__main__ import show
from measuring.command_line import LoadTestError, Stopped, held_back, refuse, stop_on_signals
from measuring.machine import describe_machine
from swiftlet.errors import RetrievalError

PACKAGES = (
    "swiftlet-retrieval", "onnxruntime", "faiss-cpu", "tokenizers", "fastapi", "uvicorn", "uvloop",
    "httptools", "torch", "sentence-transformers", "locust", "gevent", "numpy",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write the report; 1 with --strict if there are warnings."""
    given = sys.argv[1:] if arguments is None else arguments
    if not given:
        show("loadtests")
        return 0
    measurements: list[Measurement] = []
    stop_on_signals()
    try:
        options, plan = parse_arguments(given)
        _prepare(options.out)
        machine = describe_machine(PACKAGES, threads="one for each core of a service")
        os.sched_setaffinity(0, plan.generator_cores)
        command = "python -m loadtests " + shlex.join(given)
        for system in systems_under_test(options, plan.service_cores):
            measurements.append(measure(system, plan))
            # After each service, so that the figures are kept if the next one fails.
            with held_back():
                write_report(measurements, plan, options.out, command=command, machine=machine)
    except RetrievalError as error:
        refuse(error)
    except Stopped as stop:
        names = ", ".join(each.system.name for each in measurements)
        refuse(f"ended by {stop.signal.name}; measured: {names or 'nothing'}", 128 + stop.signal)
    print(options.out / REPORT_FILE)
    return int(options.strict and any(each.warnings for each in measurements))


def _prepare(out: Path) -> None:
    """Check before hours of measuring that the report can be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise LoadTestError(f"no report can be written to {out}: {error.strerror}") from error


if __name__ == "__main__":
    sys.exit(main())
