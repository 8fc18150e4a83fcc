"""Reads files in a process beside the one that makes an index of them."""

import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from swiftlet.corpora.files.documents import read_file
from swiftlet.corpora.languages import begin_loading
from swiftlet.corpora.lines import LONGEST_BYTES, SkippedLines
from swiftlet.errors import CollectionError, MissingExtraError
from swiftlet.sync.folder import printable
from swiftlet.types import Document

LONGEST_TEXT = 10_000_000
"""The characters of a document that is followed: the Bible has four million, a log any number."""


@dataclass(slots=True)
class FileRead:
    """The documents of a file, and why it has none; `failed` tells that the system did not give it.

    `messages` name the parts that are left out.
    """

    documents: list[Document] = field(default_factory=list)
    problem: str | None = None
    failed: bool = False
    messages: list[str] = field(default_factory=list)


def read_one(folder: Path, name: str, size_bytes: int) -> FileRead:
    """Read a file by its path below a folder."""
    path, skipped, found = folder / name, SkippedLines(), FileRead()
    try:
        _check_size(path, size_bytes)
        for each in read_file(path, folder, skipped):
            _check_text(path, each.text)
            found.documents.append(each)
    except (CollectionError, MissingExtraError) as error:
        cause = error.__cause__
        failed = isinstance(cause, OSError) and bool(cause.errno)
        return FileRead(problem=printable(error), failed=failed)
    found.messages = skipped.messages
    return found


class ReadAhead:
    """A process that reads the files of a folder in the order in which they are asked for.

    It waits while a few documents have not been taken. It ends with this process, also by a kill.
    """

    def __init__(self, folder: Path) -> None:
        """Start the process, so that its imports go on beside those of this one."""
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, folder), daemon=True)
        self.process.start()
        theirs.close()

    def ask(self, files: Sequence[tuple[str, int]]) -> None:
        """Ask for files by their names and sizes in bytes."""
        with suppress(OSError):
            self._pipe.send(files)

    def take(self) -> FileRead | None:
        """The next file; None if the process has ended, as when the system has no memory left."""
        with suppress(OSError, EOFError):
            found: FileRead = self._pipe.recv()
            return found
        return None


def _serve(pipe: Connection, folder: Path) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    begin_loading()
    with suppress(OSError, EOFError):
        for name, size_bytes in pipe.recv():
            pipe.send(read_one(folder, name, size_bytes))


def _check_size(path: Path, size_bytes: int) -> None:
    """Refuse a file before it is in memory."""
    if size_bytes > LONGEST_BYTES:
        raise CollectionError(path, f"longer than {LONGEST_BYTES:,} bytes")


def _check_text(path: Path, text: str) -> None:
    if len(text) > LONGEST_TEXT:
        raise CollectionError(
            path,
            f"its text has {len(text):,} characters, but at most {LONGEST_TEXT:,} are followed: "
            "divide the file, or leave it out by a rule in .swiftletignore",
        )
