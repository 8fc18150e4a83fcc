"""Files as documents: text, Markdown, HTML, Word and PDF, alone or in a folder."""

import os
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from importlib.util import find_spec
from pathlib import Path

from swiftlet.corpora.files.pdf import RECOGNISE, pdf_parts
from swiftlet.corpora.files.text import TEXT_SUFFIXES, Part, text_part
from swiftlet.corpora.files.web import web_parts
from swiftlet.corpora.files.word import word_parts
from swiftlet.corpora.identifiers import check_id
from swiftlet.corpora.lines import (
    LONGEST_BYTES,
    SkippedLines,
    open_bytes,
    read_errors,
    refuse_file,
)
from swiftlet.errors import CollectionError
from swiftlet.extras import extra
from swiftlet.text import with_whole_pairs, without_surrogates
from swiftlet.types import Document

Reader = Callable[[Path, bytes], Iterator[Part | CollectionError]]

_PDF = ".pdf"
_READERS: dict[str, tuple[Reader, str]] = {
    **dict.fromkeys((".html", ".htm", ".xhtml"), (web_parts, "lxml")),
    ".docx": (word_parts, "docx"),
    _PDF: (pdf_parts, "pypdfium2"),
}
RICH_SUFFIXES = frozenset(_READERS)
FILE_SUFFIXES = TEXT_SUFFIXES | RICH_SUFFIXES


def can_read(suffix: str) -> bool:
    """Whether the package that reads files of this suffix is installed."""
    return find_spec(_READERS[suffix][1]) is not None


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
    for path in _files_and_links(folder):
        try:
            if _is_folder(path) or _is_readable(path):
                _check_is_within(path, folder)
            if _is_folder(path) or not _is_readable(path):
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
    """How many visible files of each suffix `read_folder` does not read.

    :param named: Files that are read in another way, by their real paths.
    :raises CollectionError: When a folder cannot be read.
    """
    return Counter(
        path.suffix.lower()
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
    suffix = path.suffix.lower()
    return suffix in TEXT_SUFFIXES or (suffix in RICH_SUFFIXES and can_read(suffix))


def _visible_entries(folder: Path) -> list[Path]:
    with read_errors(folder):
        entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    return sorted(entries, reverse=True)


def _check_is_within(path: Path, folder: Path) -> None:
    if path.is_symlink() and not real_path(path).is_relative_to(real_path(folder)):
        raise CollectionError(path, "it is a link to a place outside the folder")


def real_path(path: Path) -> Path:
    """A path without links; unlike `Path.resolve`, links in a circle raise no error."""
    return Path(os.path.realpath(path))


def read_file(path: Path, named_from: Path, skipped: SkippedLines) -> Iterator[Document]:
    """The document of a file, or the pages of a PDF; the id begins with the path below a folder.

    :param skipped: Collects the errors of pages, which are left out.
    :raises CollectionError: When it cannot be read, has no text, is longer than `LONGEST_BYTES`,
        or its name cannot be an id; and, if `skipped` refuses files, when some pages have no text.
    :raises MissingExtraError: When a package that reads this kind is not installed.
    """
    with read_errors(named_from):
        name = check_id(path.relative_to(named_from).as_posix(), "file name")
    with read_errors(path):
        if not stat.S_ISREG(path.stat().st_mode):  # reading a pipe may never end
            raise CollectionError(path, "it is no regular file")
        with open_bytes(path) as file:
            content = file.read(LONGEST_BYTES + 1)
    if len(content) > LONGEST_BYTES:
        raise CollectionError(path, f"longer than {LONGEST_BYTES:,} bytes")
    for part in _parts(path, content, skipped.note):
        if isinstance(part, CollectionError):
            refuse_file(part, skipped)
            continue
        metadata = {"file": name, **part.metadata} if part.place else part.metadata
        # Titles may have escapes; the sections of a text are offsets in it, so it keeps its length.
        title, text = with_whole_pairs(part.title), without_surrogates(part.text)
        yield Document(f"{name}{part.place}", text, title, metadata, part.sections)


def _parts(
    path: Path, content: bytes, note: Callable[[str], None]
) -> Iterator[Part | CollectionError]:
    """The document of a file, or the documents of the pages of a PDF.

    An error stands for a part of the file that cannot be read: pages with pictures and no text, in
    a PDF with text on other pages, or a file that is embedded in a Word file.
    """
    suffix, found = path.suffix.lower(), False
    if suffix in TEXT_SUFFIXES:
        yield text_part(path, content, note)
        return
    with extra("files"):
        read = _READERS[suffix][0]
        parts = web_parts(path, content, note) if read is web_parts else read(path, content)
        for part in parts:
            found |= isinstance(part, Part)
            if found:
                yield part
    if not found:
        problem = f": if it is scanned, {RECOGNISE}" if suffix == _PDF else ""
        raise CollectionError(path, f"the file has no text{problem}")
