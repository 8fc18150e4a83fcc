"""Lets the property tests of all readers of files try new examples; writes the page of the hours.

    python -m tests.fuzz --hours 1 --out docs/results/fuzz.json

The tests take turns until the hours are over. A failure shows its example, which becomes an
`@example` of its test; the other tests go on. The file of raw figures keeps the runs before.
"""

import json
import re
import shutil
import sys
import time
from collections import defaultdict
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from measuring.command_line import script_parser
from measuring.machine import describe_machine
from measuring.results import Figures, write

TEMPLATE, READERS = "tests/fuzz.md.j2", "tests/swiftlet/corpora"
_SETTINGS = "_hypothesis_internal_use_settings"
"""Where a test has its settings. Each turn would nest them once more, until the stack is full."""

PACKAGES = ["hypothesis", "lxml", "pyarrow", "python-docx", "pypdfium2"]
settings.register_profile(
    "fuzz", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)


class Turns:
    """A plugin of pytest: its property tests run in turns for some seconds, and are counted.

    :param folder: Of temporary files, which is emptied after each turn.
    """

    def __init__(self, seconds: float, folder: Path) -> None:
        self.seconds, self.folder = seconds, folder
        self.found: dict[str, Figures] = defaultdict(lambda: {"examples": 0, "seconds": 0.0})
        self.failures: dict[str, str] = {}

    @pytest.hookimpl
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests in turns, instead of each once."""
        items = [item for item in session.items if is_hypothesis_test(item.obj)]  # type: ignore[attr-defined]
        began, over = time.process_time(), time.monotonic() + self.seconds
        turns = cycle(items)
        item = next(turns)
        while item:
            following = next(turns) if time.monotonic() < over else None
            asked = vars(item.obj)[_SETTINGS]  # type: ignore[attr-defined]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            vars(item.obj)[_SETTINGS] = asked  # type: ignore[attr-defined]
            of_item = self.found[item.nodeid.rpartition("/")[2]]
            of_item["seconds"] += time.process_time() - began
            counts = re.findall(r"(\d+) (?:passing|failing)", item.hypothesis_statistics)
            of_item["examples"] += sum(map(int, counts))
            for each in self.folder.glob("tests/*"):
                shutil.rmtree(each, ignore_errors=True)
            item, began = following, time.process_time()
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Show the first failure of each test, and keep its last lines, which have the example."""
        if report.failed and report.nodeid not in self.failures:
            print(report.longreprtext, flush=True)
            example = report.longreprtext.rpartition("test case: ")[2].partition("Explanation:")[0]
            lines = [line.removeprefix("E").strip() for line in example.splitlines()]
            paths = ("tmp_path_factory", "_", "tests/", "#")
            self.failures[report.nodeid] = " ".join(
                line for line in lines if line and not line.startswith(paths)
            )


def main() -> None:
    """Run the turns, and write the page; fail if a test does."""
    parser = script_parser(__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="of all turns together")
    parser.add_argument("--out", type=Path, help="raw figures; the page is beside them")
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        turns = Turns(3600 * asked.hours, Path(folder))
        given = ["-q", "--no-summary", "-p", "no:tests.lanes", "--hypothesis-profile", "fuzz"]
        pytest.main([READERS, *given, f"--basetemp={folder}/tests"], plugins=[turns])
    run = {"hours": asked.hours, "tests": turns.found, "failures": turns.failures}
    if asked.out is not None:
        earlier: Figures = {"runs": []}
        if asked.out.exists():
            earlier = json.loads(asked.out.read_text("utf-8"))
        machine = describe_machine(PACKAGES, threads="1")
        runs = [*earlier["runs"], run]
        print(write(asked.out, {"template": TEMPLATE, "machine": machine, "runs": runs}))
    if turns.failures:
        sys.exit(f"{len(turns.failures)} tests fail")


if __name__ == "__main__":
    main()
