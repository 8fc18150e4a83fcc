"""The real service, servers of known latency, and queries."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TOPICS
from tests.service.conftest import Server, running

PACED_SERVER = Path(__file__).with_name("paced_server.py")


@pytest.fixture(scope="module")
def loaded_server(small_index) -> Iterator[Server]:
    """The service, whose counters only the tests of one module move."""
    with running(small_index, cache_bytes=0, threads=1, timeout_ms=60_000) as server:
        yield server


@pytest.fixture
def paced_server() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts servers of known latency; the first line that they print is their address."""
    servers = []

    def start(**options: Any) -> subprocess.Popen[str]:
        words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        servers.append(
            subprocess.Popen(
                [sys.executable, str(PACED_SERVER), *words], stdout=subprocess.PIPE, text=True
            )
        )
        return servers[-1]

    yield start
    for server in servers:
        server.kill()
        server.wait()
        server.stdout.close()


@pytest.fixture(scope="session")
def queries_file(tmp_path_factory) -> Path:
    """One query a line."""
    file = tmp_path_factory.mktemp("queries") / "queries.txt"
    file.write_text("\n".join(TOPICS.values()))
    return file
