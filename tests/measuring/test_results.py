"""Pages that are made of raw figures."""

import subprocess
import sys

import pytest
from jinja2 import UndefinedError

from measuring.results import (
    ROOT,
    bound,
    megabytes,
    milliseconds,
    spread,
    write,
    write_section,
)

STARTS = {
    "template": "loadtests/resilience/templates/starts.md.j2",
    "made_by": "Made by hand.",
    "times": 3,
    "seconds": spread([1.0, 3.0, 2.0]),
    "queries": 1000,
    "resident_bytes": {"ready": 1e6, "after": 2_500_000, "index": 0},
    "bounds": [bound("start to ready", "3.00 s", "2 s", kept=False)],
}


def test_a_page_is_made_again_from_its_raw_figures_alone(tmp_path):
    raw = tmp_path / "service.json"
    page = write_section(raw, "The service", "Start", STARTS)
    before = page.read_text()
    assert "median 2.00 s" in before
    assert "2.5 MB afterwards" in before
    page.unlink()
    command = [sys.executable, "-m", "measuring.results", raw]
    ended = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert page.read_text() == before
    written, rest = ended.stdout.splitlines()
    assert written == f"{page}"
    assert rest.endswith(
        "README.md: the overview; a page is written again if its raw figures are named"
    )


@pytest.mark.parametrize(
    ("room", "lines"),
    [
        ("measuring.walks", ["python -m measuring.house CHECKOUT"]),
        ("measuring", ["python -m loadtests.resilience ", "python -m measuring.results "]),
        ("experiments", ["python -m experiments.hybrid "]),
        ("benchmarks", ["python -m benchmarks.service "]),
        ("loadtests", ["python -m loadtests "]),
    ],
)
def test_a_room_without_a_script_lists_its_scripts(room, lines):
    command = [sys.executable, "-m", room]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert all(line in said for line in lines)
    listed = [line for line in said.splitlines() if line.startswith("python -m")]
    assert all(line.endswith(".") for line in listed)


def test_a_section_takes_the_place_of_an_earlier_one(tmp_path):
    raw = tmp_path / "service.json"
    write_section(raw, "The service", "Start", STARTS)
    write_section(raw, "The service", "Start on two cores", STARTS)
    page = write_section(raw, "The service", "Start", STARTS | {"times": 7}).read_text()
    assert page.startswith("# The service\n\n## Start\n\nMade by hand.\n\n7 starts")
    assert page.index("## Start\n") < page.index("## Start on two cores\n")
    assert page.count("## ") == 2


def test_a_figure_that_is_missing_is_an_error_and_no_gap(tmp_path):
    with pytest.raises(UndefinedError, match="resident_bytes"):
        write(tmp_path / "x.json", {k: v for k, v in STARTS.items() if k != "resident_bytes"})


def test_figures_are_shown_with_enough_digits():
    assert [milliseconds(s) for s in (0.00123, 0.0999, 0.77, 1.281, float("inf"))] == [
        "1.2 ms", "99.9 ms", "770 ms", "1,281 ms", "never",
    ]  # fmt: skip
    assert megabytes(191_400_000) == "191.4 MB"
