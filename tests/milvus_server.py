"""Servers of Milvus in processes of their own: the whole server, and the small one in Python."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import psutil

from measuring.command_line import LoadTestError
from swiftlet.address import Address
from swiftlet.errors import IndexServerError
from swiftlet.servers.milvus.collection import Collection

PACKAGES = {"whole": "milvus", "lite": "milvus_lite"}
"""The kinds of servers, and the packages that have them."""

_SECONDS = 90
_TOKEN = "root:Milvus"  # of a new server
_ETCD_PORT = 2380  # the whole server takes no other one


def hindrance(kind: str) -> str:
    """Why a server of this kind cannot be started here; empty if it can."""
    if find_spec(PACKAGES[kind]) is None:
        return f"the package {PACKAGES[kind]} is not installed"
    if kind == "whole" and _is_open(_ETCD_PORT):
        return f"another server has the port {_ETCD_PORT}"
    return ""


def free_port() -> int:
    """A port of this machine that no program has now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _is_healthy(client: httpx.Client) -> bool:
    try:
        return client.get("/healthz").is_success
    except httpx.HTTPError:
        return False


@dataclass
class MilvusServer:
    """A server on a port of this machine, with its data in a folder.

    The `environment` has settings of the whole server, as `MQ_TYPE`.
    """

    kind: str
    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    environment: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    problem: str = ""
    _again: dict[str, Any] = field(default_factory=dict)

    @property
    def has_words(self) -> bool:
        """Whether its version has sparse vectors."""
        return self.kind == "lite"

    def address(self, collection: str) -> Address:
        """The address of one of its collections."""
        token = _TOKEN if self.kind == "whole" else ""
        return Address("milvus", "127.0.0.1", self.port, "", collection, token)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        binary, data = Path(sys.executable).parent, str(self.folder / "data")
        commands = {
            "whole": [
                binary / "milvus-server", "--data", data, "--proxy-port", str(self.port),
                "--authorization-enabled", "true",
            ],
            "lite": [
                binary / "milvus-lite", "server", "--data-dir", data, "--host", "127.0.0.1",
                "--port", str(self.port),
            ],
        }  # fmt: skip
        started = self._again or {
            "args": commands[self.kind],
            "env": {**os.environ, **self.environment},
        }
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                **started, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        end = time.monotonic() + _SECONDS
        while not self._answers():
            if time.monotonic() > end or self.process.poll() is not None:
                self.kill()
                raise LoadTestError(f"Milvus did not start ({self.problem}): {self.folder}")
            time.sleep(0.2)

    def start_query_node(self) -> subprocess.Popen[bytes]:
        """Start a second process of the whole server, which has a part of the passages.

        The `environment` must name a Kafka, since the processes exchange messages.
        """
        (child,) = psutil.Process(self.process.pid if self.process else 0).children()
        port = free_port()
        changes = {
            "ETCD_USE_EMBED": "false",
            "METRICS_PORT": f"{port}",
            "QUERYNODE_PORT": f"{free_port()}",
        }
        command = [child.exe(), "run", "querynode"]
        with (self.folder / "log").open("ab") as log:
            node = subprocess.Popen(
                command, env=child.environ() | changes, cwd=child.cwd(), stdout=log, stderr=log
            )
        end = time.monotonic() + _SECONDS
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
            while not _is_healthy(client):
                if time.monotonic() > end or node.poll() is not None:
                    node.kill()
                    raise LoadTestError(f"the query node of Milvus did not start: {self.folder}")
                time.sleep(0.2)
        return node

    def kill(self) -> None:
        """End it and its child processes at once."""
        if self.process is None:
            return
        children = psutil.Process(self.process.pid).children()
        for child in filter(_is_alive, children):
            # The program around the whole server would take another port while old connections
            # to this one are closing, so it is left out from now on.
            self._again = {"args": child.cmdline(), "env": child.environ(), "cwd": child.cwd()}
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=_SECONDS)
        self.process = None
        # The threads of a process that has ended may have its ports for some more seconds.
        ports = [self.port, _ETCD_PORT] if self.kind == "whole" else [self.port]
        while any(map(_is_alive, children)) or any(map(_is_open, ports)):
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            Collection(self.address("none")).exists()
        except IndexServerError as error:
            self.problem = f"{error}"
            return False
        return True
