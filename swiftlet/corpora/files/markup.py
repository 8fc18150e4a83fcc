"""LaTeX, Org, Rich Text and subtitles as Markdown."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unicodedata import normalize

from swiftlet.corpora.files.text import Note, Part, as_text, markdown_part, text_of
from swiftlet.errors import CollectionError
from swiftlet.types import Section

_LEVELS = {
    "part": 1,
    "chapter": 1,
    "section": 2,
    "subsection": 3,
    "subsubsection": 4,
    "paragraph": 5,
}
_TEX_COMMENT = re.compile(r"(?<!\\)%[^\n]*\n?[ \t]*|\\iffalse\b.*?(?:\\fi\b|\Z)", re.DOTALL)
_TEX_BODY = re.compile(r"\\begin\s*\{document\}")
_TEX_COMMAND = re.compile(r"\\([A-Za-z@]+)\*?[ \t]*|\\(.)", re.DOTALL)
_TEX_ARGUMENT = r"\*?\s*(?:\[[^\[\]]{0,500}\])?\{((?:[^{}]|\{[^{}]*\}){0,2000})\}"
_TEX_TITLE = re.compile(rf"\\title{_TEX_ARGUMENT}")
_TEX_AUTHOR = re.compile(rf"\\author{_TEX_ARGUMENT}")
_TEX_OPTION = re.compile(r"\[[^\[\]\n]{0,500}\]")
_TEX_GROUP = re.compile(r"[ \t\n]*\{([^{}]{0,2000})\}")
# Their arguments are no text.
_TEX_SILENT = frozenset(
    [
        "begin",
        "end",
        "label",
        "ref",
        "pageref",
        "eqref",
        "autoref",
        "cref",
        "includegraphics",
        "bibliography",
        "documentclass",
        "bibliographystyle",
        "usepackage",
        "input",
        "include",
        "pagestyle",
        "thispagestyle",
        "vspace",
        "hspace",
        "setlength",
        "setcounter",
        "addcontentsline",
        "index",
        "color",
        "newcommand",
        "renewcommand",
        "hypersetup",
        "graphicspath",
        "pagenumbering",
        "selectlanguage",
        "fontsize",
    ]
)
_TEX_SIGNS = {
    "\\": "\n", "par": "\n\n", "item": "\n- ", "newline": "\n", "quad": " ", "qquad": " ",
    "ldots": "…", "dots": "…", "LaTeX": "LaTeX", "TeX": "TeX", "S": "§", "textbackslash": "\\",
    "ss": "ß", "ae": "æ",
    "oe": "œ", "aa": "å", "o": "ø", "l": "ł", "i": "\u0131",
}  # fmt: skip
_TEX_ACCENTS = {
    "`": "\u0300", "'": "\u0301", "^": "\u0302", "~": "\u0303", '"': "\u0308", "c": "\u0327",
    "v": "\u030c", "=": "\u0304", "H": "\u030b", "r": "\u030a", "u": "\u0306", "k": "\u0328",
}  # fmt: skip
_TEX_ACCENTED = re.compile(r"\s*(?:\{\\?([A-Za-z])\}|\\?([A-Za-z]))")
_VERBATIM = re.compile(
    r"\\begin\{(verbatim|lstlisting|minted|Verbatim)\}(.*?)(?:\\end\{\1\}|\Z)", re.DOTALL
)


def latex_parts(path: Path, content: bytes, note: Note) -> Iterator[Part]:
    """The document of a LaTeX file: its text with headings; commands go, what they format stays."""
    text = text_of(path, content, note)
    body = _TEX_BODY.search(text)
    head, text = (text[: body.start()], text[body.end() :]) if body else (text[:0], text)
    about = head + text[:5_000]
    title, author = (_argument(about, each) for each in (_TEX_TITLE, _TEX_AUTHOR))
    markdown = re.sub(r"\n{3,}", "\n\n", "".join(_latex(text)).replace("~", " ")).strip()
    part = markdown_part(markdown or text_of(path, content, note), path.stem, title)
    yield replace(part, metadata={"author": author})


def _argument(text: str, command: re.Pattern[str]) -> str:
    """The argument of a command as plain text; empty if there is none."""
    found = command.search(text)
    return " ".join("".join(_latex(found[1])).split()) if found else ""


def _latex(text: str) -> Iterator[str]:
    start = 0
    for code in _VERBATIM.finditer(text):
        yield from _latex_text(_TEX_COMMENT.sub("", text[start : code.start()]))
        yield f"\n\n```\n{code[2].strip()}\n```\n\n"
        start = code.end()
    yield from _latex_text(_TEX_COMMENT.sub("", text[start:]))


def _latex_text(text: str) -> Iterator[str]:
    """A text of LaTeX without its commands, and without the braces of groups."""
    at = 0
    while (command := _TEX_COMMAND.search(text, at)) is not None:
        yield _plain_tex(text[at : command.start()])
        at, name = command.end(), command[1] or command[2]
        if name in _TEX_ACCENTS and (letter := _TEX_ACCENTED.match(text, at)):
            at = letter.end()
            yield normalize("NFC", f"{letter[1] or letter[2]}{_TEX_ACCENTS[name]}")
            continue
        if name in _TEX_SIGNS or not command[1]:
            yield _TEX_SIGNS.get(name, name if name in "%&$#_{} " else " ")
            continue
        while option := _TEX_OPTION.match(text, at):
            at = option.end()
        if name in _LEVELS and (group := _TEX_GROUP.match(text, at)):
            at = group.end()
            heading = "".join(_latex_text(group[1])).split()
            yield f"\n\n{'#' * _LEVELS[name]} {' '.join(heading)}\n\n"
        elif name in _TEX_SILENT and (group := _TEX_GROUP.match(text, at)):
            at = group.end()
            yield " "
        elif name in {"footnote", "caption"}:
            yield " "
    yield _plain_tex(text[at:])


def _plain_tex(text: str) -> str:
    return text.translate({ord("{"): None, ord("}"): None}).replace("``", "“").replace("''", "”")


_ORG_HEADING = re.compile(r"(\*{1,15})[ \t]+(?:(?:TODO|DONE)[ \t]+)?(?:\[#[A-Z]\][ \t]*)?(.*)")
_ORG_TAGS = re.compile(r"(?<![ \t])[ \t]+:[\w@#%:]+:[ \t]*$")
_ORG_KEY = re.compile(r"#\+(\w+):[ \t]*(.*)")
_ORG_BLOCK = re.compile(r"[ \t]*#\+(begin|end)_(\w+)(.*)", re.IGNORECASE)
_ORG_LINK = re.compile(r"\[\[([^\[\]\n]{1,2000})\](?:\[([^\[\]\n]{1,2000})\])?\]")
_ORG_FIELDS = ("author", "date", "filetags", "category", "description", "keywords")


def org_parts(path: Path, content: bytes, note: Note) -> Iterator[Part]:
    """The document of an Org file as Markdown; its keys are fields, and drawers are left out."""
    fields, lines, in_drawer, in_code = dict[str, object](), list[str](), False, False
    for line in text_of(path, content, note).split("\n"):
        stripped = line.strip()
        if block := _ORG_BLOCK.match(line):
            if block[2].lower() in {"src", "example", "export", "verse"}:
                in_code = block[1].lower() == "begin"
                lines.append("```")
        elif in_code:
            lines.append(line)
        elif in_drawer or stripped in {":PROPERTIES:", ":LOGBOOK:"}:
            in_drawer = stripped != ":END:"
        elif key := _ORG_KEY.fullmatch(line):
            name, value = key[1].lower(), key[2].strip()
            if name == "filetags":
                fields["tags"] = [each for each in value.split(":") if each]
            elif name in {"title", *_ORG_FIELDS}:
                fields.setdefault(name, value.strip("<>[]") if name == "date" else value)
            elif name == "caption":
                lines.append(value)
        elif heading := _ORG_HEADING.fullmatch(line):
            name = _ORG_TAGS.sub("", heading[2][:1_000]) + heading[2][1_000:]
            lines.append(f"{'#' * min(len(heading[1]), 6)} {_org_links(name)}")
        else:
            lines.append(as_text(_org_links(line)))
    text = "\n".join(lines).strip()
    if text:
        title = f"{fields.pop('title', '')}"
        yield replace(markdown_part(text, path.stem, title), metadata=fields)


def _org_links(line: str) -> str:
    return _ORG_LINK.sub(lambda link: link[2] or link[1], line)


_RTF_TITLE = re.compile(r"\{\\title ([^{}\\]{1,500})\}")
_RTF_AUTHOR = re.compile(r"\{\\author ([^{}\\]{1,500})\}")


def rtf_parts(path: Path, content: bytes, _: Note) -> Iterator[Part]:
    """The document of a Rich Text file: its text, with tables as rows."""
    from striprtf.striprtf import rtf_to_text

    if not content.lstrip().startswith(b"{\\rtf"):
        raise ValueError("it does not begin with {\\rtf")
    source = content.decode("latin-1")
    text = rtf_to_text(source, errors="replace").replace("\0", "")
    title, author = (_info(source, each) for each in (_RTF_TITLE, _RTF_AUTHOR))
    if text.strip():
        yield Part(text.strip(), title or path.stem, metadata={"author": author})


def _info(source: str, group: re.Pattern[str]) -> str:
    found = group.search(source[:20_000])
    return found[1].strip() if found else ""


_CUE = re.compile(r"[ \t]*((?:\d+:)?\d{1,2}:\d{1,2})[.,]\d{1,3}[ \t]*-->.*")
_CUE_TAG = re.compile(r"<[^<>\n]{0,200}>|\{\\[^{}\n]{0,200}\}")
_CHARACTERS_OF_SECTION = 600


def subtitle_parts(path: Path, content: bytes, note: Note) -> Iterator[Part | CollectionError]:
    """The document of subtitles: what is said, in sections that are named by their times."""
    text, length = list[str](), 0
    sections, start, time, open_, block = list[Section](), 0, "", False, "x"
    for line in [*text_of(path, content, note).split("\n"), ""]:
        if cue := _CUE.fullmatch(line):
            if length - start >= _CHARACTERS_OF_SECTION or not time:
                if time:
                    sections.append(Section(start, length, time))
                start, time = length, cue[1]
            open_ = True
        elif not line.strip():
            open_ = False
        elif open_:
            said = f"{' '.join(_CUE_TAG.sub('', line).split())}\n"
            if said != block:  # captions that roll repeat each line
                text.append(said)
                length += len(said)
            block = said
    if time:
        sections.append(Section(start, length, time))
    yield Part("".join(text) or text_of(path, content, note), path.stem, tuple(sections))
