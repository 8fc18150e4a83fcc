"""The services that are loaded: started on cores of their own, awaited, counted, ended."""

import math
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from loadtests.command_line import LoadTestError
from loadtests.signals import held_back

START_TIMEOUT_SECONDS = 180.0
_STOP_TIMEOUT_SECONDS = 60.0
_POLL_SECONDS = 0.02
_REQUEST_TIMEOUT_SECONDS = 10.0
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_COUNTED = re.compile(
    r'^swiftlet_requests_total\{route="([^"]+)",status="(\d+)"\} (\S+)$', re.MULTILINE
)
_LOOPBACK = "127.0.0.1"
# Without a proxy, which could not reach this machine's own address.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class Service:
    """A running service; its process leads a group of its own, with whatever it starts."""

    process: subprocess.Popen[bytes]
    address: str
    command: str

    @property
    def cpu_seconds(self) -> float:
        """What its processes have taken so far, of all cores.

        :raises LoadTestError: When it has ended.
        """
        self.check()
        return sum(each.cpu_seconds for each in _group(self.process.pid))

    def check(self, timeout: float = 0.0) -> None:
        """See whether it still runs, and goes on to for `timeout` seconds.

        :raises LoadTestError: When it has ended.
        """
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout)
            raise LoadTestError(f"the service has ended: {self.command}")


@contextmanager
def running(
    command: str,
    *,
    ready_path: str,
    cores: Collection[int],
    settings: Mapping[str, str] | None = None,
    start_timeout: float = START_TIMEOUT_SECONDS,
) -> Iterator[Service]:
    """The service that `command` starts, `{port}` in it being a free one; ended with the block.

    What the command starts in turn is ended with it. Each process takes one thread for arithmetic,
    unless it decides otherwise itself. Of Swiftlet's variables only those in `settings` are set.

    :raises LoadTestError: When the command cannot be started, or `ready_path` is not answered 200
        within `start_timeout` seconds.
    """
    port = _free_port()
    words = words_of(command.replace("{port}", str(port)))
    others = {name: value for name, value in os.environ.items() if not name.startswith("SWIFTLET_")}
    with tempfile.TemporaryFile() as log:
        try:
            with pinned(cores):
                process = subprocess.Popen(
                    words,
                    env={"OMP_NUM_THREADS": "1", **others, **(settings or {})},
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    process_group=0,
                )
        except OSError as error:
            raise LoadTestError(f"{words[0]} cannot be started: {error.strerror}") from error
        service = Service(process, f"http://{_LOOPBACK}:{port}", command)
        try:
            _await_ready(service, ready_path, start_timeout, log.fileno())
            yield service
        finally:
            with held_back():
                _end(process)


def words_of(command: str) -> list[str]:
    """The words of a command, as a shell divides it.

    :raises LoadTestError: When there are none, or a quotation has no end.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise LoadTestError(f"the command {command!r} is not to be read: {error}") from error
    if not words:
        raise LoadTestError(f"the command {command!r} is blank; at least 1 word is expected")
    return words


@contextmanager
def pinned(cores: Collection[int]) -> Iterator[None]:
    """Processes that are started within the block stay on `cores`."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def swiftlet_command(index: Path, encoder: Path | None) -> str:
    """`swiftlet serve` of this environment."""
    words = [sys.executable, "-m", "swiftlet", "serve", str(index), "--port", "{port}"]
    return shlex.join(words + ([] if encoder is None else ["--encoder", str(encoder)])).replace(
        "'{port}'", "{port}"
    )


def requests_counted(service: Service) -> dict[tuple[str, int], int] | None:
    """How many requests the service has counted by route and status; None if it does not say."""
    try:
        text = get(f"{service.address}/metrics").decode()
    except LoadTestError:
        return None
    found = {
        (path, int(status)): int(float(count)) for path, status, count in _COUNTED.findall(text)
    }
    return found or None


def get(url: str) -> bytes:
    """The body of a page that is answered 200.

    :raises LoadTestError: When it is not.
    """
    try:
        with _OPENER.open(url, timeout=_REQUEST_TIMEOUT_SECONDS) as answer:
            body: bytes = answer.read()
            return body
    except urllib.error.HTTPError as error:
        raise LoadTestError(f"{url} is answered {error.code}; 200 is expected") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise LoadTestError(
            f"nobody answers at {url}: {getattr(reason, 'strerror', None) or reason}"
        ) from error


def _await_ready(service: Service, path: str, timeout: float, log: int) -> None:
    deadline = time.monotonic() + timeout
    while service.process.poll() is None:
        try:
            get(service.address + path)
        except LoadTestError as error:
            if time.monotonic() > deadline:
                raise LoadTestError(
                    f"the service was not ready within {timeout:g} s ({service.command}): "
                    f"{_last_line(log)}; {error}"
                ) from error
            time.sleep(_POLL_SECONDS)
        else:
            return
    raise LoadTestError(
        f"the service ended before it was ready ({service.command}): {_last_line(log)}"
    )


class _Process(NamedTuple):
    """A process; its CPU time includes that of children which have ended."""

    has_ended: bool
    cpu_seconds: float


def _group(leader: int) -> list[_Process]:
    """The processes of a group."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            state, _, group, *others = file.read_text().rpartition(")")[2].split()
            if int(group) == leader:
                cpu_seconds = sum(map(int, others[8:12])) / _TICKS_A_SECOND
                found.append(_Process(state in "ZX", cpu_seconds))
    return found


def _end(leader: subprocess.Popen[bytes]) -> None:
    """End a group; those of it that do not end when they are asked to, are made to."""
    for way, seconds in ((signal.SIGTERM, _STOP_TIMEOUT_SECONDS), (signal.SIGKILL, math.inf)):
        with suppress(ProcessLookupError):
            os.killpg(leader.pid, way)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not all(p.has_ended for p in _group(leader.pid)):
            time.sleep(_POLL_SECONDS)
    leader.wait()


def _free_port() -> int:
    with socket.create_server((_LOOPBACK, 0)) as free:
        port: int = free.getsockname()[1]
        return port


def _last_line(log: int) -> str:
    text = Path(f"/proc/self/fd/{log}").read_text("utf-8", errors="replace").strip()
    return text.splitlines()[-1] if text else "it said nothing"
