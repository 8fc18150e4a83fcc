"""HTML pages as Markdown: the main text, without navigation and footers."""

import codecs
import logging
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from html import escape
from pathlib import Path
from typing import Any

from swiftlet.corpora.encodings import UTF_8, encoding_of, name_of
from swiftlet.corpora.files.text import Part, as_text, markdown_part
from swiftlet.corpora.lines import read_errors
from swiftlet.errors import CollectionError

_HEAD_BYTES = 10_000
_DEEPEST = 200
# Encodings are declared by the names of smaller ones.
_AS_BROWSERS = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "shift_jis": "cp932",
    "euc_kr": "cp949", "gb2312": "gb18030", "gbk": "gb18030",
}  # fmt: skip
_CHARSET = re.compile(
    rb"<(?:meta[^<>]*?charset|\?xml[^<>]*?encoding)\s*=[\s\"']*([\w.:-]+)", re.IGNORECASE
)
# Characters that XML has not, as such and as references.
_NO_XML = re.compile(
    r"""
    [\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]
    | &\# 0* (?: [0-8] | 1[124-9] | 2\d | 3[01] | 6553[45] ) (?!\d) ;?
    | &\# x 0* (?: [0-8bcef] | 1[\da-f] | fff[ef] ) (?![\da-f]) ;?
    """,
    re.IGNORECASE | re.VERBOSE,
)
_CLOSED_AT_ONCE = re.compile(r"<html\b[^<>]*/>", re.IGNORECASE)
_CDATA = re.compile(r"<!\[CDATA\[(.*?)(?:\]\]>|\Z)", re.DOTALL)
_LEVELS = ("h1", "h2", "h3", "h4", "h5", "h6")
_LEFT_OUT = frozenset({
    "head", "nav", "header", "footer", "aside", "script", "style", "form", "noscript", "template",
    "select", "button", "dialog",
})  # fmt: skip
_WITHIN_LINES = frozenset({
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i",
    "ins", "kbd", "label", "mark", "output", "q", "rb", "rp", "rt", "ruby", "s", "samp", "small",
    "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr",
})  # fmt: skip
_LEAST_FOUND = 0.8
_OPENING = re.compile(r"^`{3,}|(?<![`\\])`{3,}$")
_IN_RUNS = _WITHIN_LINES | {"br", "img", "math"}
_CONTAINERS = (
    "address", "article", "blockquote", "body", "center", "details", "div", "fieldset", "figure",
    "hgroup", "main", "search", "section", "dd", "li", "td", "th",
)  # fmt: skip
_LOST_ALONE = ("article", "main", "section")
"""Containers of which the package loses a text that stands in no block."""

