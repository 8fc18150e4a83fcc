"""A real Prometheus with the rules and the scrape configuration of deploy/prometheus."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.deploy.tools import DEPLOY, path_of
from tests.polling import is_answered, wait_until

TIMEOUT_SECONDS = 60
"""Long enough for a busy machine."""


@dataclass(frozen=True)
class Prometheus:
    """The address of a running Prometheus, and its queries."""

    url: str

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer of its API, which must be a success."""
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=parameters, timeout=TIMEOUT_SECONDS)
        assert answer.json()["status"] == "success", (parameters, answer.json())
        return answer.json()["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that an expression has now."""
        result: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return result


@contextmanager
def scraping(target: str, folder: Path) -> Iterator[Prometheus]:
    """A Prometheus with its data in `folder` that has scraped `target`, and does so every second.

    Apart from that, its configuration is deploy/prometheus/prometheus.yml.
    """
    shutil.copytree(DEPLOY / "prometheus", folder / "configuration")
    configuration = folder / "configuration" / "prometheus.yml"
    settings = yaml.safe_load(configuration.read_text())
    settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    (job,) = settings["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["swiftlet:8000"]}]
    job["static_configs"] = [{"targets": [target]}]
    configuration.write_text(yaml.safe_dump(settings))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    ready, log = f"http://{address}/-/ready", folder / "log.txt"
    with log.open("w") as output:
        process = subprocess.Popen(
            [
                path_of("prometheus"),
                f"--config.file={configuration}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={address}",
            ],
            stdout=output,
            stderr=output,
        )
    try:
        wait_until(lambda: process.poll() is not None or is_answered(ready))
        assert process.poll() is None, log.read_text()
        prometheus = Prometheus(f"http://{address}")
        wait_until(lambda: prometheus.query('up{job="swiftlet"} == 1'))
        yield prometheus
    finally:
        process.terminate()
        process.wait(timeout=100)
