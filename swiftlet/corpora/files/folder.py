"""Files as documents, alone or in a folder: which files of a folder are read."""

import os
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

from swiftlet.corpora.files.documents import read_file
from swiftlet.corpora.files.kinds import can_read
from swiftlet.corpora.lines import SkippedLines, read_errors, refuse_file
from swiftlet.errors import CollectionError
from swiftlet.types import Document


def read_folder(folder: Path, skipped: SkippedLines, named_from: Path) -> Iterator[Document]:
    """The files of `folder` and its folders as documents, in the order of their paths.

    The id is the path below `named_from`, with slashes. Hidden files and folders are left out, and
    so are links to folders inside of `folder`, and files that cannot be read: see
    `unread_suffixes`.

    :param skipped: Collects the files that are left out, since they are bad as in `read_file`, or
        links to a place outside the folder.
    :raises CollectionError: When a folder cannot be read; and, if `skipped` refuses files, when one
        is bad.
    """
    seen = set[tuple[int, int]]()
    for path in _files_and_links(folder):
        try:
            if _is_folder(path) or _is_readable(path):
                _check_is_within(path, folder)
            if _is_folder(path) or not _is_readable(path) or _is_again(path, folder, seen):
                continue
            documents = [*read_file(path, named_from, skipped)]
        except CollectionError as error:
            refuse_file(error, skipped)
        else:
            yield from documents


def files_of(folder: Path) -> Iterator[Path]:
    """The paths of the files that `read_folder` reads, in order.

    :raises CollectionError: When a folder cannot be read.
    """
    for path in _files_and_links(folder):
        if _is_readable(path) and not _is_folder(path):
            yield path


def unread_suffixes(folder: Path, named: Collection[Path]) -> Counter[str]:
    """How many visible files of each suffix, or name without one, `read_folder` does not read.

    :param named: Files that are read in another way, by their real paths.
    :raises CollectionError: When a folder cannot be read.
    """
    return Counter(
        path.suffix.lower() or path.name
        for path in _files_and_links(folder)
        if not (_is_folder(path) or _is_readable(path) or real_path(path) in named)
    )


def _files_and_links(folder: Path) -> Iterator[Path]:
    """All visible files below a folder, and links to folders, in order."""
    pending = _visible_entries(folder)
    while pending:
        path = pending.pop()
        if _is_folder(path) and not path.is_symlink():
            pending.extend(_visible_entries(path))
        else:
            yield path


def _is_folder(path: Path) -> bool:
    with read_errors(path):
        return path.is_dir()


def _is_readable(path: Path) -> bool:
    return can_read(path.suffix.lower())


def _visible_entries(folder: Path) -> list[Path]:
    with read_errors(folder):
        entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    return sorted(entries, reverse=True)


def _is_again(path: Path, folder: Path, seen: set[tuple[int, int]]) -> bool:
    """Whether a file is read already, or will be: it has several names, or a link leads to it."""
    with read_errors(path):
        status, is_link = path.stat(), path.is_symlink()
    if is_link:
        name = real_path(path).relative_to(real_path(folder))
        if not any(each.startswith(".") for each in name.parts) and _is_readable(name):
            return True
    if not is_link and status.st_nlink == 1:
        return False
    known = (status.st_dev, status.st_ino) in seen
    seen.add((status.st_dev, status.st_ino))
    return known


def _check_is_within(path: Path, folder: Path) -> None:
    if path.is_symlink() and not real_path(path).is_relative_to(real_path(folder)):
        raise CollectionError(path, "it is a link to a place outside the folder")


def real_path(path: Path) -> Path:
    """A path without links; unlike `Path.resolve`, links in a circle raise no error."""
    return Path(os.path.realpath(path))
