"""Locust without its web page, at a given rate, and what it found."""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from loadtests.command_line import LoadTestError
from loadtests.processes import pinned
from loadtests.traffic import BATCH_PATH, SEARCH_PATH, Mix

LOCUSTFILE = Path(__file__).with_name("locustfile.py")
MOST_REQUESTS_A_USER = 10.0
"""A second; so that a user rarely has a request due before it has its last answer."""

_FEWEST_USERS = 10
_GRACE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class LocustFigures:
    """What Locust reports of all searches together; times in milliseconds, to three digits.

    `generator_share` is how much of a core Locust took, its start included.
    """

    rate: float
    users: int
    latencies: dict[float, float]
    failures: int
    rejections: int
    generator_share: float
    command: str

    def latency(self, percentile: float) -> float:
        """One of the percentiles that were asked for."""
        return self.latencies[percentile]


def run_locust(
    address: str,
    *,
    queries: Path,
    mix: Mix,
    ready_path: str,
    rate: float,
    seconds: float,
    seed: int,
    cores: Collection[int],
    percentiles: Collection[float],
) -> LocustFigures:
    """Run Locust on `cores`.

    :raises LoadTestError: When it refuses, or does not end.
    """
    users = max(_FEWEST_USERS, math.ceil(rate / MOST_REQUESTS_A_USER))
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "-f": LOCUSTFILE,
            "--host": address,
            "--queries": queries,
            "--ready-path": ready_path,
            "--users": users,
            "--spawn-rate": users,
            "--request-rate": f"{rate:g}",
            "--run-time": f"{seconds:g}s",
            "--seed": seed,
            "--single": mix.single,
            "--batch": mix.batch,
            "--cached": mix.cached,
            "--batch-queries": mix.batch_queries,
            "--top-k": mix.top_k,
        }
        words = [str(word) for option in options.items() for word in option]
        command = ["locust", "--headless", *words]
        began = time.monotonic()
        cpu_began = _cpu_of_ended_processes()
        try:
            with pinned(cores):
                ended = subprocess.run(
                    [sys.executable, "-m", *command, "--json-file", f"{folder}/found"],
                    cwd=LOCUSTFILE.parents[1],
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=seconds + _GRACE_SECONDS,
                )
        except subprocess.TimeoutExpired as error:
            raise LoadTestError(f"Locust did not end within {error.timeout:g} s") from error
        share = (_cpu_of_ended_processes() - cpu_began) / (time.monotonic() - began)
        found = Path(folder, "found.json")
        if not found.is_file():
            lines = ended.stderr.strip().splitlines() or ["it said nothing"]
            raise LoadTestError(f"Locust ended with status {ended.returncode}: {lines[-1]}")
        entries = json.loads(found.read_text("utf-8"))
    searches = [
        entry
        for entry in entries
        if entry["method"] == "POST" and entry["name"].startswith((SEARCH_PATH, BATCH_PATH))
    ]
    counts: dict[float, int] = {}
    for entry in searches:
        for milliseconds, count in entry["response_times"].items():
            counts[float(milliseconds)] = counts.get(float(milliseconds), 0) + count
    return LocustFigures(
        rate=sum(entry["num_requests"] for entry in searches) / seconds,
        users=users,
        latencies={percentile: _percentile(counts, percentile) for percentile in percentiles},
        failures=sum(entry["num_failures"] for entry in entries),
        rejections=sum(e["num_requests"] for e in entries if e["method"] == "rejected"),
        generator_share=share,
        command=" ".join(command).replace(str(LOCUSTFILE), "loadtests/locustfile.py"),
    )


def _percentile(counts: dict[float, int], percentile: float) -> float:
    """The smallest value that at least so many per cent do not exceed; NaN of none."""
    wanted = sum(counts.values()) * percentile / 100
    so_far = 0
    for value in sorted(counts):
        so_far += counts[value]
        if so_far >= wanted:
            return value
    return math.nan


def _cpu_of_ended_processes() -> float:
    times = os.times()
    return times.children_user + times.children_system
