"""Scripts without spaces between words: neighbouring syllables stand for words.

They are those of Thai, Lao, Burmese, Khmer, Chinese and Japanese, wherever they stand in a text. A
syllable is a Chinese or Japanese character, or a letter with its vowels and tones.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from swiftlet.index.lexical.folding import inside_words
from swiftlet.types import Span

_LETTER = (
    "(?:[\u0e01-\u0e2e\u0e30\u0e32\u0e33\u0e40-\u0e46\u0e50-\u0e59\u0e81-\u0eae\u0eb0\u0eb2\u0eb3"
    "\u0ebd-\u0ec6\u0ed0-\u0edf\u1000-\u102a\u103f-\u1049\u1050-\u1055\u1780-\u17b3\u17d7\u17dc"
    "\u17e0-\u17e9\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b\u3041-\u3096\u309d-\u309f"
    "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff66-\uff9f]|[\U0001b000-\U0001b16f\U00020000-\U0003ffff])"
)
# The ranges above take `re` long; a few other scripts are among these.
_PERHAPS = re.compile("[^\x00-\u0e00\u2000-\u2e7f]")
_VOWEL_BEFORE = "[\u0e40-\u0e44\u0ec0-\u0ec4]"
_AFTER = "\u0e30\u0e32\u0e33\u0e45\u0eb0\u0eb2\u0eb3\uff9e\uff9f"  # vowels, and voicing of kana
_STACKED = "[\u17d2\u1039]"


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    one = f"{_VOWEL_BEFORE}?{_LETTER}(?:{_STACKED}{_LETTER}|[{_AFTER}]|{inside_words()})*+"
    return re.compile(one), re.compile(f"(?:{one})++")


def has_syllables(text: str) -> bool:
    """Whether some of the text may be in a script without spaces."""
    return not text.isascii() and _PERHAPS.search(text) is not None


def syllable_words(text: str, *, single: bool) -> str:
    """The text with spaces between each two neighbouring syllables.

    :param single: Give each syllable, too; otherwise only one that stands alone.
    """
    one, several = _patterns()

    def words(found: re.Match[str]) -> str:
        each = one.findall(found[0])
        pairs = map("".join, pairwise(each))
        return " ".join(["", *(each if single or len(each) == 1 else ()), *pairs, ""])

    return several.sub(words, text)


def syllable_spans(text: str, start: int, end: int) -> Iterator[Span]:
    """The spans of the words of `text[start:end]`, which has no punctuation, by their ends."""
    one, several = _patterns()
    for found in several.finditer(text, start, end):
        if start < found.start():
            yield start, found.start()
        start = found.end()
        before = None
        for syllable in one.finditer(text, *found.span()):
            if before is not None:
                yield before, syllable.end()
            yield syllable.span()
            before = syllable.start()
    if start < end:
        yield start, end
