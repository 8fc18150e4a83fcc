"""Text and Markdown: their decoding, title and sections."""

import codecs
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from swiftlet.errors import CollectionError
from swiftlet.types import Section

MARKDOWN_SUFFIXES = frozenset({".md", ".markdown"})
TEXT_SUFFIXES = MARKDOWN_SUFFIXES | {".txt", ".rst"}

_FENCE = re.compile(r" {0,3}(```|~~~)")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#*)?[ \t]*")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")
_NO_PARAGRAPH = re.compile(r"\s*([-*+>|<]|\d+[.)]|$)| {4}|\t")
_RST_UNDERLINE = re.compile(r"([-=~^\"#*+])\1{2,}[ \t]*")
_FRONT_MATTER = re.compile(
    r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE
)
_FRONT_TITLE = re.compile(r"^title:[ \t]+(['\"]?)(.+?)\1[ \t]*$", re.MULTILINE)
_HEAD_CHARACTERS = 10_000  # a later heading belongs to a part of the document
_SHORTEST_SECTION = 200
_BETWEEN = " > "


@dataclass(frozen=True, slots=True)
class Part:
    """A document of a file; `place` distinguishes it from other documents of the file."""

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
        front = _FRONT_MATTER.match(text)
        body = text[front.end() :] if front else text
        if body.strip():
            given = _FRONT_TITLE.search(front[1]) if front else None
            return markdown_part(body, path.stem, given[2] if given else "")
    title = _rst_title(text) if path.suffix.lower() == ".rst" else ""
    return Part(text, title or path.stem)


def markdown_part(text: str, otherwise: str, title: str = "") -> Part:
    """The document of a text in Markdown, which is cut at its headings.

    :param otherwise: The title of a text without a heading.
    :param title: The title, if it is not the first heading.
    """
    first = next((each.name for each in _headings(text[:_HEAD_CHARACTERS]) if each.name), "")
    return Part(text, title or first or otherwise, _sections(text, title))


def _rst_title(text: str) -> str:
    """The first heading of reStructuredText; empty if there is none."""
    previous = ""
    for line in text[:_HEAD_CHARACTERS].split("\n"):
        underlined = _RST_UNDERLINE.fullmatch(line)
        if previous and underlined:
            return previous
        previous = "" if underlined else line.strip()
    return ""


class _Heading(NamedTuple):
    """A heading of Markdown, with the offsets of its first character and after its last line."""

    start: int
    end: int
    level: int
    name: str


def _headings(text: str) -> Iterator[_Heading]:
    """The headings outside of fences: `# name`, or a line that is underlined by = or -."""
    start, fence = 0, ""
    before, previous = "", ""
    for line in text.split("\n"):
        bare, end = line, start + len(line) + 1
        if fenced := _FENCE.match(line):
            fence = "" if fence == fenced[1] else fence or fenced[1]
        if fenced or fence:
            bare = ""
        elif found := _HEADING.fullmatch(bare):
            level = len(bare.lstrip()) - len(bare.lstrip().lstrip("#"))
            yield _Heading(start, end, level, found[1])
            bare = ""
        elif (found := _UNDERLINE.fullmatch(bare)) and not (
            before or _NO_PARAGRAPH.match(previous)
        ):
            level = 1 if found[1][0] == "=" else 2
            yield _Heading(start - len(previous) - 1, end, level, previous.strip())
            bare = ""
        before, previous, start = previous.strip(), bare, end


def _sections(text: str, title: str) -> tuple[Section, ...]:
    """The parts between headings; a short one, such as a heading alone, has the next one, too.

    The heading of a part is its path of headings, without the first heading if it is the title.
    """
    starts, paths, path = [0], [""], list[tuple[int, str]]()
    named, headings_alone, end = bool(title), True, 0
    for heading in _headings(text):
        path = [each for each in path if each[0] < heading.level]
        path += [(heading.level, heading.name if named and heading.name != title else "")]
        named |= bool(heading.name)
        joined = _BETWEEN.join(name for _, name in path if name)
        headings_alone &= not text[end : heading.start].strip()
        if heading.start - starts[-1] >= _SHORTEST_SECTION:
            starts.append(heading.start)
            paths.append(joined)
            headings_alone = True
        elif headings_alone:
            paths[-1] = joined
        end = heading.end
    ends = [*starts[1:], len(text)]
    return tuple(map(Section, starts, ends, paths)) if len(starts) > 1 else ()


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
