"""The load test: `python -m loadtests --index INDEX --queries QUERIES --out REPORT`."""

import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from loadtests.arguments import parse_arguments
from loadtests.command_line import LoadTestError, refuse
from loadtests.machine import describe_machine
from loadtests.measure import Measurement, measure
from loadtests.report import REPORT_FILE, REQUESTS_FOLDER, write_report, write_requests
from loadtests.signals import Stopped, held_back, stop_on_signals
from loadtests.subjects import subjects


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the report; 1 with --strict where something is not to be trusted."""
    given = sys.argv[1:] if arguments is None else arguments
    measurements: list[Measurement] = []
    stop_on_signals()
    try:
        options, plan = parse_arguments(given)
        _prepare(options.out)
        machine = describe_machine()
        os.sched_setaffinity(0, plan.generator_cores)
        command = "python -m loadtests " + shlex.join(given)
        for subject in subjects(options, plan):
            measurements.append(measure(subject, plan))
            # After each, so that whatever becomes of the next one, what was measured stays.
            with held_back():
                write_report(measurements, plan, options.out, command=command, machine=machine)
                requested = measurements if options.requests else ()
                write_requests(requested, options.out / REQUESTS_FOLDER)
    except LoadTestError as error:
        refuse(error)
    except Stopped as stop:
        names = ", ".join(each.subject.name for each in measurements)
        refuse(f"{stop.signal.name} ended it; measured: {names or 'nothing'}", 128 + stop.signal)
    print(options.out / REPORT_FILE)
    return int(options.strict and any(each.complaints for each in measurements))


def _prepare(out: Path) -> None:
    """See to it before hours of measuring that the report can be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise LoadTestError(f"no report can be written to {out}: {error.strerror}") from error


if __name__ == "__main__":
    sys.exit(main())
