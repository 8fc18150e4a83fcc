"""The service against its own document, with requests that Schemathesis makes of it."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "contract.py"


def test_hundreds_of_requests_right_and_wrong_are_answered_as_documented(
    locked_server: Any, client: Any, tmp_path: Path
) -> None:
    keys = locked_server.settings
    command = [sys.executable, SCRIPT, "--url", locked_server.url]
    command += ["--search-key", keys["search_keys"], "--admin-key", keys["admin_keys"]]
    command += ["--clients", "1", "--cases", "1", "--per-route", "5"]  # one round of one client
    command += ["--out", tmp_path / "page.md"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    cases, requests, failures = re.search(
        r"^(\S+) cases, (\S+) requests, (\S+) failures", run.stdout, re.MULTILINE
    ).groups()
    assert int(failures) == 0
    assert 300 < int(cases) <= int(requests.replace(",", ""))
    answered = dict(re.findall(r"^\| `(/.*?)` \| (\d+) \|", run.stdout, re.MULTILINE))
    assert set(answered) == set(client.get("/openapi.json").json()["paths"])
    assert "contract.py --cases 1 --per-route 5 --clients 1" in (tmp_path / "page.md").read_text()
    assert all(int(count) for count in answered.values())
