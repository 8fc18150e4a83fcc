"""A newcomer's path, as README.md has it: clone, build, run, search, load."""

import socket
import subprocess
import uuid
from collections.abc import Iterator
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


@pytest.fixture
def tag() -> Iterator[str]:
    """A name for an image of one's own, which is removed in the end."""
    name = f"swiftlet-newcomer-{uuid.uuid4().hex}"
    yield name
    docker("rmi", "--force", name)


@pytest.mark.timeout(1200)  # the environment, the demo's index and the load take long
def test_clone_build_run_search_and_load(clone: Path, tag: str, base_image: str) -> None:
    make(clone, "image", f"TAG={tag}", f"BASE_IMAGE={base_image}", "NETWORK=host")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = commands_of("docker")[0]
    options = [
        each.replace(":8080:", f":{port}:") for each in command[command.index("run") + 1 : -1]
    ]
    container = docker("run", "--detach", *options, tag).strip()
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
