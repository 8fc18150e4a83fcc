"""The fuzzer of readers runs property tests in turns, and keeps what they found."""

import json
import subprocess
import sys

import pytest

FUZZ = [sys.executable, "-m", "tests.fuzz", "--hours", "0"]


@pytest.mark.check
def test_runs_are_counted_one_after_the_other(tmp_path):
    raw = tmp_path / "fuzz.json"
    for _ in range(2):
        subprocess.run([*FUZZ, "--out", raw], check=True, stdout=subprocess.DEVNULL)
    runs = json.loads(raw.read_text("utf-8"))["runs"]
    assert [len(run["tests"]) for run in runs] == [1, 1]
    assert all(of["examples"] >= 10 for run in runs for of in run["tests"].values())
    assert all(not run["failures"] for run in runs)
    assert "| 2 | 0.00 |" in raw.with_suffix(".md").read_text("utf-8")
