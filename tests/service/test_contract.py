"""The service against its own OpenAPI document, with requests by Schemathesis.

All checks of Schemathesis at every route: documented statuses, media types, headers and schemas;
requests that the document allows are accepted, others refused, and none is answered without a key.
The variable CONTRACT_CASES sets how many cases each route gets at most: 1500 makes some 13,000.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from measuring.processes import get
from tests.measuring.counters import counted
from tests.service.conftest import Server, running

HOOKS = Path(__file__).with_name("contract_hooks.py")
CASES = int(os.environ.get("CONTRACT_CASES", "5"))
MOST_RELOADS = 10

# The document differs from the defaults of Schemathesis: 503 and 504 are answers of a busy
# service, and a batch that is too long is answered 413. A reload takes as long as hundreds of
# searches and has hardly any parameters.
SETTINGS = """
hooks = {hooks}
suppress-health-check = ["all"]
request-timeout = 60
[auth.openapi.SWIFTLET_SEARCH_KEYS]
bearer = {search_key}
[auth.openapi.SWIFTLET_ADMIN_KEYS]
bearer = {admin_key}
[auth.openapi.SWIFTLET_WRITE_KEYS]
bearer = {write_key}
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 503, 504]
[checks.negative_data_rejection]
expected-statuses = ["4xx", 503, 504]
[generation]
max-examples = {cases}
[[operations]]
include-path = "/admin/reload"
generation.max-examples = {reloads}
"""


@pytest.fixture
def server_of_its_own(small_index, reranker_directory, tmp_path) -> Iterator[Server]:
    """A server with an index that the requests may change."""
    index = shutil.copytree(small_index, tmp_path / "index")
    keys = {f"{name}_keys": f"the-{name}-key-of-the-tests" for name in ("search", "admin", "write")}
    with running(index, reranker=reranker_directory, **keys) as server:
        yield server


@pytest.mark.check
def test_hundreds_of_requests_right_and_wrong_are_answered_as_documented(
    server_of_its_own, tmp_path
):
    keys = server_of_its_own.settings
    document, report = tmp_path / "openapi.json", tmp_path / "report.json"
    # From a file, because Schemathesis does not test the route that it loads the document from.
    document.write_bytes(get(f"{server_of_its_own.url}/openapi.json"))
    (tmp_path / "schemathesis.toml").write_text(
        SETTINGS.format(
            hooks=json.dumps(str(HOOKS)),
            search_key=json.dumps(keys["search_keys"]),
            admin_key=json.dumps(keys["admin_keys"]),
            write_key=json.dumps(keys["write_keys"]),
            cases=CASES,
            reloads=min(CASES, MOST_RELOADS),
        )
    )
    before = counted(server_of_its_own.url, prefix="/")
    ended = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "run", document, "--url", server_of_its_own.url,
         "--seed", "1", "--phases", "coverage,fuzzing", "--continue-on-failure", "--no-color",
         "--generation-database", "none", "--report", "json", "--report-json-path", report],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = json.loads(report.read_text())
    assert found["complete"]
    assert (found["failures"], found["errors"]) == ([], [])
    asked = counted(server_of_its_own.url, prefix="/") - before
    assert 300 < found["test_cases"]["generated"] <= sum(asked.values())
    for route in json.loads(document.read_bytes())["paths"]:
        assert asked.get((route, 200), 0) > 0, route
