"""The normalisation of text that training, indexing and serving share."""

import re
import unicodedata
from functools import cache
from itertools import chain, starmap
from typing import Literal

from swiftlet.errors import QueryError, shown

_SPACES = {
    code: " "
    for code in range(0x3001)
    if chr(code).isspace() or unicodedata.category(chr(code)) == "Cc"
}
_SURROGATE = re.compile("[\ud800-\udfff]")
# Where marks are: to look at all characters would take longer than the rest of a search.
_MARKS_IN = ((0x300, 0x2100), (0x2C00, 0x3100), (0xA600, 0xAC00), (0xFB00, 0xFF00),
             (0x10100, 0x12000), (0x13400, 0x13500), (0x16A00, 0x17000), (0x1BC00, 0x1BD00),
             (0x1CF00, 0x1EA00))  # fmt: skip
# As many as Unicode's stream-safe text format has after a letter.
_MOST_MARKS = 30
_PERHAPS_MARKS = re.compile(f"[^\x00-\x7f]{{{_MOST_MARKS + 1},}}")

INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""A character that is shown as nothing: Unicode's Default_Ignorable_Code_Point."""


@cache
def marks() -> str:
    """All characters of Unicode's category M: accents, vowels and points of the letter before."""
    places = map(chr, chain.from_iterable(starmap(range, _MARKS_IN)))
    return "".join(place for place in places if unicodedata.category(place)[0] == "M")


def one_of(characters: str) -> str:
    """A regular expression for one of the characters."""
    # `re` is fast with the first plane alone.
    first, others = (
        "".join(each for each in characters if (each < "\U00010000") is is_first)
        for is_first in (True, False)
    )
    return f"(?:[{first}]|(?=[\U00010000-\U0010ffff])[{others}])"


@cache
def _too_many_marks() -> re.Pattern[str]:
    mark = one_of(marks())
    return re.compile(f"({mark}{{{_MOST_MARKS}}}){mark}++")


def in_form(form: Literal["NFC", "NFD"], text: str) -> str:
    """A text in a form of Unicode, without marks after the first 30 of a letter.

    Python orders the marks of a letter in a time that grows with the square of their number.
    """
    if not text.isascii() and _PERHAPS_MARKS.search(text):
        text = _too_many_marks().sub(r"\1", text)
    return unicodedata.normalize(form, text)


class CheckedQuery(str):
    """A query that can be searched: normalised, not blank, valid text. `check_query` makes it."""

    __slots__ = ()


def check_query(query: str) -> CheckedQuery:
    """The normalised text of a query; one that was checked before is returned as it is.

    :raises QueryError: When the query is no string, is blank, or holds NUL or half of a surrogate
        pair.
    """
    if isinstance(query, CheckedQuery):
        return query
    if not isinstance(query, str):
        raise QueryError(f"the query is {shown(query)}, but a string is expected")
    text = query.translate(_SPACES)
    if not INVISIBLE.sub("", text).strip():
        raise QueryError("the query is empty: at least one character that is not blank is expected")
    if "\0" in query:
        raise QueryError("the query holds a NUL character")
    if _SURROGATE.search(query):
        raise QueryError("the query holds a lone surrogate, which is no character")
    return CheckedQuery(text)


def normalise(text: str) -> str:
    """Replace every white-space and control character by a space and lone surrogates by U+FFFD.

    The length is kept, so a position in the result is the same position in `text`, and the offsets
    of passages are exact. Case, accents and Unicode forms are left to the tokenizer of each
    encoder, which was trained with its own rules. Idempotent: a `CheckedQuery` is returned as is.
    """
    if isinstance(text, CheckedQuery):
        return text
    return _SURROGATE.sub("\ufffd", text.translate(_SPACES))


def without_surrogates(text: str) -> str:
    """Replace lone surrogates by U+FFFD; white space stays, for tokenizers that have tokens for it.

    The length is kept.
    """
    return text if isinstance(text, CheckedQuery) else _SURROGATE.sub("\ufffd", text)


def with_whole_pairs(text: str) -> str:
    """Join the halves of surrogate pairs, and replace lone halves by U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def has_lone_surrogate(text: str) -> bool:
    """Whether `text` holds half of a surrogate pair, which no UTF-8 file can store."""
    return _SURROGATE.search(text) is not None
