"""Text and Markdown: their decoding, title and sections."""

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from swiftlet.retrieval.errors import CollectionError
from swiftlet.retrieval.types import Span

MARKDOWN_SUFFIXES = frozenset({".md", ".markdown"})
TEXT_SUFFIXES = MARKDOWN_SUFFIXES | {".txt", ".rst"}

_FENCE = re.compile(r" {0,3}(```|~~~)")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#*)?[ \t]*")
_UNDERLINES = {
    ".md": re.compile(r" {0,3}=+[ \t]*"),
    ".markdown": re.compile(r" {0,3}=+[ \t]*"),
    ".rst": re.compile(r"([-=~^\"#*+])\1{2,}[ \t]*"),
}
_SHORTEST_SECTION = 200


@dataclass(frozen=True, slots=True)
class Part:
    """A document of a file; `place` distinguishes it from others of the same file."""

    text: str
    title: str
    sections: tuple[Span, ...] = ()
    place: str = ""
    metadata: Mapping[str, object] = field(default_factory=dict)


def text_part(path: Path, content: bytes) -> Part:
    """The document of a text, Markdown or reStructuredText file.

    :raises CollectionError: When it is blank or not UTF-8.
    """
    text = _decode(path, content.removeprefix(codecs.BOM_UTF8)).replace("\r\n", "\n")
    if not text or text.isspace():
        raise CollectionError(path, "the file is empty")
    if path.suffix.lower() in MARKDOWN_SUFFIXES:
        return markdown_part(text, path.stem)
    return Part(text, title_of(path.suffix.lower(), text) or path.stem)


def markdown_part(text: str, otherwise: str) -> Part:
    """The document of a text in Markdown, which is cut at its headings.

    :param otherwise: The title of a text without a heading.
    """
    return Part(text, title_of(".md", text) or otherwise, _sections(text))


def title_of(suffix: str, text: str) -> str:
    """The first heading of Markdown or reStructuredText, as the suffix says; empty if none."""
    underline = _UNDERLINES.get(suffix)
    if underline is None:
        return ""
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
    return ""


def _sections(text: str) -> tuple[Span, ...]:
    """The spans between headings; a short one, such as a heading alone, has the next one, too."""
    starts, at, fence = [0], 0, ""
    for line in text.splitlines(keepends=True):
        if found := _FENCE.match(line):
            fence = "" if fence == found[1] else fence or found[1]
        elif not fence and _HEADING.fullmatch(line.rstrip("\n")):
            starts += [at] if at - starts[-1] >= _SHORTEST_SECTION else []
        at += len(line)
    return tuple(pairwise([*starts, len(text)])) if len(starts) > 1 else ()


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
