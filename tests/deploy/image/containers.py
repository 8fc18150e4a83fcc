"""Containers of an image, started and inspected by the docker program."""

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.polling import is_answered

ROOT = Path(__file__).parents[3]
TIMEOUT_SECONDS = 60


class Container:
    """A container that was started, and may have ended since."""

    def __init__(self, *arguments: object) -> None:
        """Start it by `docker run --detach` and these arguments."""
        self.id = docker("run", "--detach", *arguments).strip()

    @property
    def address(self) -> str:
        """Where its service listens, without what Docker forwards published ports with."""
        return f"http://{self.inspect('.NetworkSettings.IPAddress')}:8000"

    @property
    def log(self) -> str:
        """Its standard error."""
        command = ["docker", "logs", self.id]
        return subprocess.run(command, check=True, capture_output=True, text=True).stderr

    def inspect(self, field: str) -> Any:
        """A field of `docker inspect`, such as `.State.Running`."""
        return json.loads(docker("inspect", "--format", f"{{{{json {field}}}}}", self.id))

    def run(self, *command: object) -> str:
        """The output of a command inside it."""
        return docker("exec", self.id, *command)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds, while the container runs."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not condition():
            assert self.inspect(".State.Running"), self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.05)

    def wait_until_ready(self) -> None:
        """Wait until its service answers searches."""
        self.wait_until(lambda: is_answered(f"{self.address}/health/ready"))

    def wait_until_healthy(self) -> None:
        """Wait until its own health check reports that it is healthy."""
        self.wait_until(lambda: self.inspect(".State.Health.Status") == "healthy")

    def ended(self) -> int:
        """Its exit status, once it has ended."""
        return int(docker("wait", self.id))

    def refusal(self) -> str:
        """The one sentence of its error."""
        assert self.ended() == 2, self.log
        sentences = [line for line in self.log.splitlines() if line.startswith("swiftlet: ")]
        assert len(sentences) == 1, self.log
        assert "Traceback" not in self.log
        return sentences[0].removeprefix("swiftlet: ")

    def remove(self) -> None:
        """Stop it, and remove it with its anonymous volumes."""
        docker("rm", "--force", "--volumes", self.id)


def docker(*arguments: object) -> str:
    """The output of `docker …`, which must succeed."""
    result = subprocess.run(
        ["docker", *map(str, arguments)], check=False, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def build(
    tag: str, base_image: str, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs the build of `make image`, with further arguments of `docker build`."""
    return subprocess.run(
        [ROOT / "deploy" / "image" / "build", tag, base_image, "host", *arguments],
        check=False, capture_output=True, text=True, env={**os.environ, **environment},
    )  # fmt: skip
