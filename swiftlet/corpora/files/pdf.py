"""PDF files: the text of each page as a reader sees it."""

import atexit
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

from swiftlet.corpora.files.text import Part
from swiftlet.corpora.lines import read_errors
from swiftlet.errors import CollectionError

RECOGNISE = "have its text recognised first (OCR)"

MOST_BYTES = 2**30
"""Of memory that a PDF may take, in the process that reads it."""

MOST_SECONDS = 60
"""Of processor time that a page of a PDF may take."""

_ONE_AT_A_TIME = Lock()
_MOST_PAGES = 10
# PDFium has U+FFFE for a hyphen at the end of a line, and no end of the line after it.
_HYPHENS, _HYPHEN_AT_END = re.compile("\ufffe|\xad\n?"), re.compile("\u2010 ?\n")
_WORD_END, _WORD_START = re.compile(r"(?<![^\W\d_])[^\W\d_]*$"), re.compile(r"[^\W\d_]*")
_OF_NAMES = frozenset("-_/\\.@:=+~%$#0123456789")
_LONGEST_WORD = 64
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_CONJUNCTIONS = frozenset({"and", "bis", "bzw", "eller", "och", "oder", "or", "sowie", "to", "und"})
_LEAST_LETTERS = 4
_VOWEL = re.compile("[aeiouyäöüáéíóúàèìòùâêîôûæœø]|[^\x00-\u024f]")
_SPACED_LINE = re.compile(r"^(?:[^\W\d_] +){4,}[^\W\d_]$", re.MULTILINE)
_LETTERS = {code: chr(code - 0xF700) for code in (*range(0xF730, 0xF73A), *range(0xF761, 0xF77B))}
_SIGNS = (
    dict.fromkeys(range(0xE000, 0xF900), " ")
    | _LETTERS  # small capitals and old-style figures of Adobe's fonts
    | {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st"}
    | {0xFB06: "st", 0xF0B7: "•", 0xFEFF: None, 0xFFFF: " "}
    | dict.fromkeys((*range(9), 0xB, *range(0xE, 0x20), *range(0xD800, 0xE000)), " ")
)


def pdf_parts(path: Path, content: bytes) -> Iterator[Part | CollectionError]:
    """The pages of a PDF that have text, and an error for those that have pictures alone.

    :raises CollectionError: When it is damaged or encrypted, or takes more than the bounds.
    """
    about, *pages = _read(path, content)
    title, author = (" ".join(each.translate(_SIGNS).split()) for each in about)
    texts, pictures = [in_lines(text) for text, _ in pages], []
    known = Counter(word for text in texts for word in whole_words(text))
    for number, (text, (_, has_pictures)) in enumerate(zip(texts, pages, strict=True), start=1):
        if text := cleaned(text, known):
            place = {"page": number, "pages": len(pages), "author": author}
            yield Part(text, title or path.stem, place=f"#page={number}", metadata=place)
        elif has_pictures:
            pictures.append(f"{number:,}")
    if pictures:
        numbers = f"page{'s' * (len(pictures) > 1)} {', '.join(pictures[:_MOST_PAGES])}"
        if len(pictures) > _MOST_PAGES:
            numbers += f" and {len(pictures) - _MOST_PAGES:,} more"
        yield CollectionError(path, f"no text on {numbers}, only pictures: {RECOGNISE}")


def _read(path: Path, content: bytes) -> list[Any]:
    """The title and the author, and of each page its text and whether it has pictures alone."""
    if find_spec("pypdfium2") is None:
        raise ModuleNotFoundError(name="pypdfium2")
    with _ONE_AT_A_TIME, read_errors(path):
        # The second process is new: the first may have ended, or be out of memory by other files.
        answers = _ask(content) or _ask(content)
    if not answers:
        bounds = f"{MOST_BYTES:,} bytes of memory, or {MOST_SECONDS} s for a page"
        raise CollectionError(path, f"reading it as a PDF takes more than {bounds}, or fails")
    if isinstance(answers[-1], dict):
        error = answers[-1]["error"]
        problem = f"cannot be read as a PDF: {error}"
        if "password" in error:
            problem = "the PDF is encrypted: save it without a password"
        raise CollectionError(path, problem)
    return answers


def _ask(content: bytes) -> list[Any]:
    """The answers of the process that reads PDFs; none if it ended over them."""
    process = _reader(os.getpid())
    try:
        process.stdin.writelines((len(content).to_bytes(8, "big"), content))
        process.stdin.flush()
        return [*map(json.loads, iter(process.stdout.readline, b"null\n"))]
    except BaseException as error:  # an interruption leaves answers that nobody reads
        process.kill()
        process.communicate()
        atexit.unregister(process.communicate)
        _reader.cache_clear()
        if isinstance(error, (ValueError, OSError)):
            return []
        raise


@cache
def _reader(_owner: int) -> Any:
    """The process (`Popen`) that reads PDFs; it ends with the one that owns it."""
    numbers = f"{MOST_BYTES}", f"{MOST_SECONDS}"
    program = f"{Path(__file__).with_name('pdf_reader.py')}"
    command = [sys.executable, "-I", program, *numbers, *sys.path]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nothing)  # noqa: S603
    atexit.register(process.communicate)
    return process


