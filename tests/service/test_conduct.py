"""What docs/results/service.md says of the service's conduct, shown in small by the same script."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import TOPICS

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "conduct.py"


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    """Queries in the place of people's."""
    folder = tmp_path / "data" / "web-queries"
    folder.mkdir(parents=True)
    queries = [{"_id": topic, "text": text} for topic, text in TOPICS.items()]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)), "utf-8")
    return folder.parent


def conduct(index: Path, data: Path, *arguments: object) -> dict[str, tuple[str, str]]:
    """What was measured, and "kept" or "**missed**", of each bound."""
    page = data / "page.md"
    command = [sys.executable, SCRIPT, "--data", data, "--index", index, "--out", page]
    command += ["--queries", len(TOPICS), "--rate", 40, *arguments]
    run = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if "SWIFTLET" not in name},
    )
    assert page.exists(), run.stderr
    rows = re.findall(r"^\| (.+?) \| (.+?) \| .+? \| (.+?) \|$", page.read_text(), re.MULTILINE)
    bounds = {
        what: (measured, kept) for what, measured, kept in rows if "kept" in kept or "*" in kept
    }
    missed = any(kept != "kept" for _, kept in bounds.values())
    assert run.returncode == missed, run.stderr
    return bounds


def test_stops_under_load_lose_nothing(small_index: Path, collection: Path) -> None:
    bounds = conduct(small_index, collection, "stop", "--stops", 2)
    assert {kept for _, kept in bounds.values()} == {"kept"}, bounds


def test_reloads_under_load_fail_no_search_and_are_counted(
    small_index: Path, collection: Path
) -> None:
    bounds = conduct(small_index, collection, "reload", "--reloads", 6)
    assert bounds["requests that failed"] == ("0", "kept")
    counted = bounds["reloads by outcome, as the metric counts them"]
    assert counted == ("bad_manifest 1, corrupt_file 2, loaded 3", "kept")


def test_memory_is_watched_while_one_query_keeps_its_bytes(
    small_index: Path, collection: Path
) -> None:
    bounds = conduct(small_index, collection, "memory", "--minutes", 0.1)
    assert bounds["different answers to one query"] == ("1", "kept")


def test_overload_is_answered_as_documented(small_index: Path, collection: Path) -> None:
    bounds = conduct(small_index, collection, "overload", "--seconds", 2, "--rate", 200)
    assert bounds["statuses but for 200, 429, 503, 504"] == ("none", "kept")


def test_a_prometheus_counts_what_was_sent(small_index: Path, collection: Path) -> None:
    if shutil.which("prometheus") is None:
        message = "prometheus is needed; on Debian: apt-get install prometheus"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    bounds = conduct(small_index, collection, "prometheus", "--seconds", 3)
    assert bounds["routes and statuses counted otherwise than sent"] == ("0", "kept")
    assert bounds["routes whose histogram counts otherwise than sent"] == ("0", "kept")


def test_starts_are_timed_and_memory_is_measured(small_index: Path, collection: Path) -> None:
    bounds = conduct(small_index, collection, "start", "--starts", 1)
    assert re.fullmatch(r"[0-9.]+ s", bounds["start to ready, the longest"][0])
    assert bounds["resident memory beyond the index"][1] == "kept"
