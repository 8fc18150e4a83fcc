"""The load test: `python -m loadtests --index INDEX --queries QUERIES --out REPORT`."""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from loadtests.arguments import parse_arguments
from loadtests.command_line import LoadTestError, refuse
from loadtests.machine import describe_machine
from loadtests.measure import measure
from loadtests.report import REPORT_FILE, REQUESTS_FOLDER, write_report, write_requests
from loadtests.subjects import subjects


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the report; 1 with --strict where something is not to be trusted."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        options, plan = parse_arguments(given)
        _prepare(options.out)
        machine = describe_machine()
        os.sched_setaffinity(0, plan.generator_cores)
        measurements = [measure(subject, plan) for subject in subjects(options, plan)]
        command = "python -m loadtests " + shlex.join(given)
        write_report(measurements, plan, options.out, command=command, machine=machine)
        if options.requests:
            write_requests(measurements, options.out / REQUESTS_FOLDER)
    except LoadTestError as error:
        refuse(error)
    print(options.out / REPORT_FILE)
    return int(options.strict and any(each.complaints for each in measurements))


def _prepare(out: Path) -> None:
    """See to it before hours of measuring that the report can be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / REPORT_FILE).touch()
    except OSError as error:
        raise LoadTestError(f"no report can be written to {out}: {error.strerror}") from error


if __name__ == "__main__":
    sys.exit(main())