def in_lines(text: str) -> str:
    """A text as PDFium gives it, with one sign for the end of a line, and one for a hyphen there.

    PDFium does not know Unicode's own hyphen.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _HYPHEN_AT_END.sub("\ufffe", text).replace("\u2010", "-")


def cleaned(text: str, known: Counter[str]) -> str:
    """A text of `in_lines`, with whole words, and letters in place of glyphs.

    :param known: How often the file has a word, in lower case.
    """
    text = _undivided(text, known).translate(_SIGNS)
    return _SPACED_LINE.sub(lambda line: _joined(line[0]), text).strip()


def _undivided(text: str, known: Counter[str]) -> str:
    """A word that is divided at the end of a line is joined; a compound keeps its hyphen.

    The hyphen also stays before a conjunction, as in "pre- and postfix".
    """
    pieces, start = list[str](), 0
    for hyphen in _HYPHENS.finditer(text):
        before = text[max(start, hyphen.start() - _LONGEST_WORD) : hyphen.start()]
        left = "".join(_WORD_END.findall(before)[:1])
        right = "".join(_WORD_START.findall(text, hyphen.end(), hyphen.end() + _LONGEST_WORD)[:1])
        preceding = before[-len(left) - 1 : -len(left)] if left else "-"
        is_word = len(left) > 1 and preceding not in _OF_NAMES
        is_divided = hyphen[0][0] == "\xad" or (is_word and _is_divided(left, right, known))
        is_followed = text.startswith(("-", "\ufffe"), hyphen.end() + len(right))
        space = " " * (right in _CONJUNCTIONS and not is_followed)
        pieces += [text[start : hyphen.start()], "" if is_divided else f"-{space}"]
        start = hyphen.end()
    return "".join([*pieces, text[start:]])


def whole_words(text: str) -> Iterator[str]:
    """The words, in lower case, that are not divided, and the parts of compounds."""
    for word in _WORD.finditer(text):
        around = text[max(0, word.start() - 1) : word.start()], text[word.end() : word.end() + 1]
        if not {*around} & {"\ufffe", "\xad"}:
            yield from {found := word[0].lower(), *found.split("-")}


def _is_divided(left: str, right: str, known: Counter[str]) -> bool:
    """Whether two parts are one word, by what the file has more often, joined or with a hyphen.

    If it has neither, they are, unless both are words of the file.
    """
    if not (right[:1].islower() or (left.isupper() and right.isupper())):
        return False
    left, right = left.lower(), right.lower()
    joined, compound = known[left + right], known[f"{left}-{right}"]
    if joined or compound:
        return joined >= compound
    return right not in known or (left not in known and right not in _CONJUNCTIONS)


def _joined(line: str) -> str:
    """A line with spaces between its letters; two spaces are between its words."""
    words = [word.replace(" ", "") for word in re.split(" {2,}", line)]
    letters = "".join(words).lower()
    if len({*letters}) < _LEAST_LETTERS or not _VOWEL.search(letters):
        return line
    return " ".join(words)
