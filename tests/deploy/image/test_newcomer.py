"""A newcomer's path, as README.md has it: clone, run, search, load.

CI builds the image in a fresh clone, as a newcomer does.
"""

import socket
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.deploy.image.containers import ROOT, docker
from tests.test_readme import commands_of

SMALL = ["DURATION=1", "RATES=50 150"]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with the committed files alone."""
    subprocess.run(["git", "clone", "--quiet", ROOT, tmp_path / "swiftlet"], check=True)
    return tmp_path / "swiftlet"


@pytest.mark.timeout(2400)  # the environment, the demo's index and the load take long
def test_clone_run_search_and_load(clone: Path, image: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = commands_of("docker")[0]
    options = [
        each.replace(":8080:", f":{port}:") for each in command[command.index("run") + 1 : -1]
    ]
    container = docker("run", "--detach", *options, image).strip()
    try:
        (curl,) = commands_of("curl")
        request = [each.replace(":8080", f":{port}") for each in curl]
        answer = subprocess.run(
            [*request, "--retry", "60", "--retry-delay", "1", "--retry-all-errors"],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        assert httpx.Response(200, content=answer).json()["hits"][0]["document_id"] == "collections"
    finally:
        docker("rm", "--force", container)
    make(clone, "loadtest", *SMALL)
    report = (clone / "runs" / "loadtest" / "report.md").read_text()
    assert "150" in report


def make(clone: Path, *arguments: str) -> None:
    result = subprocess.run(
        ["make", *arguments], cwd=clone, check=False, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
