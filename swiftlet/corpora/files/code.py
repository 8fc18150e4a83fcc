"""Source code, cut at the definitions of functions and types, which name its sections.

A definition is known by its line, as in ctags; what is further to the right belongs to it.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from swiftlet.corpora.files.text import Note, Part, text_of
from swiftlet.types import Section

_SUFFIXES = {
    "python": "py pyi pyx", "javascript": "js mjs cjs jsx", "typescript": "ts tsx mts",
    "java": "java", "kotlin": "kt kts", "scala": "scala", "groovy": "groovy gradle",
    "c": "c h", "c++": "cc cpp cxx hh hpp hxx ino", "c#": "cs", "objective-c": "m mm",
    "go": "go", "rust": "rs", "swift": "swift", "zig": "zig", "dart": "dart", "php": "php",
    "ruby": "rb rake", "perl": "pl pm", "lua": "lua", "r": "r", "julia": "jl", "elixir": "ex exs",
    "erlang": "erl", "haskell": "hs", "ocaml": "ml mli", "f#": "fs", "clojure": "clj cljs",
    "lisp": "el lisp scm", "shell": "sh bash zsh", "powershell": "ps1", "sql": "sql",
    "protobuf": "proto", "vue": "vue", "css": "css scss less", "terraform": "tf",
    "settings": "yaml yml toml ini cfg conf properties", "cmake": "cmake", "log": "log",
    "text": "adoc asciidoc", "fortran": "f90 f", "pascal": "pas", "graphql": "graphql",
}  # fmt: skip
LANGUAGES = {f".{suffix}": name for name, each in _SUFFIXES.items() for suffix in each.split()}
"""The kind of a file with source code or settings, by its suffix."""

_WORDS = (
    "class|struct|union|enum|interface|trait|impl|module|namespace|package|protocol|extension|"
    "record|object|message|service|actor|mixin|contract|type|"
    "def|defp|defmodule|defmacro|defun|defn|fn|func|fun|function|sub|proc|procedure|macro|"
    "macro_rules!|"
    "CREATE (?:OR REPLACE )?(?:TABLE|VIEW|FUNCTION|PROCEDURE|TRIGGER)"
)
_MODIFIERS = (
    "export|default|declare|public|private|protected|internal|static|final|abstract|async|"
    "override|open|sealed|data|inline|extern|unsafe|const|virtual|pub(?:\\([^)\\n]{1,40}\\))?|"
    "partial|readonly|local|cdef|cpdef|template ?<[^>\\n]{1,200}>|typedef|@\\w+|suspend|lazy|"
    "constexpr|explicit"
)
_NAMED = re.compile(
    rf"\(?(?:(?:{_MODIFIERS})\s+){{0,8}}(?:{_WORDS})\b(?:\s*<[^>\n]{{1,200}}>)?\s*"
    r"(?:\([^)\n]{1,200}\)\s*)?\*?\s*([A-Za-z_$][\w$.:!?'-]{0,200})",
    re.IGNORECASE,
)
# A function without a word before it: a type and a name, or a name alone.
_TYPE_AND_NAME = re.compile(r"[\w$<>\[\],.:*&?@~ \t]*")
_LAST_NAME = re.compile(r"(?<![\w$:~])(?:[^\WA-Za-z_]|:)*+([A-Za-z_$~][\w$:~]*+)[ \t]*+$")
_ASSIGNED = re.compile(
    r"(?:(?:export|const|let|var|default)[ \t]+){0,3}([\w$.]{1,200})[ \t]*[:=][ \t]*"
    r"(?:async[ \t]*)?(?:function\b|\([^()\n]{0,500}\)[ \t]*=>|[\w$]{1,100}[ \t]*=>|class\b)"
)
_NO_NAMES = frozenset(
    [
        "if",
        "for",
        "while",
        "switch",
        "catch",
        "return",
        "else",
        "elif",
        "sizeof",
        "do",
        "try",
        "and",
        "or",
        "not",
        "print",
        "assert",
        "raise",
        "throw",
        "new",
        "delete",
        "case",
        "await",
        "yield",
        "in",
        "is",
        "with",
        "super",
        "foreach",
        "using",
        "lock",
        "when",
        "match",
        "until",
        "unless",
        "defined",
        "require",
        "import",
        "from",
    ]
)
_DOCSTRINGS = ("'''", '"""')  # of what stands before them
_COMMENTS = ("#", "//", "/*", "*", "--", ";", "@", "[", "%", *_DOCSTRINGS)
_BRACED = frozenset(
    {"c", "c++", "c#", "java", "javascript", "typescript", "php", "dart", "objective-c", "vue"}
)
_WITH_CALLS = frozenset({"javascript", "typescript", "php", "vue"})  # outside of functions
_WITHOUT = frozenset({"settings", "text", "log", "css"})
_LONGEST_LINE = 1_000
_LONGEST_NAME = 200
_SHORTEST_SECTION = 300


