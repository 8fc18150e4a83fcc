"""Locust without its web page, at a given rate, and its figures."""

import json
import math
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
from numpy.typing import NDArray

from loadtests.arguments import Plan
from loadtests.command_line import LoadTestError
from loadtests.processes import pinned
from loadtests.traffic import BATCH_PATH, SEARCH_PATH

LOCUSTFILE = Path(__file__).with_name("locustfile.py")
MOST_REQUESTS_A_USER = 10.0
"""Requests a second per user: so few that a request is rarely due before the last answer."""

_FEWEST_USERS = 10
_GRACE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class LocustFigures:
    """Locust's report on all searches together; times in milliseconds, to three digits.

    `latencies` ascend; `generator_share` is the share of a core that Locust used, its start
    included.
    """

    rate: float
    users: int
    latencies: NDArray[np.float64]
    failures: int
    rejections: int
    generator_share: float

    def latency(self, percentile: float) -> float:
        """The smallest latency that `percentile` % of requests do not exceed; NaN for none."""
        if not len(self.latencies):
            return math.nan
        return float(np.percentile(self.latencies, percentile, method="inverted_cdf"))


def run_locust(address: str, plan: Plan, *, ready_path: str, rate: float) -> LocustFigures:
    """Run Locust with `rate` requests a second on the generator's cores.

    :raises LoadTestError: When it fails to start, or does not end.
    """
    users = max(_FEWEST_USERS, math.ceil(rate / MOST_REQUESTS_A_USER))
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "-f": LOCUSTFILE,
            "--host": address,
            "--queries": plan.queries_file,
            "--ready-path": ready_path,
            "--users": users,
            "--spawn-rate": users,
            "--request-rate": f"{rate:g}",
            "--run-time": f"{plan.seconds:g}s",
            "--seed": plan.seed,
            "--single": plan.mix.single,
            "--batch": plan.mix.batch,
            "--cached": plan.mix.cached,
            "--batch-queries": plan.mix.batch_queries,
            "--top-k": plan.mix.top_k,
        }
        words = [str(word) for option in options.items() for word in option]
        command = [sys.executable, "-m", "locust", "--headless", *words]
        began = time.monotonic()
        cpu_before = _cpu_of_ended_children()
        try:
            with pinned(plan.generator_cores):
                ended = subprocess.run(
                    [*command, "--json-file", f"{folder}/found"],
                    cwd=LOCUSTFILE.parents[1],
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=plan.seconds + _GRACE_SECONDS,
                )
        except subprocess.TimeoutExpired as error:
            raise LoadTestError(f"Locust did not end within {error.timeout:g} s") from error
        share = (_cpu_of_ended_children() - cpu_before) / (time.monotonic() - began)
        found = Path(folder, "found.json")
        if not found.is_file():
            lines = ended.stderr.strip().splitlines() or ["it wrote nothing"]
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
        rate=sum(entry["num_requests"] for entry in searches) / plan.seconds,
        users=users,
        latencies=np.sort(np.repeat(times, counts)),
        failures=sum(entry["num_failures"] for entry in entries),
        rejections=sum(e["num_requests"] for e in entries if e["method"] == "rejected"),
        generator_share=share,
    )


def _cpu_of_ended_children() -> float:
    times = psutil.Process().cpu_times()
    return float(times.children_user + times.children_system)
