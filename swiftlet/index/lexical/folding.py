"""Texts that look alike, or differ in accents alone, as one text."""

import re
import unicodedata
from functools import cache
from itertools import chain

from swiftlet.text import INVISIBLE

# Presentation forms, widths, radicals, numerals and mathematical letters: NFKC gives the letters
# that are meant. Of symbols, it would make parts of words: of "Name™" "NameTM".
_FORMS = re.compile(
    "[\u2160-\u217f\u2e80-\u2fdf\ufb00-\ufdff\ufe70-\ufefc\uff01-\uffee\U0001d400-\U0001d7ff]+"
)
# The combining classes of accents and points. Vowels, tones of Thai and Lao, viramas, nuktas and
# the voicing of kana have other classes: they make other words.
_ACCENTS = {1, *range(10, 37), *range(202, 241)}
# й and ў are letters of their own.
_BREVE = "(?<![\u0438\u0443])\u0306"
_TATWEEL = "\u0640"


@cache
def marks() -> str:
    """All combining marks, and what is shown as nothing: they belong to the word before them."""
    places = chain(range(0x300, 0x3400), range(0xA66F, 0xAC00), range(0xFB1E, 0x1E950))
    found = (mark for mark in map(chr, places) if unicodedata.category(mark)[0] == "M")
    return "".join(found) + INVISIBLE.pattern[1:-1]


@cache
def _accent() -> re.Pattern[str]:
    found = (mark for mark in marks() if unicodedata.combining(mark) in _ACCENTS)
    return re.compile(f"{_BREVE}|[{_TATWEEL}{''.join(found).replace(_BREVE[-1], '')}]")


def composed(text: str) -> str:
    """The text in Unicode's form NFC; of forms of letters that differ in width or place, one."""
    return unicodedata.normalize(
        "NFC", _FORMS.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    )


def folded(text: str) -> str:
    """The text in lower case without accents, in the form of `composed`."""
    text = unicodedata.normalize("NFD", composed(text).casefold())
    return unicodedata.normalize("NFC", _accent().sub("", text))
