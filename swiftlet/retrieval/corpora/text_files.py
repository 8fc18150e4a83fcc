"""Text and Markdown files as documents, one each."""

import codecs
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from swiftlet.retrieval.corpora.identifiers import check_id
from swiftlet.retrieval.corpora.lines import (
    LONGEST_BYTES,
    LineError,
    SkippedLines,
    read_errors,
    refuse,
)
from swiftlet.retrieval.errors import CollectionError
from swiftlet.retrieval.types import Document

MARKDOWN_SUFFIXES = frozenset({".md", ".markdown"})
TEXT_SUFFIXES = MARKDOWN_SUFFIXES | {".txt", ".rst"}

_FENCE = re.compile(r" {0,3}(```|~~~)")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#*)?[ \t]*")
_UNDERLINES = {
    ".md": re.compile(r" {0,3}=+[ \t]*"),
    ".markdown": re.compile(r" {0,3}=+[ \t]*"),
    ".rst": re.compile(r"([-=~^\"#*+])\1{2,}[ \t]*"),
}


def read_text_file(path: Path) -> Document:
    """One file as a document; its id is the file's name.

    :raises CollectionError: When it cannot be read, is blank, longer than `LONGEST_BYTES` or not
        UTF-8, or its name cannot be an id.
    """
    return _read(path, path.parent)


def read_text_folder(folder: Path, skipped: SkippedLines | None = None) -> Iterator[Document]:
    """The text files of `folder` and its folders as documents, in the order of their paths.

    The id is the path below `folder`, with slashes. Hidden files and folders are left out,
    and so are links to folders inside of `folder`.

    :raises CollectionError: When a folder cannot be read; and, unless there is `skipped` to collect
        them, when a file is bad as in `read_text_file`, or a link to a place outside the folder.
    """
    for path in _files_and_links(folder):
        try:
            is_folder = _is_folder(path)
            if is_folder or _is_text(path):
                _check_is_within(path, folder)
            if is_folder or not _is_text(path):
                continue
            document = _read(path, folder)
        except CollectionError as error:
            refuse(error, skipped)
        else:
            yield document


def text_files(folder: Path) -> Iterator[Path]:
    """The paths of the text files below `folder`, in order.

    :raises CollectionError: When a folder cannot be read.
    """
    for path in _files_and_links(folder):
        if _is_text(path) and not _is_folder(path):
            yield path


def title_of(path: Path, text: str) -> str:
    """The first heading of a Markdown or reStructuredText file, or the stem of its name."""
    suffix = path.suffix.lower()
    underline = _UNDERLINES.get(suffix)
    if underline is None:
        return path.stem
    fence = previous = ""
    # Only the beginning: a later heading belongs to a part of the document.
    for line in text[:10_000].split("\n"):
        if found := _FENCE.match(line):
            fence = "" if fence == found[1] else fence or found[1]
            previous = ""
        elif not fence:
            heading = _HEADING.fullmatch(line) if suffix in MARKDOWN_SUFFIXES else None
            if heading and heading[1]:
                return heading[1]
            if previous and underline.fullmatch(line):
                return previous
            previous = "" if underline.fullmatch(line) else line.strip()
    return path.stem


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


def _is_text(path: Path) -> bool:
    return path.suffix.lower() in TEXT_SUFFIXES


def _visible_entries(folder: Path) -> list[Path]:
    with read_errors(folder):
        entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    return sorted(entries, reverse=True)


def _check_is_within(path: Path, folder: Path) -> None:
    if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
        raise CollectionError(path, "it is a link to a place outside the folder")


def _read(path: Path, folder: Path) -> Document:
    try:
        document_id = check_id(path.relative_to(folder).as_posix(), "file name")
    except LineError as error:
        raise CollectionError(folder, str(error)) from error
    with read_errors(path):
        if not stat.S_ISREG(path.stat().st_mode):  # reading a pipe may never end
            raise CollectionError(path, "it is no regular file")
        with path.open("rb") as file:
            content = file.read(LONGEST_BYTES + 1)
    if len(content) > LONGEST_BYTES:
        raise CollectionError(path, f"longer than {LONGEST_BYTES:,} bytes")
    text = _decode(path, content.removeprefix(codecs.BOM_UTF8)).replace("\r\n", "\n")
    if not text or text.isspace():
        raise CollectionError(path, "the file is empty")
    return Document(document_id, text, title_of(path, text))


def _decode(path: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line_start = content.rfind(b"\n", 0, error.start) + 1
        line_number = content.count(b"\n", 0, error.start) + 1
        problem = (
            f"not valid UTF-8: byte {error.start - line_start + 1} is 0x{content[error.start]:02x}"
        )
        raise CollectionError(path, problem, line_number) from error
