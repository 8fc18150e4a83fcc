"""HTML pages as Markdown: the main text, without navigation and footers."""

import logging
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from swiftlet.corpora.files.text import Part, markdown_part

_HEAD_BYTES = 10_000
_LEVELS = ("h1", "h2", "h3", "h4", "h5", "h6")
_LEFT_OUT = frozenset({
    "head", "nav", "header", "footer", "aside", "script", "style", "form", "noscript", "template",
    "select", "button", "dialog",
})  # fmt: skip
_WITHIN_LINES = frozenset({
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "del", "dfn", "em", "font", "i", "ins",
    "kbd", "label", "mark", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "sup",
    "time", "tt", "u", "var", "wbr",
})  # fmt: skip
_LEAST_FOUND = 0.8
_OPENING = re.compile(r"^`{3,}|(?<![`\\])`{3,}$")
_IN_LINES = _WITHIN_LINES | {"p", "li", "td", "th", "dd", "dt"}
_HEADINGS = re.compile(r"^#{1,6} ", re.MULTILINE)
# What trafilatura writes so that a program that shows Markdown shows the text. In blocks and spans
# of code, backslashes stay.
_CODE_OR_ESCAPES = re.compile(
    r"""
    ^(?P<fence>`{3,}) (?: .*? \n\s*(?P=fence)[^\S\n]*$ | .* )
    | (?<![\\`])(?P<ticks>`+)(?!`) (?:(?!\n```).)*? (?<![\\`])(?P=ticks)(?!`)
    | ^(?P<start>[ ]{0,3}(?:\d{1,9})?)\\(?P<sign>[>+.)-])
    | (?P<run>\\+)(?P<special>[*_`~\[\]<])
    """,
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_SHORT_UNIT = re.compile(r"(?:^|\W)[^\W\d_]{1,3}$")
_LEAST_SHARE = 0.9


def web_parts(path: Path, content: bytes) -> Iterator[Part]:
    """The main text of a page as Markdown; all of it if none is found."""
    import trafilatura

    # Of bad pages, the package writes to the log what the missing text says, too.
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    if b"<html" not in content[:_HEAD_BYTES].lower():  # the package takes whole pages only
        content = b"<html><body>" + content + b"</body></html>"
    tree = trafilatura.load_html(content)
    if tree is None:
        return
    _prepare(tree)
    text = trafilatura.extract(
        deepcopy(tree),
        output_format="markdown",
        include_formatting=True,
        include_comments=False,
        favor_recall=True,
    )
    text = _with_whole_fences(text or "")
    text = without_escapes(text) if text else trafilatura.html2txt(deepcopy(tree)) or ""
    own, in_links = _blocks(tree)
    # On some layouts, the package loses headings and code, or all that stands outside of blocks.
    has_lost = not _HEADINGS.search(text) and _HEADINGS.search(own)
    if len(text) < _LEAST_FOUND * (len(own) - in_links) or (
        has_lost and len(own) >= _LEAST_SHARE * len(text)
    ):
        text = own
    if text:
        found = trafilatura.extract_metadata(tree)
        yield markdown_part(text, (found and found.title) or path.stem)


def _prepare(tree: Any) -> None:
    """Give what the package would lose another form: captions, pictures, small figures.

    In a page that does not say where its main text is, it would lose lists and tables.
    """
    body = tree.find("body")
    if body is not None and not tree.xpath("//article|//main|//*[@role='main']"):
        article = body.makeelement("article")
        article.text, body.text = body.text, None
        article.extend([*body])
        body.append(article)
    forms = {"figure": "div", "figcaption": "p"}
    for element in [*tree.iter("sub", "sup", "img", *forms)]:
        if element.tag in forms:
            element.tag = forms[element.tag]
        elif element.tag == "img":
            _show_alternative(element)
        else:
            if element.tag == "sup" and _is_apart(element):
                element.text = f"^{element.text or ''}"
            element.drop_tag()


def _show_alternative(picture: Any) -> None:
    """The alternative text in place of a picture."""
    if text := " ".join((picture.get("alt") or "").split()):
        parent = picture.getparent()
        picture.tag = "span" if parent is not None and parent.tag in _IN_LINES else "p"
        picture.attrib.clear()
        picture.text = text


def _is_apart(element: Any) -> bool:
    """Whether a superscript is no part of the word before it: 10³ and a note are, m² is not."""
    text = element.text_content().strip()
    previous = element.getprevious()
    parent = element.getparent()
    before = (parent.text if previous is None else previous.tail) or ""
    return not text.isalpha() and not _SHORT_UNIT.search(before[-5:])


def _with_whole_fences(text: str) -> str:
    """Blocks of code that begin within a line begin on a line of their own, as Markdown has it."""
    lines, fence = list[str](), ""
    for line in text.split("\n"):
        opens = None if fence else _OPENING.search(line)
        if fence:
            fence = "" if line.strip() == fence else fence
        elif opens and (opens.start() == 0 or line.count(opens[0]) % 2):  # else a span ends here
            fence = opens[0]
            if opens.start():
                lines += [line[: opens.start()].rstrip(), fence]
                continue
        lines.append(line)
    return "\n".join(lines)


def without_escapes(text: str) -> str:
    """Markdown of trafilatura without its backslashes, so that names are whole words."""
    return _CODE_OR_ESCAPES.sub(_without_escapes, text)


def _without_escapes(found: re.Match[str]) -> str:
    if found["start"] is not None:
        return f"{found['start']}{found['sign']}"
    return "\\" * (len(found["run"]) // 2) + found["special"] if found["run"] else found[0]


def _blocks(tree: Any) -> tuple[str, int]:
    """All text of a page but its navigation, as Markdown, and how much of it is in links."""
    from lxml import etree  # type: ignore[import-untyped]

    blocks, line = list[str](), list[str]()
    level = in_links = links = 0

    def end_line() -> None:
        if words := " ".join("".join(line).split()):
            blocks.append(f"{'#' * level} {words}".lstrip())
        line.clear()

    walk = etree.iterwalk(tree, events=("start", "end", "comment", "pi"))
    for event, element in walk:
        name, opens = element.tag if event in {"start", "end"} else "", event == "start"
        if name and name not in _WITHIN_LINES:
            end_line()
            level = int(name[1]) if opens and name in _LEVELS else 0
        if opens and (name in _LEFT_OUT or name == "pre"):
            walk.skip_subtree()
            blocks += [f"```\n{element.text_content().strip()}\n```"] * (name == "pre")
            continue
        links += (name == "a") * (1 if opens else -1)
        text = (element.text if opens else element.tail) or ""
        line.append(text)
        in_links += len(text) * (links > 0)
    end_line()
    return "\n\n".join(blocks), in_links
