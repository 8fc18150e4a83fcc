"""Texts that look alike, or differ in accents alone, as one text."""

import re
import unicodedata
from functools import cache

from swiftlet.text import INVISIBLE, in_form, marks, one_of

# Presentation forms, ligatures, widths, radicals, numerals and mathematical letters: NFKC gives the
# letters that are meant, and the two parts of sara am. Of symbols, it would make parts of words: of
# "Name™" "NameTM".
_FORMS = re.compile(
    "[\u0675-\u0678\u0e33\u0eb3\u0edc\u0edd\u2102\u210a-\u2113\u2115\u2119-\u211d\u2124\u2128"
    "\u212c\u212d\u212f-\u2131\u2133\u2134\u213c-\u213f\u2145-\u2149\u2160-\u217f\u2e80-\u2fdf"
    "\ufb00-\ufdff\ufe70-\ufefc\uff01-\uffee\U0001d400-\U0001d7ff\U0001ee00-\U0001eeff]+"
)
# Radicals and the sign of the rial are letters in `_FORMS`, but symbols in Unicode.
_SYMBOLS = re.compile("[\u2e80-\u2fdf\ufdfc]")
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


@cache
def inside_words() -> str:
    """What belongs to the word before it, as a pattern of `re`: marks, and what is not seen."""
    return f"(?:{one_of(marks())}|{INVISIBLE.pattern})"


@cache
def _accent() -> re.Pattern[str]:
    found = (mark for mark in marks() if unicodedata.combining(mark) in _ACCENTS)
    accents = "".join(found).replace(_BREVE[-1], _TATWEEL)
    return re.compile(f"{_BREVE}|{one_of(accents)}")


def composed(text: str) -> str:
    """The text in Unicode's form NFC, without enclosing marks.

    Of forms of letters that differ in width or place, it has one, and of sara am one spelling.
    """
    text = _FORMS.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    text = _BEFORE_TONE.sub(r"\2\1", _ENCLOSING.sub("", text))
    return in_form("NFC", text)


def with_letters(text: str) -> str:
    """The text with one letter for each symbol that `composed` makes letters of."""
    return _SYMBOLS.sub(lambda found: unicodedata.normalize("NFKC", found[0])[0], text)


def folded(text: str) -> str:
    """The text in lower case without accents, in the form of `composed`."""
    # A capital letter may have an iota as an accent, which is a letter in lower case.
    bare = _accent().sub("", in_form("NFD", composed(text)))
    return in_form("NFC", bare.casefold())
