"""What the parts of `conduct.py` share: services to be asked, bounds to be kept, sections."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from threading import Thread

from conduct_load import Request
from load import saturate
from processes import ROOT, Service, serve

from evaluation.markdown import table

_WARM_UP_SECONDS = 2.0
_CAPACITY_SECONDS = 4.0
_CAPACITY_CONNECTIONS = 16


@dataclass(frozen=True, slots=True)
class Bound:
    """Something that must hold: what was measured, what it may be, and whether it is."""

    what: str
    measured: str
    bound: str
    kept: bool


@dataclass(frozen=True, slots=True)
class Section:
    """What one part found: its heading on the page, its words, its bounds."""

    heading: str
    words: str
    bounds: Sequence[Bound]

    @property
    def kept(self) -> bool:
        """Whether every bound was kept."""
        return all(bound.kept for bound in self.bounds)

    def render(self, made_by: str) -> str:
        """The section below its heading; `made_by` says by which command, on what."""
        rows = [
            [each.what, each.measured, each.bound, "kept" if each.kept else "**missed**"]
            for each in self.bounds
        ]
        bounds = table([["", "measured", "bound", ""], *rows])
        return f"{made_by}\n\n{self.words.strip()}\n\n{bounds}"


@dataclass(frozen=True, slots=True)
class Running:
    """A service that is asked, and the lines that it has logged since it listens."""

    service: Service
    log: list[str] = field(default_factory=list)
    reader: list[Thread] = field(default_factory=list)

    @property
    def address(self) -> str:
        """Where it listens."""
        return self.service.address

    def resident_bytes(self) -> int:
        """All of its resident memory, mapped files included."""
        status = Path(f"/proc/{self.service.process.pid}/status").read_text()
        (kibibytes,) = (
            line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")
        )
        return int(kibibytes) * 1024

    def wait(self, seconds: float) -> int:
        """The exit status, once the process has ended and its log is whole."""
        status = self.service.process.wait(timeout=seconds)
        for thread in self.reader:
            thread.join()
        return status


@dataclass(frozen=True, slots=True)
class Bench:
    """One index and its queries, and the cores that serve."""

    folder: Path
    index: Path
    encoder: Path
    queries: Sequence[str]
    cores: Sequence[int]
    rate: float | None = None

    @contextmanager
    def serve(self, index: Path | None = None, **settings: object) -> Iterator[Running]:
        """A service on its cores, whose log is read so that it never waits for a reader."""
        service = serve(ROOT, index or self.index, self.encoder, self.cores, **settings)
        running = Running(service)
        lines = service.process.stderr
        assert lines is not None
        running.reader.append(Thread(target=running.log.extend, args=[lines]))
        running.reader[0].start()
        try:
            yield running
        finally:
            if service.process.poll() is None:
                service.close()
            running.reader[0].join()

    def capacity(self, running: Running, requests: Sequence[Request]) -> float:
        """Answers a second of a warm service that is always asked for more, unless `rate` says."""
        if self.rate is not None:
            return self.rate
        contents = [request.content for request in requests]
        for seconds in (_WARM_UP_SECONDS, _CAPACITY_SECONDS):
            load = saturate(
                [running.address], contents, connections=_CAPACITY_CONNECTIONS, seconds=seconds
            )
        return load.rate


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The value that `percent` of the values in order of size do not exceed."""
    return ordered[max(ceil(len(ordered) * percent / 100) - 1, 0)]


def status_table(statuses: Mapping[int, int]) -> str:
    """How many requests ended in each status, 0 standing for no answer."""
    cells = [["status", "requests"]]
    for status, count in sorted(statuses.items()):
        cells.append([str(status) if status else "no answer", f"{count:,}"])
    return table(cells)


def milliseconds(seconds: float) -> str:
    """With three digits at least."""
    return f"{1000 * seconds:.1f} ms" if seconds < 0.1 else f"{1000 * seconds:,.0f} ms"


def megabytes(count: float) -> str:
    """Bytes as millions of them."""
    return f"{count / 1e6:.1f} MB"
