"""Texts that look alike, or differ in accents alone, as one text."""

import re
import unicodedata
from functools import cache
from itertools import chain, starmap

from swiftlet.text import INVISIBLE

# Presentation forms, ligatures, widths, radicals, numerals and mathematical letters: NFKC gives the
# letters that are meant, and the two parts of sara am. Of symbols, it would make parts of words: of
# "Name™" "NameTM".
_FORMS = re.compile(
    "[\u0675-\u0678\u0e33\u0eb3\u0edc\u0edd\u2102\u210a-\u2113\u2115\u2119-\u211d\u2124\u2128"
    "\u212c\u212d\u212f-\u2131\u2133\u2134\u213c-\u213f\u2145-\u2149\u2160-\u217f\u2e80-\u2fdf"
    "\ufb00-\ufdff\ufe70-\ufefc\uff01-\uffee\U0001d400-\U0001d7ff\U0001ee00-\U0001eeff]+"
)
# The combining classes of accents and points. Vowels, tones of Thai and Lao, viramas, nuktas and
# the voicing of kana have other classes: they make other words.
_ACCENTS = {1, *range(10, 37), *range(202, 241)}
# й and ў are letters of their own.
_BREVE = "(?<![\u0418\u0423\u0438\u0443])\u0306"
_TATWEEL = "\u0640"
# All of category Me, such as the last part of a keycap.
_ENCLOSING = re.compile("[\u0488\u0489\u1abe\u20dd-\u20e0\u20e2-\u20e4\ua670-\ua672]")
# The first part of sara am, where it is written before the tone.
_BEFORE_TONE = re.compile("([\u0e4d\u0ecd])([\u0e48-\u0e4b\u0ec8-\u0ecb]++)(?=[\u0e32\u0eb2])")


# Where marks are: to look at all characters would take longer than the rest of a search.
_MARKS_IN = ((0x300, 0x2100), (0x2C00, 0x3100), (0xA600, 0xAC00), (0xFB00, 0xFF00),
             (0x10100, 0x12000), (0x13400, 0x13500), (0x16A00, 0x17000), (0x1BC00, 0x1BD00),
             (0x1CF00, 0x1EA00))  # fmt: skip


@cache
def _marks() -> str:
    places = map(chr, chain.from_iterable(starmap(range, _MARKS_IN)))
    return "".join(place for place in places if unicodedata.category(place)[0] == "M")


@cache
def inside_words() -> str:
    """What belongs to the word before it, as a pattern of `re`: marks, and what is not seen."""
    return f"(?:{_one_of(_marks())}|{INVISIBLE.pattern})"


@cache
def _accent() -> re.Pattern[str]:
    found = (mark for mark in _marks() if unicodedata.combining(mark) in _ACCENTS)
    accents = "".join(found).replace(_BREVE[-1], _TATWEEL)
    return re.compile(f"{_BREVE}|{_one_of(accents)}")


def _one_of(characters: str) -> str:
    # `re` is fast with the first plane alone.
    first, others = (
        "".join(each for each in characters if (each < "\U00010000") is is_first)
        for is_first in (True, False)
    )
    return f"(?:[{first}]|(?=[\U00010000-\U0010ffff])[{others}])"


def composed(text: str) -> str:
    """The text in Unicode's form NFC, without enclosing marks.

    Of forms of letters that differ in width or place, it has one, and of sara am one spelling.
    """
    text = _FORMS.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    text = _BEFORE_TONE.sub(r"\2\1", _ENCLOSING.sub("", text))
    return unicodedata.normalize("NFC", text)


def folded(text: str) -> str:
    """The text in lower case without accents, in the form of `composed`."""
    # A capital letter may have an iota as an accent, which is a letter in lower case.
    bare = _accent().sub("", unicodedata.normalize("NFD", composed(text)))
    return unicodedata.normalize("NFC", bare.casefold())
