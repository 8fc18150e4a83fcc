"""Locust without its web page, at a given rate, and its figures."""

import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

from loadtests.arguments import Plan
from loadtests.command_line import LoadTestError
from loadtests.figures import fewest_requests
from loadtests.processes import pinned
from loadtests.traffic import SEARCH_PATH

LOCUSTFILE = Path(__file__).with_name("locustfile.py")
MOST_REQUESTS_A_USER = 10.0
"""Requests a second per user: so few that a request is rarely due before the last answer."""

_FEWEST_USERS = 10
_GRACE_SECONDS = 60.0


class LocustFigures(NamedTuple):
    """Locust's report on all searches together: requests a second, latencies in milliseconds.

    `core_share` is the share of a core that Locust used, its start included. p99 is NaN if there
    are too few requests.
    """

    rate: float
    p50: float
    p99: float
    failures: int
    core_share: float


def run_locust(address: str, plan: Plan, *, ready_path: str, rate: float) -> LocustFigures:
    """Run Locust with `rate` requests a second on the generator's cores.

    :raises LoadTestError: When it fails to start, or does not end.
    """
    users, mix = max(_FEWEST_USERS, math.ceil(rate / MOST_REQUESTS_A_USER)), plan.mix
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "locust", "--headless", "-f", LOCUSTFILE, "--host", address,
            "--ready-path", ready_path, "--users", users, "--spawn-rate", users,
            "--request-rate", f"{rate:g}", "--run-time", f"{plan.seconds:g}s",
            "--queries", plan.queries_file, "--seed", plan.seed, "--single", mix.single,
            "--batch", mix.batch, "--cached", mix.cached, "--batch-queries", mix.batch_queries,
            "--top-k", mix.top_k, "--json-file", f"{folder}/found",
        ]  # fmt: skip
        began, cpu_before = time.monotonic(), _cpu_of_ended_children()
        try:
            with pinned(plan.generator_cores):
                ended = subprocess.run(
                    list(map(str, command)), cwd=LOCUSTFILE.parents[1], capture_output=True,
                    text=True, check=False, timeout=plan.seconds + _GRACE_SECONDS,
                )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise LoadTestError(f"Locust did not end within {error.timeout:g} s") from error
        share = (_cpu_of_ended_children() - cpu_before) / (time.monotonic() - began)
        found = Path(folder, "found.json")
        if not found.is_file():
            lines = ended.stderr.strip().splitlines() or ["it wrote nothing"]
            raise LoadTestError(f"Locust ended with status {ended.returncode}: {lines[-1]}")
        entries = json.loads(found.read_text("utf-8"))
    searches = [e for e in entries if e["method"] == "POST" and e["name"].startswith(SEARCH_PATH)]
    # Milliseconds, to three digits, and the number of requests.
    counts = [pair for entry in searches for pair in entry["response_times"].items()]
    times = np.array(counts, float).reshape(-1, 2)
    latencies = np.repeat(times[:, 0], times[:, 1].astype(int))
    enough = len(latencies) >= fewest_requests(99.0)
    p50, p99 = np.percentile(latencies, [50, 99]) if enough else (np.median(latencies), math.nan)
    failures = sum(entry["num_failures"] for entry in entries)
    return LocustFigures(len(latencies) / plan.seconds, float(p50), float(p99), failures, share)


def _cpu_of_ended_children() -> float:
    times = psutil.Process().cpu_times()
    return float(times.children_user + times.children_system)
