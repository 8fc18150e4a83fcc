"""Text and Markdown: their decoding, title and sections."""

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from swiftlet.retrieval.errors import CollectionError
from swiftlet.retrieval.types import Section

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
_BETWEEN = " > "


@dataclass(frozen=True, slots=True)
class Part:
    """A document of a file; `place` distinguishes it from others of the same file."""

    text: str
    title: str
    sections: tuple[Section, ...] = ()
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


def _sections(text: str) -> tuple[Section, ...]:
    """The parts between headings; a short one, such as a heading alone, has the next one, too.

    The heading of a part is its path. The first heading of the text is left out, since it is the
    title.
    """
    starts, paths, path = [0], [""], list[tuple[int, str]]()
    at, fence, named = 0, "", False
    for line in text.splitlines(keepends=True):
        if found := _FENCE.match(line):
            fence = "" if fence == found[1] else fence or found[1]
        elif not fence and (heading := _HEADING.fullmatch(line.rstrip("\n"))):
            level = len(heading[0].lstrip()) - len(heading[0].lstrip().lstrip("#"))
            path = [each for each in path if each[0] < level]
            path += [(level, heading[1] if named else "")]
            named |= bool(heading[1])
            joined = _BETWEEN.join(name for _, name in path if name)
            if at - starts[-1] >= _SHORTEST_SECTION:
                starts.append(at)
                paths.append(joined)
            elif _are_headings(text[starts[-1] : at]):
                paths[-1] = joined
        at += len(line)
    ends = [*starts[1:], len(text)]
    return tuple(map(Section, starts, ends, paths)) if len(starts) > 1 else ()


def _are_headings(text: str) -> bool:
    return all(_HEADING.fullmatch(line) for line in text.split("\n") if line.strip())


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
