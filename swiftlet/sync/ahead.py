"""Reads files, and does other work, in a process beside the one that makes an index of them."""

import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from swiftlet.corpora.files.documents import read_file
from swiftlet.corpora.languages import begin_loading
from swiftlet.corpora.lines import LONGEST_BYTES, SkippedLines, read_errors
from swiftlet.corpora.records import document_from_row, without_vectors
from swiftlet.errors import CollectionError, MissingExtraError, RetrievalError
from swiftlet.sync.folder import printable
from swiftlet.types import Document

Given = TypeVar("Given")

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
    path, skipped, found = folder / name, SkippedLines(), list[Document]()
    try:
        _check_size(path, size_bytes)
        for each in read_file(path, folder, skipped):
            _check_text(path, each.text)
            with read_errors(path):
                found.append(document_from_row(each))
    except (CollectionError, MissingExtraError) as error:
        cause = error.__cause__
        failed = isinstance(cause, OSError) and bool(cause.errno)
        return FileRead(problem=printable(error), failed=failed)
    messages = skipped.messages
    return FileRead([*without_vectors(found, (), messages.append)], messages=messages)


class ReadAhead:
    """A process that reads the files of a folder in the order in which they are asked for.

    It waits while a few documents have not been taken, and does other work when all are taken. It
    ends with this process, also by a kill.
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
        found: FileRead | None = self._taken()
        return found

    def begin(self, work: Callable[[], Given]) -> Callable[[], Given]:
        """Begin work that can be pickled; what is returned waits for what it gives.

        If it fails, or the process has ended, it is done here.
        """
        with suppress(OSError):
            self._pipe.send(work)
        return partial(self._finished, work)

    def _finished(self, work: Callable[[], Given]) -> Given:
        found: Given | None = self._taken()
        return work() if found is None else found

    def _taken(self) -> Any:
        with suppress(OSError, EOFError):
            return self._pipe.recv()
        return None

    def close(self) -> None:
        """Let the process end, when its work is done."""
        self._pipe.close()


def _serve(pipe: Connection, folder: Path) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    begin_loading()
    with suppress(OSError, EOFError):
        for name, size_bytes in pipe.recv():
            pipe.send(read_one(folder, name, size_bytes))
        import swiftlet.index.building.words  # noqa: F401 - the work, beside the last files

        with suppress(RetrievalError):  # it is raised where the work is done again
            pipe.send(pipe.recv()())


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
