"""The documents of one file, with the fields that it has as a file."""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from swiftlet.corpora.files.kinds import Kind, kind_of
from swiftlet.corpora.files.pdf import RECOGNISE
from swiftlet.corpora.files.text import Part
from swiftlet.corpora.identifiers import check_id
from swiftlet.corpora.languages import FIELD, language_of
from swiftlet.corpora.lines import (
    LONGEST_BYTES,
    LineError,
    SkippedLines,
    open_bytes,
    read_errors,
    reason_of,
    refuse_file,
)
from swiftlet.errors import CollectionError, RetrievalError, shown
from swiftlet.extras import extra
from swiftlet.text import with_whole_pairs, without_surrogates
from swiftlet.types import Document

MODIFIED = "modified"
"""The field of the metadata with the time at which a file was changed."""

_MOST_FOLDERS = 8
_LONGEST_VALUE = 1_000


def read_file(path: Path, named_from: Path, skipped: SkippedLines) -> Iterator[Document]:
    """The documents of a file, such as the pages of a PDF; ids begin with the path below a folder.

    :param skipped: Collects the errors of parts, such as pages, which are left out.
    :raises CollectionError: When it cannot be read, has no text, is longer than `LONGEST_BYTES`,
        or its name cannot be an id; and, if `skipped` refuses files, when some pages have no text.
    :raises MissingExtraError: When a package that reads this kind is not installed.
    """
    with read_errors(named_from):
        name = path.relative_to(named_from).as_posix()
        if without_surrogates(name) != name:
            raise LineError(f"the file name {shown(name)} is not UTF-8: rename the file")
        check_id(name, "file name")
    kind = kind_of(path.suffix.lower())
    with read_errors(path):
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # reading a pipe may never end
            raise CollectionError(path, "it is no regular file")
        with open_bytes(path) as file:
            content = file.read(LONGEST_BYTES + 1)
    if len(content) > LONGEST_BYTES:
        raise CollectionError(path, f"longer than {LONGEST_BYTES:,} bytes")
    fields = _fields(name, kind.name, status)
    for part in _parts(path, content, kind, skipped.note):
        if isinstance(part, CollectionError):
            refuse_file(part, skipped)
            continue
        metadata = {**_short(part.metadata), "file": name, **fields}
        if not part.place:  # `file` names the file of parts; sync would look for another file
            del metadata["file"]
        # Titles may have escapes; the sections of a text are offsets in it, so it keeps its length.
        title, text = with_whole_pairs(part.title), without_surrogates(part.text)
        if FIELD not in metadata and (language := language_of(text)):
            metadata[FIELD] = language
        yield Document(f"{name}{part.place}", text, title, metadata, part.sections)


def _fields(name: str, kind: str, status: os.stat_result) -> dict[str, Any]:
    """What a file has of its own; `folder` is each folder that it is in, so all can be chosen."""
    folders = name.split("/")[:-1][:_MOST_FOLDERS]
    fields: dict[str, Any] = {"path": name, "kind": kind, "size": status.st_size}
    if folders:
        fields["folder"] = ["/".join(folders[: end + 1]) for end in range(len(folders))]
    if modified := moment_of(status.st_mtime_ns):
        fields[MODIFIED] = modified
    return fields


def moment_of(nanoseconds: int) -> str | None:
    """A time of a file as its documents have it; None for one that no date can say."""
    with suppress(ValueError, OverflowError, OSError):  # a clock may say the year 300,000
        return datetime.fromtimestamp(nanoseconds // 10**9, UTC).isoformat()
    return None


def _short(metadata: Any) -> dict[str, Any]:
    """The fields of a part, with the beginnings of long texts, and without empty ones."""
    return {
        without_surrogates(name): without_surrogates(value[:_LONGEST_VALUE].strip())
        if isinstance(value, str)
        else value
        for name, value in metadata.items()
        if value not in (None, "", [])
    }


def _parts(
    path: Path, content: bytes, kind: Kind, note: Callable[[str], None]
) -> Iterator[Part | CollectionError]:
    """The documents of a file.

    An error stands for a part of the file that cannot be read: pages with pictures and no text, in
    a PDF with text on other pages, or a file that is embedded in a Word file.
    """
    found, errors = False, list[CollectionError]()
    try:
        with extra("files"):
            for part in kind.read(path, content, note):
                if isinstance(part, Part):
                    found = True
                    yield part
                    continue
                errors.append(part)
    except RecursionError as error:
        problem = "it is nested too deeply to be read"
        raise CollectionError(path, problem) from error
    except (RetrievalError, GeneratorExit):
        raise
    except Exception as error:  # of packages, and of damaged files of many kinds
        problem = f"cannot be read as {kind.name}: {reason_of(error)}"
        raise CollectionError(path, problem) from error
    if not found:
        problem = f": if it is scanned, {RECOGNISE}" if kind.name == "pdf" else ""
        raise CollectionError(path, f"the file has no text{problem}")
    yield from errors
