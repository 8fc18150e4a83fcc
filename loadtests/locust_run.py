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

import numpy as np
from numpy.typing import NDArray

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

    `latencies` ascend.
    `generator_share` is how much of a core Locust took, its start included.
    """

    rate: float
    users: int
    latencies: NDArray[np.float64]
    failures: int
    rejections: int
    generator_share: float
    command: str

    def latency(self, percentile: float) -> float:
        """The smallest that at least so many per cent do not exceed; NaN where there are none."""
        if not len(self.latencies):
            return math.nan
        return float(np.percentile(self.latencies, percentile, method="inverted_cdf"))


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
    counted = [pair for entry in searches for pair in entry["response_times"].items()]
    times = np.array([float(milliseconds) for milliseconds, _ in counted])
    counts = np.array([count for _, count in counted], int)
    return LocustFigures(
        rate=sum(entry["num_requests"] for entry in searches) / seconds,
        users=users,
        latencies=np.sort(np.repeat(times, counts)),
        failures=sum(entry["num_failures"] for entry in entries),
        rejections=sum(e["num_requests"] for e in entries if e["method"] == "rejected"),
        generator_share=share,
        command=" ".join(command).replace(str(LOCUSTFILE), "loadtests/locustfile.py"),
    )


def _cpu_of_ended_processes() -> float:
    times = os.times()
    return times.children_user + times.children_system
