"""The resilience tests in small, and the bounds that the service keeps in them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.check  # programs under load


def resilience(
    index: Path, queries: Path, out: Path, run: str, *arguments: object
) -> tuple[dict[str, Any], dict[str, tuple[str, bool]]]:
    """The raw figures of a run; of each bound the measured value, and whether it was kept."""
    command = [sys.executable, "-m", "loadtests.resilience", run, "--index", index]
    command += ["--queries", queries, "--raw", out / "page.json", "--rate", 40, *arguments]
    ended = subprocess.run(
        list(map(str, command)), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (out / "page.json").exists(), ended.stderr
    ((heading, figures),) = json.loads((out / "page.json").read_text())["sections"].items()
    bounds = {bound["name"]: (bound["measured"], bound["kept"]) for bound in figures["bounds"]}
    assert ended.returncode == (not all(kept for _, kept in bounds.values())), ended.stderr
    page = (out / "page.md").read_text()
    assert f"\n## {heading}\n\nMade by `python -m loadtests.resilience {run} " in page
    assert page.count("| kept") + page.count("**missed**") == len(bounds)
    return figures, bounds


def test_stops_under_load_lose_nothing(small_index, queries_file, tmp_path):
    figures, bounds = resilience(small_index, queries_file, tmp_path, "stops", "--stops", 2)
    assert all(kept for _, kept in bounds.values()), bounds
    assert figures["statuses"]["200"] > 0


def test_reloads_under_load_fail_no_search_and_are_counted(small_index, queries_file, tmp_path):
    _, bounds = resilience(small_index, queries_file, tmp_path, "reloads", "--reloads", 6)
    assert bounds["requests that failed"] == ("0", True)
    counted = bounds["reloads by outcome, as the metric counts them"]
    assert counted == ("bad_manifest 1, corrupt_file 2, loaded 3", True)


def test_memory_is_sampled_while_one_query_keeps_its_bytes(small_index, queries_file, tmp_path):
    figures, bounds = resilience(small_index, queries_file, tmp_path, "memory", "--minutes", 0.1)
    assert bounds["distinct answers to one query"] == ("1", True)
    assert figures["own_bytes"]["most"] < figures["resident_bytes"]["last"]


@pytest.mark.soak
def test_documents_change_while_searches_arrive_and_are_found_as_in_a_fresh_build(
    small_index, queries_file, tmp_path
):
    figures, bounds = resilience(
        small_index, queries_file, tmp_path, "churn", "--churn-minutes", 0.1, "--cores", 2
    )
    assert figures["documents"] == 60
    assert figures["merges"]["merged"] > 0
    assert bounds["recall@10 below that of a fresh build"] == ("0.0000", True)
    for name in ("batches that the next search did not find", "searches not answered 200"):
        assert bounds[name] == ("0", True)
    assert "until another service finds a put" in bounds
    assert all(len(row) == 4 and all(row[:2]) for row in figures["samples"])


def test_overload_is_answered_as_documented_and_sends_as_much_as_it_offers(
    small_index, queries_file, tmp_path
):
    figures, bounds = resilience(
        small_index, queries_file, tmp_path, "overload", "--seconds", 2, "--rate", 150, "--cores", 2
    )
    assert bounds["statuses other than 200, 429, 503, 504"] == ("none", True)
    assert figures["offered"] == pytest.approx(4 * 150 * 2, rel=0.2)
    assert figures["answered"] + figures["refused"] <= figures["offered"]
    assert figures["sent"] <= figures["offered"]
    expected = figures["sent"] / 2 / 150
    assert figures["sent_times"] == pytest.approx(expected)
    page = " ".join((tmp_path / "page.md").read_text().split())
    assert f"sent {expected:.1f} times as many searches as the service can answer" in page


@pytest.mark.soak
def test_a_quiet_index_answers_beside_a_busy_one(small_index, queries_file, tmp_path):
    figures, bounds = resilience(
        small_index, queries_file, tmp_path,
        "neighbours", "--round-seconds", 1, "--rate", 200, "--cores", 2,
    )  # fmt: skip
    assert bounds["statuses of the quiet index other than 200"] == ("none", True)
    assert figures["rate"] == pytest.approx(10)
    assert figures["busy_rate"] > 0
    assert all(len(of) == 5 for each in figures["each"].values() for of in each.values())


def test_starts_are_timed_and_memory_is_measured(small_index, queries_file, tmp_path):
    figures, bounds = resilience(small_index, queries_file, tmp_path, "starts", "--starts", 1)
    assert figures["seconds"]["median"] > 0
    assert bounds["resident memory beyond the index"][1]