class _Definition(NamedTuple):
    """The place where a definition begins, with its comment, and what it is called."""

    start: int
    path: str


def code_parts(path: Path, content: bytes, note: Note) -> Iterator[Part]:
    """The document of a file of source code; short definitions stay together with the next ones."""
    text = text_of(path, content, note)
    kind = LANGUAGES.get(path.suffix.lower(), "")
    sections = () if kind in _WITHOUT else _sections(text, kind)
    yield Part(text, path.name, sections)


def _sections(text: str, kind: str) -> tuple[Section, ...]:
    starts, names = [0], [list[str]()]
    for definition in definitions(text, kind):
        if definition.start - starts[-1] >= _SHORTEST_SECTION:
            starts.append(definition.start)
            names.append([])
        names[-1].append(definition.path)
    bounds = pairwise([*starts, len(text)])
    headings = (", ".join(each)[:_LONGEST_LINE] for each in names)
    return tuple(
        Section(start, end, name) for (start, end), name in zip(bounds, headings, strict=True)
    )


def definitions(text: str, kind: str) -> Iterator[_Definition]:
    """The definitions in source code, each with the names of those that it stands in."""
    outer, at, comment = list[tuple[int, str]](), 0, -1
    margin, is_apart = -1, False  # of the comment; whether an empty line follows it
    for line in text.split("\n"):
        bare = line[:_LONGEST_LINE].expandtabs(4).rstrip()
        stripped = bare.lstrip()
        indent = len(bare) - len(stripped)
        if not stripped:
            is_apart = True
        elif stripped.startswith(_COMMENTS) and not stripped.startswith("@interface"):
            if comment < 0 or (is_apart and margin != indent):
                comment, is_apart = at, False
                margin = -1 if stripped.startswith(_DOCSTRINGS) else indent
        else:
            if is_apart and margin != indent:
                comment = -1
            if name := _name(stripped, indent, outer, kind):
                outer = [each for each in outer if each[0] < indent] + [(indent, name)]
                yield _Definition(
                    comment if comment >= 0 else at, ".".join(each for _, each in outer)
                )
            comment, is_apart = -1, False
        at += len(line) + 1


def _name(line: str, indent: int, outer: list[tuple[int, str]], kind: str) -> str:
    """The name of what a line defines; empty if it defines nothing."""
    if found := _NAMED.match(line):
        return found[1].rstrip(":-.")
    if kind in _BRACED:
        found = _ASSIGNED.match(line)
        depth = sum(each < indent for each, _ in outer)
        return found[1] if found else _before_brackets(line, indent, depth, kind)
    return ""


def _before_brackets(line: str, indent: int, depth: int, kind: str) -> str:
    """The name of a function without a word before it; a name alone may be that of a call.

    :param depth: In how many definitions the line stands.
    """
    before, bracket, _ = line.partition("(")
    found = _LAST_NAME.search(before[-_LONGEST_NAME:])
    opens = line.endswith(("{", "}"))
    is_alone = not opens and " " not in before.strip() and (indent > 0 or kind in _WITH_CALLS)
    if (
        not bracket
        or found is None
        or (indent and not depth)
        or (depth > 1 and not opens)
        or is_alone
        or line.endswith(";")
        or not _TYPE_AND_NAME.fullmatch(before)
    ):
        return ""
    return found[1] if _NO_NAMES.isdisjoint((found[1], before.split(None, 1)[0])) else ""
