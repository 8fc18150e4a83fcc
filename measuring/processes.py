"""The services under test: starts them on cores of their own, observes them, stops them."""

import os
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

import psutil

from measuring.command_line import LoadTestError, held_back

READY_PATH = "/health/ready"
START_TIMEOUT_SECONDS = 180.0
_STOP_TIMEOUT_SECONDS = 60.0
_POLL_SECONDS = 0.005
_REQUEST_TIMEOUT_SECONDS = 60.0
_LOOPBACK = "127.0.0.1"
# An installation has compiled modules, so a checkout may write them.
_UNSET = ("SWIFTLET_", "PYTHONDONTWRITEBYTECODE")
# Without a proxy: it could not reach this machine's own address.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(slots=True)
class Service:
    """A running service; its process leads a group that contains all processes it starts.

    `seconds_to_ready` is the time from its start to the first 200 of its readiness path.
    """

    process: psutil.Popen
    address: str
    command: str
    log_file: Path
    seconds_to_ready: float = 0.0

    @property
    def cpu_seconds(self) -> float:
        """Processor time of the service and its children so far, of all cores.

        :raises LoadTestError: When it has ended.
        """
        self.check()
        return sum(sum(each.info["cpu_times"][:4]) for each in _group(self.process.pid))

    def resident_bytes(self, *, without: Path | None = None) -> int:
        """Its resident memory; what its processes share counts once.

        Processes that it has started by another command do not count. `without` leaves out the
        mapped files below a folder.
        """
        command = self.process.cmdline()
        forked = [each for each in self.process.children() if each.cmdline() == command]
        own, files = 0, 0
        for process in (self.process, *forked):
            resident, anonymous, shared = _resident(process.pid)
            maps = process.memory_maps() if without is not None else ()
            mapped = sum(each.rss for each in maps if Path(each.path).is_relative_to(without or ""))
            own += shared
            files = max(files, resident - anonymous - mapped)
        return own + files

    def check(self, timeout: float = 0.0) -> None:
        """Check that it still runs, and keeps running for `timeout` seconds.

        :raises LoadTestError: When it has ended.
        """
        with suppress(subprocess.TimeoutExpired, psutil.TimeoutExpired):
            self.process.wait(timeout)
            raise LoadTestError(f"the service has ended: {self.command}")


@contextmanager
def running(
    command: str,
    *,
    ready_path: str = READY_PATH,
    cores: Collection[int],
    settings: Mapping[str, str] | None = None,
    start_timeout: float = START_TIMEOUT_SECONDS,
) -> Iterator[Service]:
    """The service that `command` starts, `{port}` in it being a free one; stopped with the block.

    All processes that the command starts are stopped with it. Each process uses one thread for
    arithmetic unless it decides otherwise. Of Swiftlet's variables only `settings` are set, and
    compiled modules may be written.

    :raises LoadTestError: When the command cannot be started, or `ready_path` is not answered 200
        within `start_timeout` seconds.
    """
    with socket.create_server((_LOOPBACK, 0)) as free:
        port = free.getsockname()[1]
    words = words_of(command.replace("{port}", str(port)))
    others = {name: value for name, value in os.environ.items() if not name.startswith(_UNSET)}
    variables = {"OMP_NUM_THREADS": "1", **others, **(settings or {})}
    with tempfile.NamedTemporaryFile() as log:
        began = time.perf_counter()
        try:
            with pinned(cores):
                process = psutil.Popen(
                    words, env=variables, stdout=log, stderr=subprocess.STDOUT, process_group=0
                )
        except OSError as error:
            raise LoadTestError(f"{words[0]} cannot be started: {error.strerror}") from error
        try:
            service = Service(process, f"http://{_LOOPBACK}:{port}", command, Path(log.name))
            _await_ready(service, ready_path, start_timeout)
            service.seconds_to_ready = time.perf_counter() - began
            yield service
        finally:
            with held_back():
                _stop(process)


def words_of(command: str) -> list[str]:
    """The words of a command, as a shell divides it.

    :raises LoadTestError: When it is blank, or a quotation has no end.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise LoadTestError(f"the command {command!r} cannot be parsed: {error}") from error
    if not words:
        raise LoadTestError(f"the command {command!r} is blank; at least 1 word is expected")
    return words


@contextmanager
def pinned(cores: Collection[int]) -> Iterator[None]:
    """Run this thread, and processes that it starts, on `cores` within the block."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def swiftlet_command(index: Path, encoder: Path | None) -> str:
    """`swiftlet serve` of this environment."""
    words = [sys.executable, "-m", "swiftlet", "serve", str(index)]
    words += [] if encoder is None else ["--encoder", str(encoder)]
    return f"{shlex.join(words)} --port {{port}}"


def get(url: str) -> bytes:
    """The body of a page that is answered 200.

    :raises LoadTestError: When it is not.
    """
    status, body = call(url)
    if status != 200:
        raise LoadTestError(f"{url} is answered {status}; 200 is expected")
    return body


def call(
    url: str, body: bytes | None = None, *, method: str | None = None, key: str = ""
) -> tuple[int, bytes]:
    """Status and body of one answer; `key` is sent as a bearer token.

    :raises LoadTestError: When there is no answer.
    """
    headers = {"Content-Type": "application/json"}
    headers |= {"Authorization": f"Bearer {key}"} if key else {}
    try:
        request = urllib.request.Request(url, body, headers, method=method)
        with _OPENER.open(request, timeout=_REQUEST_TIMEOUT_SECONDS) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        why = getattr(reason, "strerror", None) or reason
        raise LoadTestError(f"no service answers at {url}: {why}") from error


def _await_ready(service: Service, path: str, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while True:
        ended = service.process.poll() is not None
        written = service.log_file.read_text("utf-8", errors="replace").strip()
        last_line = (written.splitlines() or ["it wrote nothing"])[-1]
        if ended:
            was = f"the service ended before it was ready ({service.command})"
            raise LoadTestError(f"{was}: {last_line}")
        try:
            get(service.address + path)
        except LoadTestError as error:
            if time.monotonic() > deadline:
                was = f"the service was not ready within {timeout:g} s ({service.command})"
                raise LoadTestError(f"{was}: {last_line}; {error}") from error
            time.sleep(_POLL_SECONDS)
        else:
            return


def _resident(pid: int) -> tuple[int, int, int]:
    """Bytes of a process: resident ones, those of no file, and its share of those."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    resident, anonymous, shared = (kilobytes[name] for name in ("Rss", "Anonymous", "Pss_Anon"))
    return 1024 * resident, 1024 * anonymous, 1024 * shared


def _group(leader: int) -> list[psutil.Process]:
    """The processes of a group that have not ended."""
    found = []
    for process in psutil.process_iter(["status", "cpu_times"]):
        with suppress(OSError):  # it has ended meanwhile
            ended = process.info["status"] == psutil.STATUS_ZOMBIE
            if os.getpgid(process.pid) == leader and not ended:
                found.append(process)
    return found


def _stop(leader: psutil.Popen) -> None:
    """Stop a group with SIGTERM; processes that do not end in time are killed."""
    deadline = time.monotonic() + _STOP_TIMEOUT_SECONDS
    with suppress(ProcessLookupError):
        os.killpg(leader.pid, signal.SIGTERM)
    while _group(leader.pid):
        if time.monotonic() > deadline:
            os.killpg(leader.pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
    leader.wait()
