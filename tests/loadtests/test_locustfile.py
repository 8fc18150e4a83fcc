"""The Locust file, run as its documentation says."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.measuring.counters import assert_counted, counted
from tests.service.conftest import running

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.check  # programs under load


def locust(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "locust", "-f", "loadtests/locustfile.py", "--headless"]
    return subprocess.run(
        [*command, *map(str, arguments)], cwd=ROOT, check=False, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip


def rows(file: Path) -> dict[tuple[str, str], dict[str, object]]:
    entries = json.loads(file.with_suffix(".json").read_text())
    return {(entry["method"], entry["name"]): entry for entry in entries}


def test_it_asks_the_mix_and_the_service_counts_the_same_requests(
    loaded_server, queries_file, tmp_path
):
    before = counted(loaded_server.url)
    ended = locust(
        "--host", loaded_server.url, "--queries", queries_file, "--users", 4, "--spawn-rate", 4,
        "--request-rate", 60, "--single", 3, "--batch", 1, "--batch-queries", 3,
        "--requests", 60, "--stop-timeout", 60, "--json-file", tmp_path / "found",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    found = rows(tmp_path / "found")
    searches = {name: entry for (kind, name), entry in found.items() if kind == "POST"}
    numbers = {name: entry["num_requests"] for name, entry in searches.items()}
    assert set(numbers) == {"/search single", "/search/batch batch"}
    assert sum(numbers.values()) == 60
    began = min(entry["start_time"] for entry in searches.values())
    assert max(entry["last_request_timestamp"] for entry in searches.values()) > began + 0.5
    asked = Counter(
        {
            ("/search", 200): numbers["/search single"],
            ("/search/batch", 200): numbers["/search/batch batch"],
        }
    )
    assert_counted(loaded_server.url, before + asked)
    stages = {name: entry for (kind, name), entry in found.items() if kind == "stage"}
    assert set(stages) == {
        "queue", "filter", "tokenise", "encode", "dense", "lexical", "fuse", "aggregate",
        "boost", "sort", "rerank", "fetch", "highlight", "total",
    }  # fmt: skip
    assert {entry["num_requests"] for entry in stages.values()} == {sum(numbers.values())}
    # Whole milliseconds would say nothing about them.
    assert any(not float(time).is_integer() for time in stages["encode"]["response_times"])


def test_rejections_are_rows_of_their_own_and_no_failures(small_index, queries_file, tmp_path):
    settings = {"threads": 1, "max_queued_queries": 1, "max_batch_queries": 1, "cache_bytes": 0}
    with running(small_index, **settings) as server:
        ended = locust(
            "--host", server.url, "--queries", queries_file, "--users", 12, "--spawn-rate", 12,
            "--requests", 200, "--stop-timeout", 60, "--json-file", tmp_path / "found",
        )  # fmt: skip
        found = rows(tmp_path / "found")
        rejected = found["rejected", "/search 429"]["num_requests"]
        answered = found["POST", "/search single"]["num_requests"]
        assert answered + rejected == 200
        asked = Counter({("/search", 200): answered, ("/search", 429): rejected})
        assert_counted(server.url, asked)
    assert ended.returncode == 0, ended.stderr
    assert rejected > 0
    assert found["rejected", "/search 429"]["num_failures"] == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--queries", "{queries}"], "no service is named; --host http://ADDRESS:PORT is expected"),
        (
            ["--host", "http://127.0.0.1:1", "--queries", "{queries}"],
            "no service answers at http://127.0.0.1:1/health/ready: Connection refused",
        ),
        (["--host", "{host}"], "no queries are named; --queries FILE is expected"),
    ],
)
def test_what_it_cannot_run_with_is_one_sentence(loaded_server, queries_file, arguments, sentence):
    names = {"host": loaded_server.url, "queries": queries_file}
    ended = locust(*(argument.format(**names) for argument in arguments))
    assert ended.returncode == 2
    lines = [line for line in ended.stderr.splitlines() if "/INFO/" not in line]
    assert lines == [f"loadtests: {sentence.format(**names)}"]
