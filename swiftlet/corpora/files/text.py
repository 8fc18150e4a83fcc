"""Text and Markdown: their decoding, title and sections."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from swiftlet.corpora.encodings import CONTROL, decoded
from swiftlet.corpora.lines import read_errors
from swiftlet.errors import CollectionError
from swiftlet.types import FRONT_MATTER_LINES, Section

MARKDOWN_SUFFIXES = frozenset({".md", ".markdown"})
TEXT_SUFFIXES = MARKDOWN_SUFFIXES | {".txt", ".rst"}

Note = Callable[[str], None]
"""Takes a sentence about what was recognised, such as the encoding."""

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_HTML = re.compile(r" {0,3}<(?:!--|(pre|script|style|textarea)\b)")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t](.*)")
_MARKS = re.compile(r"^( {0,3})(#{1,6}[ \t]|`{3}|~{3})", re.MULTILINE)
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")
_NO_PARAGRAPH = re.compile(r"\s*([-*+>|<]|\d+[.)]|$)| {4}|\t")
_RST_UNDERLINE = re.compile(r"([-=~^\"#*+])\1{2,}[ \t]*")
_LONGEST_FRONT_MATTER = 1 << 14
_MOST_BRACKETS = 500
_FRONT_ENDS = ("---", "...")
_YAML_NULL = "tag:yaml.org,2002:null"
_KEY = re.compile(r"[\w-]+")
_NUMBER = re.compile(r"[+-]?(?!0\d)\d{1,15}(\.\d{1,15})?")
_TAB = re.compile(r"^([\w-]+:)\t", re.MULTILINE)  # which the package does not know
_USUAL_KEYS = frozenset({
    "title", "subtitle", "date", "author", "authors", "layout", "tags", "tag", "categories",
    "category", "keywords", "description", "summary", "slug", "permalink", "aliases", "draft",
    "lang", "id", "weight",
})  # fmt: skip
_HEAD_CHARACTERS = 10_000  # a later heading belongs to a part of the document
_SHORTEST_SECTION = 200
_LONGEST_NAME = 1_000
_SHOWN = 100
_BETWEEN = " > "


@dataclass(frozen=True, slots=True)
class Part:
    """A document of a file; `place` distinguishes it from other documents of the file."""

    text: str
    title: str
    sections: tuple[Section, ...] = ()
    place: str = ""
    metadata: Mapping[str, object] = field(default_factory=dict)


Reader = Callable[[Path, bytes, Note], Iterable[Part | CollectionError]]
"""The documents of a file, from its path and its bytes; an error stands for a part of it."""


def text_of(path: Path, content: bytes, note: Note) -> str:
    """The text of a file, with one sign for the end of a line.

    :param note: Is told the encoding, if it is not UTF-8.
    :raises CollectionError: When it is blank, or in no encoding that is known.
    """
    with read_errors(path):
        text, encoding = decoded(content)
    if encoding:
        note(f"{path.name} is read as {encoding}")
    if found := CONTROL.search(text):
        note(f"{path.name} has control characters, such as U+{ord(found[0]):04X}")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text or text.isspace():
        raise CollectionError(path, "the file is empty")
    return text


def text_parts(path: Path, content: bytes, note: Note) -> Iterator[Part]:
    """The document of a text or reStructuredText file; errors as `text_of`."""
    text = text_of(path, content, note)
    title = _rst_title(text) if path.suffix.lower() == ".rst" else ""
    yield Part(text, title or path.stem)


def markdown_parts(path: Path, content: bytes, note: Note) -> Iterator[Part]:
    """The document of a Markdown file, with the fields of its front matter; errors as `text_of`."""
    text = text_of(path, content, note)
    length, title, fields = _front_matter(text)
    if not text[length:].strip():
        length, title, fields = 0, "", {}
    if fields and _USUAL_KEYS.isdisjoint(fields):
        said = ", ".join(fields)[:_SHOWN]
        note(f"{path.name} begins with front matter, which is no text: {said}")
    kept = {name: value for name, value in fields.items() if name.lower() != "title"}
    if length:
        kept[FRONT_MATTER_LINES] = text.count("\n", 0, length)
    yield replace(markdown_part(text[length:], path.stem, title), metadata=kept)


def _front_matter(text: str) -> tuple[int, str, dict[str, Any]]:
    """The length of the front matter, its title and fields: a mapping of YAML between lines of ---.

    Prose may be such a mapping, too, so a key is a usual one, or all are words in lower case.
    """
    import yaml  # type: ignore[import-untyped]

    none = 0, "", dict[str, Any]()
    lines = text[:_LONGEST_FRONT_MATTER].split("\n")
    if lines[0].rstrip(" \t") != "---":
        return none
    ends = (at for at, line in enumerate(lines) if at and line.rstrip(" \t") in _FRONT_ENDS)
    end = next(ends, 0)
    block = _TAB.sub(r"\1 ", "\n".join(lines[1:end]))
    # The package takes a time that grows with the square of the open brackets.
    if not end or block.count("{") + block.count("[") > _MOST_BRACKETS:
        return none
    try:
        # The tree alone: nothing is constructed, so references cannot multiply.
        tree = yaml.compose(block, yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError):
        return none
    if not isinstance(tree, yaml.MappingNode):
        return none
    keys = [key.value if isinstance(key, yaml.ScalarNode) else "" for key, _ in tree.value]
    are_words = all(map(_KEY.fullmatch, keys))
    are_lower = len(keys) > 1 and all(key[:1].islower() for key in keys)
    if not all(keys) or not (
        not _USUAL_KEYS.isdisjoint(keys)
        or (are_words and (are_lower or not _USUAL_KEYS.isdisjoint(map(str.lower, keys))))
    ):
        return none
    names = (
        " ".join(value.value.split())
        for key, (_, value) in zip(keys, tree.value, strict=True)
        if key.lower() == "title" and isinstance(value, yaml.ScalarNode) and value.tag != _YAML_NULL
    )
    seen = set[int]()
    values = (_plain(value, seen) for _, value in tree.value)
    fields = dict(zip(keys, values, strict=True))
    return len("\n".join(lines[: end + 1])) + 1, next(names, ""), fields


def _plain(node: Any, seen: set[int]) -> Any:
    """A text, a number, a truth value or a list of these; None for what is empty or nested deeper.

    What a reference repeats is read once, so that references cannot multiply.
    """
    if id(node) in seen:
        return None
    seen.add(id(node))
    if isinstance(node.value, str):
        kind = node.tag.rpartition(":")[2]
        if kind == "bool":
            return node.value.lower() in {"true", "yes", "on"}
        if _NUMBER.fullmatch(node.value) and kind in {"int", "float"}:
            return float(node.value) if "." in node.value else int(node.value)
        return None if kind == "null" else node.value.strip()
    inner = [each for each in node.value if isinstance(getattr(each, "value", None), str)]
    return [value for each in inner if (value := _plain(each, seen)) not in (None, "")]


def markdown_part(text: str, otherwise: str, title: str = "") -> Part:
    """The document of a text in Markdown, which is cut at its headings.

    :param otherwise: The title of a text without a heading.
    :param title: The title, if it is not the first heading.
    """
    first = next((each.name for each in headings(text[:_HEAD_CHARACTERS]) if each.name), "")
    return Part(text, title or first or otherwise, _sections(text, title))


def as_text(text: str) -> str:
    """A text in Markdown in which no line begins a heading or a block of code."""
    return _MARKS.sub(r"\1\\\2", text)


def _rst_title(text: str) -> str:
    """The first heading of reStructuredText; empty if there is none."""
    previous = ""
    for line in text[:_HEAD_CHARACTERS].split("\n"):
        underlined = _RST_UNDERLINE.fullmatch(line)
        if previous and underlined:
            return previous
        previous = "" if underlined else line.strip()
    return ""


class Heading(NamedTuple):
    """A heading of Markdown, with the offsets of its first character and after its last line."""

    start: int
    end: int
    level: int
    name: str


def headings(text: str) -> Iterator[Heading]:
    """The headings outside of fences: `# name`, or a line that is underlined by = or -.

    Comments and code of HTML have none.
    """
    start, fence, end_of_html = 0, "", ""
    before, previous = "", ""
    for line in text.split("\n"):
        bare, end = line, start + len(line) + 1
        fenced = _FENCE.match(line)
        html = None if fence or end_of_html else _HTML.match(line)
        if html:
            end_of_html = f"</{html[1]}" if html[1] else "-->"
        if end_of_html:
            bare = ""
            if end_of_html in line.lower():
                end_of_html = ""
        elif fence:
            bare = ""
            if fenced and fenced[1].startswith(fence) and not fenced[2].strip():
                fence = ""
        elif fenced and not (fenced[1][0] == "`" and "`" in fenced[2]):  # else code in a line
            bare, fence = "", fenced[1]
        elif found := _HEADING.fullmatch(bare):
            yield Heading(start, end, len(found[1]), _without_closing(found[2]))
            bare = ""
        elif (found := _UNDERLINE.fullmatch(bare)) and not (
            before or _NO_PARAGRAPH.match(previous)
        ):
            level = 1 if found[1][0] == "=" else 2
            yield Heading(start - len(previous) - 1, end, level, previous.strip())
            bare = ""
        before, previous, start = previous.strip(), bare, end


def _without_closing(name: str) -> str:
    """The name of a heading without the # that close it."""
    name = name.strip(" \t")
    bare = name.rstrip("#")
    return name if bare and bare[-1] not in " \t" else bare.rstrip(" \t")


def _sections(text: str, title: str) -> tuple[Section, ...]:
    """The parts between headings; a short one, such as a heading alone, has the next one, too.

    The heading of a part is its path of headings, without the first heading if it is the title.
    """
    starts, paths, path = [0], [""], list[tuple[int, str]]()
    named, headings_alone, end = bool(title), True, 0
    for heading in headings(text):
        path = [each for each in path if each[0] < heading.level]
        # Each part below a heading has its name.
        name = heading.name[:_LONGEST_NAME]
        path += [(heading.level, name if named and heading.name != title else "")]
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
