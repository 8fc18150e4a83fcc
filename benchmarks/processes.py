"""The processes that are compared: services of one tree or another, and searches without HTTP."""

import http.client
import io
import json
import os
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[1]
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
START_TIMEOUT_SECONDS = 120
POLL_SECONDS = 0.002
MEBIBYTE = 2**20
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


@dataclass(frozen=True, slots=True)
class Service:
    """A service in a process of its own, on cores of its own."""

    process: subprocess.Popen[str]
    address: str
    seconds_to_ready: float

    @property
    def cpu_seconds(self) -> float:
        """What the process has taken so far, of all cores."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND

    def resident_mib(self, *, without: Path) -> float:
        """Resident memory, but for the files below `without` that are mapped into it."""
        resident, counts = 0, True
        for line in Path(f"/proc/{self.process.pid}/smaps").read_text().splitlines():
            name, *values = line.split()
            if not name.endswith(":"):
                counts = not (len(values) > 4 and Path(values[4]).is_relative_to(without))
            elif name == "Rss:" and counts:
                resident += int(values[0]) * 1024
        return resident / MEBIBYTE

    def close(self) -> None:
        """End the process and wait for it."""
        self.process.terminate()
        self.process.wait(timeout=START_TIMEOUT_SECONDS)


class InProcess:
    """`Searcher.search` in a process of its own, without any HTTP."""

    def __init__(
        self, tree: Path, index: Path, encoder: Path, queries: Path, cores: Collection[int]
    ) -> None:
        """Open the index with the searcher of `tree`, to search for a JSON list of `queries`."""
        self._process = subprocess.Popen(
            [*_on(cores), sys.executable, "-P", str(Path(__file__).with_name("in_process.py")),
             str(index), str(encoder), str(queries)],
            env=_environment(tree),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        self.run()

    def run(self) -> list[float]:
        """Seconds of each search, one after the other."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        seconds: list[float] = json.loads(self._process.stdout.readline())
        return seconds

    def close(self) -> None:
        """End the process and wait for it."""
        self._process.communicate()


def serve(
    tree: Path, index: Path, encoder: Path, cores: Collection[int], **settings: object
) -> Service:
    """`swiftlet serve` of the sources in `tree`, with a thread for each core and without a cache.

    The queries repeat themselves, and a cache would answer for the encoder.
    """
    settings = {"threads": len(cores), "cache_bytes": 0, **settings}
    variables = {f"SWIFTLET_{name.upper()}": str(value) for name, value in settings.items()}
    arguments = ["-m", "swiftlet", "serve", str(index), "--encoder", str(encoder), "--port", "0"]
    began = time.perf_counter()
    process = subprocess.Popen(
        [*_on(cores), sys.executable, "-P", *arguments],
        env=_environment(tree) | variables,
        cwd=tree,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "listening on " in line:
            address = line.split("listening on ")[1].strip()
            return _ready(process, address, "/health/ready", began)
    raise SystemExit("the service did not start")


def serve_plain(corpus: Path, model: Path, cores: Collection[int]) -> Service:
    """The plain service over the passages and embeddings in `corpus`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    began = time.perf_counter()
    process = subprocess.Popen(
        [*_on(cores), sys.executable, "-m", "uvicorn", "plain:app", "--port", str(port),
         "--no-access-log", "--log-level", "warning"],
        env={**os.environ, "CORPUS": str(corpus), "MODEL": str(model)},
        cwd=Path(__file__).with_name("baselines"),
        text=True,
    )  # fmt: skip
    return _ready(process, f"http://127.0.0.1:{port}", "/health", began)


def check_out(revision: str, folder: Path) -> Path:
    """The sources of a git revision, unpacked into `folder`."""
    packed = subprocess.run(
        ["git", "archive", revision], cwd=ROOT, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def pin(cores: Collection[int]) -> None:
    """Keep this process, which makes the load, on `cores`."""
    os.sched_setaffinity(0, cores)


def _on(cores: Collection[int]) -> Sequence[str]:
    return ["taskset", "--cpu-list", ",".join(map(str, sorted(cores)))]


def _environment(tree: Path) -> dict[str, str]:
    others = {name: value for name, value in os.environ.items() if not name.startswith("SWIFTLET_")}
    return {**others, **ONE_THREAD, "PYTHONPATH": str(tree)}


def _ready(process: subprocess.Popen[str], address: str, path: str, began: float) -> Service:
    while process.poll() is None and time.perf_counter() < began + START_TIMEOUT_SECONDS:
        connection = http.client.HTTPConnection(urlsplit(address).netloc)
        try:
            connection.request("GET", path)
            if connection.getresponse().status == http.client.OK:
                return Service(process, address, time.perf_counter() - began)
        except OSError:
            time.sleep(POLL_SECONDS)
        finally:
            connection.close()
    raise SystemExit(f"{address} never became ready")
