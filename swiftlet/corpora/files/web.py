"""HTML pages as Markdown: all text but navigation, footers and what is not shown."""

import codecs
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any

from swiftlet.corpora.encodings import UTF_8, encoding_of, name_of
from swiftlet.corpora.files.text import Part, as_text, markdown_part
from swiftlet.corpora.lines import read_errors
from swiftlet.errors import CollectionError

_HEAD_BYTES = 10_000
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
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_HAS_HEADING = "has-heading"
_NOT_SHOWN = frozenset({"title", "script", "style", "template"})
_LEFT_OUT = _NOT_SHOWN | {
    "nav", "header", "footer", "aside", "form", "noscript", "select", "datalist", "button",
    "dialog", "svg", "iframe", "audio", "video", "canvas",
}  # fmt: skip
# The title of a page stands in a header, and all of some pages in a form.
_READ_WITH_HEADING = ("header", "form")
_ROLES = {
    "navigation": "nav", "banner": "header", "contentinfo": "footer", "complementary": "aside",
    "search": "form",
}  # fmt: skip
_NAVIGATION = re.compile(
    r"nav(?:bar|igation|header|footer|path|row)?\b|\bbreadcrumbs?\b|sidebar\b", re.IGNORECASE
)
_NOTE = re.compile(r"note|admonition|callout|tip\b|hint|warning|caution|important", re.IGNORECASE)
_MOST_TEXTS = 3_000
_LONG_PAGE, _MOST_ATTRIBUTES = 2**15, 1_000  # shorter pages have too few of them to take long
_LINKS_TO_HEADINGS = ("¶", "#", "§", "🔗", "\uf0c1")
_WITHIN_LINES = frozenset({
    "a", "abbr", "acronym", "area", "audio", "b", "bdi", "bdo", "big", "button", "canvas", "cite",
    "code", "data", "del", "dfn", "em", "font", "i", "iframe", "img", "input", "ins", "kbd",
    "label", "mark", "meter", "nobr", "noscript", "output", "picture", "progress", "q", "rb", "rp",
    "rt", "ruby", "s", "samp", "script", "select", "slot", "small", "source", "span", "strike",
    "strong", "style", "sub", "sup", "svg", "template", "time", "tt", "u", "var", "video", "wbr",
})  # fmt: skip
_CODE, _ROW = "```", "| "
_TICKS = re.compile("`+")
_LONGEST_ROW = 1_000  # a longer one is the layout of a page
_CHARACTERS_BEFORE = 5
_SHORT_UNIT = re.compile(r"(?:^|\W)[^\W\d_]{1,3}$")


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
    :raises ValueError: When an element has very many attributes.
    """
    from lxml import etree, html  # type: ignore[import-untyped]

    if len(page) > _LONG_PAGE:
        counting = etree.HTMLParser(encoding="utf-8", huge_tree=True, target=_Attributes())
        counting.feed(page.encode())
        if counting.close() > _MOST_ATTRIBUTES:
            raise ValueError(f"an element has more than {_MOST_ATTRIBUTES:,} attributes")
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


class _Attributes:
    """Counts the attributes of elements: a tree takes the square of their number to build."""

    most = 0

    def start(self, _tag: str, attributes: Mapping[str, str]) -> None:
        """Take in an element."""
        self.most = max(self.most, len(attributes))

    def close(self) -> int:
        """The number of the element that has most of them."""
        return self.most


def _main_parts(path: Path, page: str) -> Iterator[Part]:
    tree = _tree(page)
    if tree is None:
        return
    for formula in [*tree.iter("math")]:
        words = formula.xpath(".//text()[not(ancestor::*[starts-with(name(), 'annotation')])]")
        formula.tag, formula[:], formula.text = "span", [], " ".join(" ".join(words).split())
    for heading in tree.iter(*_HEADINGS):
        for element in heading.iterancestors():  # each once, as elements nest
            if element.get(_HAS_HEADING) is not None:
                break
            element.set(_HAS_HEADING, "")
    if text := _markdown(tree, _LEFT_OUT) or _markdown(tree, _NOT_SHOWN):
        title = " ".join((tree.findtext("head/title") or "").split())
        author = " ".join(tree.xpath("string(head/meta[@name='author']/@content)").split())
        yield replace(markdown_part(text, title or path.stem), metadata={"author": author})


def _markdown(tree: Any, left_out: frozenset[str]) -> str:
    """The text of a page as Markdown.

    Formats within lines have no signs, since they would divide words.
    """
    from lxml import etree

    blocks, line = list[tuple[str, str]](), list[str]()  # a block has a mark and a text
    starts = list[int]()  # of the rows and cells that are open
    mark, depth, codes = "", 0, 0

    def end_line(new_mark: str = "") -> None:
        nonlocal mark
        text = "".join(line)
        text = text.strip("\n").rstrip() if new_mark == _CODE else " ".join(text.split())
        if text:
            blocks.append((new_mark or mark, text))
            mark = ""
        line.clear()

    walk = etree.iterwalk(tree, events=("start", "end"))
    for event, element in walk:
        name, opens = element.tag, event == "start"
        step = 1 if opens else -1
        if name == "pre":
            if codes == (not opens):  # the outermost
                end_line("" if opens else _CODE)
                mark = ""
            codes += step
        elif name not in _WITHIN_LINES and codes:
            line.append("" if line and line[-1].endswith("\n") else "\n")
        elif name == "br" and mark.startswith("#"):
            line.append(" ")
        elif name == "br":
            end_line()
        elif name not in _WITHIN_LINES:
            end_line()
            mark = _mark(name, depth) or mark if opens else ""
            if name in {"tr", "td", "th"} and opens:
                starts.append(len(blocks))
            elif name in {"tr", "td", "th"}:
                _join(blocks, starts.pop(), _ROW if name == "tr" else "")
        depth += step * (name in {"ul", "ol", "menu", "dir"})
        text = (element.text if opens else element.tail) or ""
        if opens and _is_left_out(element, left_out):
            walk.skip_subtree()
            continue
        if opens and name in {"img", "area"}:
            text = f" {element.get('alt') or ''} "
        if opens and name == "sup" and _is_apart(element, "".join(line[-_CHARACTERS_BEFORE:])):
            text = f"^{text}"
        line += [text] * bool(text)
    end_line()
    return _joined(blocks)


def _is_left_out(element: Any, left_out: frozenset[str]) -> bool:
    """Whether an element is not read: by its tag, by its role, or as links that navigate."""
    if element.tag == "a":
        is_own = (element.get("href") or "").startswith("#")
        return is_own and "".join(_texts(element)) in _LINKS_TO_HEADINGS
    role = element.get("role") or ""
    name, names = _ROLES.get(role, element.tag), f"{element.get('class') or ''} {role}"
    is_note = name == "aside" and bool(_NOTE.search(names))  # such as footnotes
    if name in left_out and name in _READ_WITH_HEADING:
        return element.get(_HAS_HEADING) is None
    if name in left_out or left_out == _NOT_SHOWN or name == "li" or name in _WITHIN_LINES:
        return name in left_out and not is_note
    if is_note or not _NAVIGATION.search(f"{names} {element.get('id') or ''}"):
        return False
    texts = _texts(element)
    return len(texts) < _MOST_TEXTS and _are_links(element, texts)


def _are_links(element: Any, texts: list[str]) -> bool:
    """Whether most of the texts of an element are those of its links."""
    linked = [text for link in element.iter("a") for text in _texts(link)]
    return 2 * sum(map(len, linked)) > sum(map(len, texts))


def _texts(element: Any) -> list[str]:
    """The first texts of an element; not all, since elements nest."""
    return [text.strip() for text in islice(element.itertext(), _MOST_TEXTS)]


def _mark(name: str, depth: int) -> str:
    """The sign of Markdown before the text of a block."""
    if name == "li":
        return "  " * (depth - 1) + "- "
    return "#" * int(name[1]) + " " if name in _HEADINGS else ""


def _is_apart(element: Any, before: str) -> bool:
    """Whether a superscript is no part of the word before it: 10³ and a note are, m² is not."""
    return not "".join(_texts(element)).isalpha() and not _SHORT_UNIT.search(before)


def _join(blocks: list[tuple[str, str]], start: int, mark: str) -> None:
    """Make one block of those of a cell or row, unless they are the layout of a page."""
    inner = blocks[start:]
    if not any(each for each, _ in inner) and sum(len(text) for _, text in inner) <= _LONGEST_ROW:
        between = " | " if mark else " "
        blocks[start:] = [(mark, between.join(text for _, text in inner))]


def _joined(blocks: list[tuple[str, str]]) -> str:
    parts, previous = list[str](), ""
    for mark, text in blocks:
        if not text.strip(" |"):
            continue
        kind = mark.lstrip()
        parts.append("\n" if kind == previous and kind in {"- ", _ROW} else "\n\n")
        previous = kind
        if mark == _CODE:
            fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
            parts.append(f"{fence}\n{text}\n{fence}")
        else:
            parts.append(f"{mark}{as_text(text)}{' |' * (mark == _ROW)}")
    return "".join(parts[1:])
