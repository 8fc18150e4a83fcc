"""The lines of UTF-8 files, plain or compressed, read one by one so bad ones can be left out."""

import codecs
import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from swiftlet.errors import CollectionError
from swiftlet.extras import extra

Raw = TypeVar("Raw")
Record = TypeVar("Record")

COMPRESSED_SUFFIXES = (".gz", ".zst")

LONGEST_BYTES = 1 << 28
"""The largest size of a line, or of a text file that is one document: it is read as a whole."""

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_GZIP = b"\x1f\x8b"
_MESSAGES_KEPT = 20
_FILES_KEPT = 1_000
_REASON_CHARACTERS = 100


class LineError(Exception):
    """The problem with one line; the reader of the file adds its name and the line number.

    :param lines: How many lines are lost with it.
    """

    def __init__(self, problem: str, *, lines: int = 1) -> None:
        super().__init__(problem)
        self.lines = lines


def wrong_columns(found: int, expected: str) -> LineError:
    """The error for a line of `found` columns."""
    return LineError(f"{found} column{'' if found == 1 else 's'} where {expected} are expected")


@dataclass(slots=True)
class SkippedLines:
    """Counts what a reader leaves out, and keeps the first 20 messages, or 1,000 of files.

    `notes` are sentences about what a reader recognised, such as the encoding of a file.

    :param lines: Whether bad lines and rows are left out, instead of refused.
    :param files: Whether files that cannot be read are left out, instead of refused.
    """

    count: int = 0
    messages: list[str] = field(default_factory=list)
    lines: bool = field(default=True, kw_only=True)
    files: bool = field(default=True, kw_only=True)
    notes: list[str] = field(default_factory=list, kw_only=True)

    def add(self, error: CollectionError, *, lines: int = 1, most: int = _MESSAGES_KEPT) -> None:
        """Count the lines, or the file, that `error` is about."""
        self.count += lines
        if len(self.messages) < most:
            self.messages.append(str(error))

    def note(self, sentence: str) -> None:
        """Keep a sentence about what was recognised."""
        if len(self.notes) < _FILES_KEPT:
            self.notes.append(sentence)


class SkippableError(CollectionError):
    """A bad line, row or file, which `SkippedLines` would leave out."""


def _refuse(error: CollectionError, skipped: SkippedLines | None, lines: int) -> None:
    """Add a bad line, with which this many `lines` are lost, to `skipped`.

    :raises SkippableError: When bad lines are not to be skipped.
    """
    if skipped is None or not skipped.lines:
        raise SkippableError(error.path, error.problem, error.line_number) from error
    skipped.add(error, lines=lines)


def refuse_file(error: CollectionError, skipped: SkippedLines) -> None:
    """Add a file that cannot be read to `skipped`.

    :raises CollectionError: When files are not to be left out.
    """
    if not skipped.files:
        raise error
    skipped.add(error, most=_FILES_KEPT)


def parse_lines(
    path: Path, parse: Callable[[str], Record | None], skipped: SkippedLines | None = None
) -> Iterator[tuple[int, Record]]:
    """The result of `parse` for each line of `path`, with the line's number from 1.

    Blank lines are skipped, and so are lines for which `parse` returns None. A byte order mark and
    CRLF line ends are accepted. Only the current line is in memory.

    :raises CollectionError: When the file cannot be read, has no line or one of more than
        `LONGEST_BYTES`; and, unless there is `skipped` to collect them, when a line is not UTF-8
        or `parse` raises `LineError` for it.
    """
    return parse_records(path, _numbered(path), lambda line: parse(_decode(line)), skipped)


def parse_records(
    place: Path | str,
    records: Iterable[tuple[int | None, Raw | LineError]],
    parse: Callable[[Raw], Record | None],
    skipped: SkippedLines | None,
    kind: str = "",
) -> Iterator[tuple[Any, Record]]:
    """The results of `parse` that are not None, each with its record's number, if it has one.

    :param kind: What a record is in messages, such as "row"; by default a line of the `place`.
    :raises SkippableError: When bad records are not to be skipped: a `LineError` in place of a
        record, or one that `parse` raises.
    """
    for number, record in records:
        try:
            if isinstance(record, LineError):
                raise record
            parsed = parse(record)
        except LineError as error:
            problem, line = (f"{kind} {number:,}: {error}", None) if kind else (f"{error}", number)
            _refuse(CollectionError(place, problem, line), skipped, error.lines)
            continue
        if parsed is not None:
            yield number, parsed


@contextmanager
def read_errors(path: Path | str, *kinds: type[Exception]) -> Iterator[None]:
    """Turn an error of the operating system, of gzip or of a line into a `CollectionError`.

    :param kinds: Further errors, of a package that reads the file.
    """
    of_reading: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error, *kinds)
    try:
        yield
    except LineError as error:
        raise CollectionError(path, f"{error}") from error
    except of_reading as error:
        strerror = error.strerror if isinstance(error, OSError) else None
        raise CollectionError(path, f"cannot be read: {strerror or reason_of(error)}") from error


def reason_of(error: Exception | str) -> str:
    """The first line of what a package says, cut: it may have parts of a damaged file."""
    return f"{error}".strip().partition("\n")[0][:_REASON_CHARACTERS]


def _numbered(path: Path) -> Iterator[tuple[int, bytes]]:
    number, empty = 0, True
    with read_errors(path), open_bytes(path) as file:
        while content := file.readline(LONGEST_BYTES + 1):
            number += 1
            if len(content) > LONGEST_BYTES:
                raise CollectionError(path, f"longer than {LONGEST_BYTES:,} bytes", number)
            if number == 1:
                if b"\0" in content[:4] or content.startswith(_UTF_16):
                    raise CollectionError(path, "it seems to be UTF-16: save it as UTF-8")
                content = content.removeprefix(codecs.BOM_UTF8)
            if content.strip():
                empty = False
                yield number, content.rstrip(b"\r\n")
    if empty:
        raise CollectionError(path, "the file is empty")


def open_bytes(path: Path) -> io.BufferedReader | gzip.GzipFile:
    """Open a file, plain or compressed, as its suffix or the first bytes of gzip say."""
    if path.suffix.lower() == ".zst":
        with extra("arrow"):
            import pyarrow
        return io.BufferedReader(pyarrow.input_stream(str(path), compression="zstd"))
    file = path.open("rb")
    if path.suffix.lower() != ".gz" and not file.peek(2).startswith(_GZIP):
        return file
    file.close()
    return gzip.GzipFile(path)


def _decode(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        byte = content[error.start]
        raise LineError(f"not valid UTF-8: byte {error.start + 1} is 0x{byte:02x}") from error
