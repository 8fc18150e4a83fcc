"""The log of searches and clicks: lines of JSON in a folder, bounded by bytes and days.

Files of searches have a `query` in each line, so they are query logs for `swiftlet adapt` and
`swiftlet distill`, too.
"""

import heapq
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import IO, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from swiftlet import disk
from swiftlet.errors import CollectionError

SEARCHES, CLICKS = "searches", "clicks"

HASHED = "hmac:"
"""How a query begins that the log has a hash of, and no text."""

_FILES = 16
"""Files that the bound of bytes is divided into, so that old lines go bit by bit."""

_SECONDS_A_DAY = 86_400
_OF_OWNER_ALONE = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedSearch:
    """One answered search."""

    time: float
    """Seconds since 1970."""

    id: str
    """The `X-Request-ID` of its answer, which a click names."""

    session: str
    """The same for searches of one client within one hour; empty where that is not known."""

    query: str
    mode: str
    index: str
    """The generation of the index."""

    hits: list[tuple[str, float]]
    """The id and the score of each document of the answer, best first."""

    offset: int = 0
    filter: list[str] = field(default_factory=list)
    """The fields that its filter names, without their values."""

    milliseconds: dict[str, float] = field(default_factory=dict)
    """Of each stage that ran."""

    challenger: str = ""
    """What differs in the search of a challenger, if its documents were mixed in."""

    teams: str = ""
    """Who gave each document, as `interleaving.team_draft` says; empty where nothing was mixed."""

    is_plain: bool = True
    """Whether its scores are those of the mode alone, without another weight, fusion or order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Click:
    """A document that was opened from the answer to a search."""

    time: float
    id: str
    """Of the search."""

    document_id: str


class LogWriter:
    """Appends to the files of a folder, which several processes may do at once.

    When a file is full, the oldest files go: those over the bound of bytes, and those over the
    bound of days.
    """

    def __init__(self, folder: Path, *, most_bytes: int, days: int) -> None:
        """Make the folder if there is none.

        :raises StorageError: When it cannot be written.
        """
        self._folder, self._most_bytes, self._days = folder, most_bytes, days
        self._files: dict[str, IO[bytes]] = {}
        with disk.storage_errors(folder):
            disk.make_directory(folder, parents=True, exist_ok=True)
            self._file(SEARCHES)

    def append(self, entries: Sequence[LoggedSearch | Click]) -> None:
        """Write entries, each as a line; not synced, so a loss of power may lose the last ones.

        :raises OSError: When the disk refuses; the files that were open are left.
        """
        for kind, of in ((SEARCHES, LoggedSearch), (CLICKS, Click)):
            lines = [to_json(asdict(each)) for each in entries if isinstance(each, of)]
            if not lines:
                continue
            try:
                file = self._file(kind)
                file.write(b"".join(line + b"\n" for line in lines))
                file.flush()
            except OSError:
                self.close()
                raise
            if file.tell() >= self._most_bytes / _FILES:
                self._files.pop(kind).close()

    def close(self) -> None:
        """Close the files."""
        while self._files:
            _, file = self._files.popitem()
            try:
                file.close()
            except OSError:  # what could not be written is lost, as `append` has said
                continue

    def _file(self, kind: str) -> IO[bytes]:
        file = self._files.get(kind)
        today = f"{datetime.now(UTC):%Y%m%d}"
        if file is not None and f"-{today}T" in file.name:
            return file
        self.close()
        self._remove_old()
        name = f"{kind}-{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{os.getpid()}.jsonl"
        file = self._files[kind] = disk.opened(self._folder / name, "ab")
        os.fchmod(file.fileno(), _OF_OWNER_ALONE)
        return file

    def _remove_old(self) -> None:
        left = self._most_bytes * (_FILES - 1) // _FILES
        oldest = time() - self._days * _SECONDS_A_DAY
        found = sorted(log_files(self._folder), key=_written, reverse=True)
        for path in found:
            try:
                status = path.stat()
            except FileNotFoundError:  # another process was faster
                continue
            left -= status.st_size
            if left < 0 or status.st_mtime < oldest:
                disk.remove(path, missing_ok=True)


def log_files(folder: Path, kind: str = "*") -> list[Path]:
    """The files of a kind of lines, or all of them."""
    kinds = (SEARCHES, CLICKS) if kind == "*" else (kind,)
    return [path for each in kinds for path in folder.glob(f"{each}-*.jsonl")]


def _written(path: Path) -> str:
    return path.name.split("-", 1)[1]


Entry = TypeVar("Entry", LoggedSearch, Click)

_SEARCH, _CLICK = TypeAdapter(LoggedSearch), TypeAdapter(Click)


class Log:
    """The lines of a folder, read as a stream; damaged lines are left out and counted."""

    def __init__(self, folder: Path) -> None:
        """Find the files.

        :raises CollectionError: When there is none.
        """
        self._folder = folder
        self.num_damaged = 0
        if not log_files(folder, SEARCHES):
            found = "has no log of searches" if folder.is_dir() else "is no folder"
            raise CollectionError(folder, f"{found}; the folder of SWIFTLET_QUERY_LOG is expected")

    def searches(self) -> Iterator[LoggedSearch]:
        """All searches, by time."""
        return self._merged(SEARCHES, _SEARCH)

    def clicks(self) -> Iterator[Click]:
        """All clicks, by time."""
        return self._merged(CLICKS, _CLICK)

    def _merged(self, kind: str, adapter: TypeAdapter[Entry]) -> Iterator[Entry]:
        files = [self._read(path, adapter) for path in log_files(self._folder, kind)]
        return heapq.merge(*files, key=lambda entry: entry.time)

    def _read(self, path: Path, adapter: TypeAdapter[Entry]) -> Iterator[Entry]:
        with path.open("rb") as file:
            for line in file:
                try:
                    yield adapter.validate_json(line)
                except ValidationError:  # the disk was full, or the power went
                    self.num_damaged += 1
