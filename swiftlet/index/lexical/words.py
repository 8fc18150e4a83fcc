"""Texts as words between spaces, and where these stand in the text."""

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache

from swiftlet.index.lexical.folding import composed, folded, inside_words
from swiftlet.index.lexical.syllables import syllable_words
from swiftlet.text import INVISIBLE, in_form
from swiftlet.types import Span

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_SPACES = {code: " " for code in range(128) if not chr(code).isalnum()}
_PUNCTUATION = re.compile(r"[\x00-/:-@\[-`{-\x7f]+")
_ASCII_WORD = re.compile("[0-9A-Za-z]+")
_KEPT, _LONGEST_KEPT = 2**14, 32


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    inside = inside_words()
    word, between = f"[^\\W_]++(?:{inside}[^\\W_]*+)*+", f"(?:(?!{inside})[^\\w\\x00-\\x7f])++"
    return re.compile(word), re.compile(between)


def with_names(text: str, *, accents: bool, single: bool) -> str:
    """The words of a text with ASCII punctuation and spaces between them.

    What is shown as nothing is left out.

    :param accents: Keep accents and case; otherwise both go from words that are not ASCII.
    :param single: As in `syllable_words`.
    """
    if text.isascii():
        return text

    def part(found: re.Match[str]) -> str:
        one = found[0]
        return (_kept if len(one) <= _LONGEST_KEPT else _part)(one, accents, single)

    # First, since an accent may follow a letter of ASCII.
    return _NOT_ASCII.sub(part, in_form("NFC", text))


def _part(text: str, accents: bool, single: bool) -> str:
    text = INVISIBLE.sub("", text)
    text = _patterns()[1].sub(" ", composed(text) if accents else folded(text))
    return syllable_words(text, single=single)


_kept = lru_cache(_KEPT)(_part)


def without_punctuation(text: str) -> str:
    """The words in what `with_names` gives, with spaces between them."""
    # Each is several times as fast as the other.
    return text.translate(_SPACES) if text.isascii() else _PUNCTUATION.sub(" ", text)


def words_in(text: str) -> Iterator[re.Match[str]]:
    """The words of a text, in order."""
    return (_ASCII_WORD if text.isascii() else _patterns()[0]).finditer(text)


def joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Spans, which are in the order of their ends, with those that overlap as one."""
    found: list[Span] = []
    for start, end in spans:
        if found and start < found[-1][1]:
            before = found.pop()
            start, end = min(start, before[0]), max(end, before[1])  # noqa: PLW2901
        found.append((start, end))
    return tuple(found)
