"""Zip archives of files."""

import os
import shutil
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from zipfile import BadZipFile, ZipFile, ZipInfo

from swiftlet.corpora.lines import SkippedLines, read_errors, reason_of, refuse_file
from swiftlet.errors import CollectionError

ZIP = ".zip"
_OF_MACOS = "__MACOSX"
_ERRORS = (
    BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError, LookupError, OverflowError,
    struct.error,
)  # fmt: skip
"""What a damaged archive raises."""


@contextmanager
def unzipped(path: Path, skipped: SkippedLines | None = None) -> Iterator[Path]:
    """What an archive has: the only file or folder, or else a folder of all; a copy meanwhile.

    Errors of the block, and what it adds to `skipped`, name the files in the archive.

    :raises CollectionError: When it is damaged or encrypted, or too large for the disk.
    """
    with TemporaryDirectory(prefix="swiftlet-") as folder:
        root = Path(folder) / path.stem
        _extract(path, root, skipped)
        messages = [] if skipped is None else skipped.messages
        noted = len(messages)
        try:
            yield _only_entry(root)
        except CollectionError as error:
            if not isinstance(error.path, Path) or not error.path.is_relative_to(root):
                raise
            place = path / error.path.relative_to(root)
            raise type(error)(place, error.problem, error.line_number) from error
        finally:
            messages[noted:] = [each.replace(f"{root}", f"{path}") for each in messages[noted:]]


def _extract(path: Path, root: Path, skipped: SkippedLines | None) -> None:
    try:
        with read_errors(path), ZipFile(path) as archive:
            members = [
                each
                for each in archive.infolist()
                if PurePosixPath(each.filename).parts[:1] != (_OF_MACOS,)
            ]
            size = sum(each.file_size for each in members)
            free = shutil.disk_usage(root.parent).free
            if size > free:
                raise CollectionError(
                    path,
                    f"it has {size:,} bytes, but {root.parent} has room for {free:,}: unzip it "
                    "elsewhere and name the folder, or set TMPDIR",
                )
            root.mkdir()
            targets = Counter(_extracted(archive, each, root) for each in members)
    except _ERRORS as error:
        raise CollectionError(
            path, f"cannot be read as a zip archive: {reason_of(error)}"
        ) from error
    for target, count in targets.items():
        if count > 1 and skipped is not None and Path(target).is_file():
            place = path / Path(target).relative_to(root)
            problem = f"the archive has {count:,} files of this name: only the last one is read"
            refuse_file(CollectionError(place, problem), skipped)


def _extracted(archive: ZipFile, member: ZipInfo, root: Path) -> str:
    """The path of a member that is now in `root`, with the time at which it was changed."""
    target = archive.extract(member, root)
    with suppress(ValueError, OverflowError):  # an archive may say 31 February
        moment = datetime(*member.date_time, tzinfo=UTC).timestamp()
        os.utime(target, (moment, moment))
    return target


def _only_entry(root: Path) -> Path:
    while root.is_dir() and len(entries := [*root.iterdir()]) == 1:
        (root,) = entries
    return root