_FORMS = {
    "fieldset": "div", "figcaption": "p", "figure": "div", "hgroup": "div", "legend": "p",
    "search": "div", "textarea": "p",
}  # fmt: skip
_DROPPED = ("bdi", "bdo", "data", "label", "output", "rb", "rp", "rt", "ruby", "sub", "sup", "time")
_DROPPED_IF_BLANK = ("a", "code", "kbd", "samp", "tt")
_IN_LINES = _WITHIN_LINES | {"p", "li", "td", "th", "dd", "dt"}
_HEADINGS = re.compile(r"^#{1,6} ", re.MULTILINE)
# What trafilatura writes so that a program that shows Markdown shows the text. In blocks and spans
# of code, backslashes stay.
_CODE_OR_ESCAPES = re.compile(
    r"""
    ^(?P<fence>`{3,}) (?: .*? \n[^\S\n]*(?P=fence)[^\S\n]*$ | .* )
    | (?<![\\`])(?P<ticks>`{1,9})(?!`) (?:(?!\n```).)*? (?<![\\`])(?P=ticks)(?!`)
    | ^(?P<start>[ ]{0,3}(?:\d{1,9})?)\\(?P<sign>[>+.)-])
    | (?<!\\)(?P<run>\\++)(?P<special>[*_`~\[\]<])
    """,
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_CHARACTERS_BEFORE = 5
_SHORT_UNIT = re.compile(r"(?:^|\W)[^\W\d_]{1,3}$")
_LEAST_SHARE = 0.9


def web_parts(
    path: Path, content: bytes, note: Callable[[str], None] = lambda _: None
) -> Iterator[Part]:
    """The main text of a page as Markdown; all of it if none is found.

    :param note: Is told the encoding, if it is not UTF-8 and the page does not declare it.
    :raises CollectionError: When it is in no encoding that is known, or nested too deeply.
    """
    try:
        with read_errors(path, ValueError):  # of packages, for text that a tree cannot have
            yield from _main_parts(path, _page(path, content, note))
    except RecursionError as error:
        raise CollectionError(path, "its elements are nested too deeply to be read") from error


def _page(path: Path, content: bytes, note: Callable[[str], None]) -> str:
    """The source of a page, without characters that no tree can have."""
    declared = _declared(content)
    encoding = declared or encoding_of(content)
    try:
        page = content.decode(encoding)
    except UnicodeDecodeError:
        page = content.decode(encoding, "replace")
        note(f"{path.name} has bytes that are not valid {name_of(encoding)}")
    if encoding not in {*UTF_8, declared}:
        note(f"{path.name} is read as {name_of(encoding)}")
    if path.suffix.lower() == ".xhtml":
        page = _CDATA.sub(lambda found: escape(found[1]), page)
    return _NO_XML.sub("", _CLOSED_AT_ONCE.sub("<html>", page, count=1))


def _declared(content: bytes) -> str:
    """The codec that a page says it is in; empty if it is UTF-8, has a mark or says none."""
    found = _CHARSET.search(content[:_HEAD_BYTES])
    try:
        codec = codecs.lookup(found[1].decode("ascii")).name if found else "utf"
        b"a".decode(codec)  # which refuses codecs of something else than text
        if not content.isascii():
            content.decode()
            return ""
    except UnicodeDecodeError:
        pass
    except LookupError:
        return ""
    codec = _AS_BROWSERS.get(codec, codec)
    return "" if codec.startswith("utf") else codec


def _tree(page: str) -> Any:
    """The elements of a page; None if it has none.

    :raises RecursionError: When it is nested so deeply that the parser would drop text.
    """
    from lxml import etree, html  # type: ignore[import-untyped]

    parser = html.HTMLParser(
        encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True, collect_ids=False
    )
    try:
        tree = html.document_fromstring(page.encode(), parser=parser)
    except etree.ParserError:
        return None
    if any(each.message.startswith("Excessive depth") for each in parser.error_log):
        raise RecursionError
    return tree


def _main_parts(path: Path, page: str) -> Iterator[Part]:
    import trafilatura

    # Of bad pages, the package writes to the log what the missing text says, too.
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    tree = _tree(page)
    if tree is None:
        return
    _prepare(tree)
    # Of deeper elements, the package drops the text.
    text = "" if tree.xpath(f"boolean(//*[count(ancestor::*) > {_DEEPEST}])") else _main_text(tree)
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


def _main_text(tree: Any) -> str:
    import trafilatura

    text = trafilatura.extract(
        deepcopy(tree),
        output_format="markdown",
        include_formatting=True,
        include_comments=False,
        favor_recall=True,
    )
    text = _with_whole_fences(text or "")
    return without_escapes(text) if text else trafilatura.html2txt(deepcopy(tree)) or ""


def _prepare(tree: Any) -> None:
    """Give what the package would lose another form: captions, pictures, formulas, labels.

    In a page that does not say where its main text is, it would lose lists and tables.
    """
    from lxml import etree

    body = tree.find("body")
    if body is not None and not tree.xpath("//article|//main|//*[@role='main']"):
        article = body.makeelement("article")
        article.text, body.text = body.text, None
        article.extend([*body])
        body.append(article)
    for formula in [*tree.iter("math")]:
        words = " ".join(
            formula.xpath(".//text()[not(ancestor::*[starts-with(name(), 'annotation')])]")
        )
        formula.tag, formula[:], formula.text = "span", [], " ".join(words.split())
    for element in [*tree.iter(*_CONTAINERS)]:
        _set_apart(element)
    for element in [*tree.iter("sup", "img", *_FORMS)]:
        if element.tag in _FORMS:
            element.tag = _FORMS[element.tag]
        elif element.tag == "img":
            _show_alternative(element)
        elif _is_apart(element):
            element.text = f"^{element.text or ''}"
    for element in tree.xpath("//td//blockquote|//th//blockquote"):  # its text would be lost
        element.tag = "div"
    for element in [*tree.iter("code", "kbd", "samp", "tt")]:  # what follows them would be lost
        etree.strip_tags(element, *_WITHIN_LINES)
    etree.strip_tags(tree, *_DROPPED)
    for element in tree.iter():  # many texts in a row, which that leaves, take the package long
        element.text, element.tail = element.text, element.tail
    for element in [*tree.iter(*_DROPPED_IF_BLANK)]:
        if not element.text_content().strip() and element.find(".//img[@alt]") is None:
            element.drop_tag()


def _set_apart(element: Any) -> None:
    """Make a paragraph of each run of text and elements within lines that stands beside blocks."""
    runs: list[tuple[Any, list[Any]]] = [(None, [])]
    for child in element:
        if child.tag in _IN_RUNS:
            runs[-1][1].append(child)
        else:
            runs.append((child, []))
    is_one = len(runs) == 1 and not any(child.tag == "br" for child in element)
    if is_one and element.tag not in _LOST_ALONE:
        return
    for block, children in runs:
        text = (element.text if block is None else block.tail) or ""
        words = [f"{'' if each.tag == 'a' else each.text_content()}{each.tail or ''}"
                 for each in children]  # fmt: skip
        if not "".join([text, *words]).strip():  # links alone may be navigation
            continue
        paragraph = element.makeelement("p")
        paragraph.text = text
        if block is None:
            element.text = None
            element.insert(0, paragraph)
        else:
            block.tail = None
            block.addnext(paragraph)
        paragraph.extend(children)


def _show_alternative(picture: Any) -> None:
    """The alternative text in place of a picture."""
    if text := " ".join((picture.get("alt") or "").split()):
        parent = picture.getparent()
        picture.tag = "span" if parent is not None and parent.tag in _IN_LINES else "p"
        picture.attrib.clear()
        picture.text = f" {text} "


def _is_apart(element: Any) -> bool:
    """Whether a superscript is no part of the word before it: 10³ and a note are, m² is not."""
    text = element.text_content().strip()
    return not text.isalpha() and not _SHORT_UNIT.search(_text_before(element))


def _text_before(element: Any) -> str:
    """The last characters of the line before an element, also of those that are dropped."""
    found = ""
    for _ in range(_CHARACTERS_BEFORE):
        previous, parent = element.getprevious(), element.getparent()
        element = parent if previous is None else previous
        found = ((parent.text if previous is None else previous.tail) or "") + found
        if len(found) >= _CHARACTERS_BEFORE or element.tag not in _DROPPED:
            break
        if previous is not None:
            found = previous.text_content() + found
    return found[-_CHARACTERS_BEFORE:]


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


def _mark(name: str, depth: int) -> str:
    """The sign of Markdown before the text of a block."""
    if name == "li":
        return "  " * (depth - 1) + "- "
    return "#" * int(name[1]) + " " if name in _LEVELS else ""


def _blocks(tree: Any) -> tuple[str, int]:
    """All text of a page but its navigation, as Markdown, and how much of it is in links."""
    from lxml import etree

    blocks, line = list[str](), list[str]()
    mark, depth = "", 0
    in_links = links = 0

    def end_line() -> None:
        nonlocal mark
        if words := " ".join("".join(line).split()):
            blocks.append(f"{mark}{as_text(words)}")
            mark = ""
        line.clear()

    walk = etree.iterwalk(tree, events=("start", "end", "comment", "pi"))
    for event, element in walk:
        name, opens = element.tag if event in {"start", "end"} else "", event == "start"
        if name and name not in _WITHIN_LINES:
            end_line()
            mark = _mark(name, depth) or mark if opens else ""
        depth += (name in {"ul", "ol"}) * (1 if opens else -1)
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
