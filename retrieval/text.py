"""The one text cleaning that training, indexing and serving share."""

import re
import unicodedata

_SPACES = {
    code: " "
    for code in range(0x3001)
    if chr(code).isspace() or unicodedata.category(chr(code)) == "Cc"
}
_SURROGATE = re.compile("[\ud800-\udfff]")


def normalise(text: str) -> str:
    """Replace every white-space and control character by a space and lone surrogates by U+FFFD.

    The length is kept, so a position in the result is the same position in `text`: that is what
    makes the offsets of passages exact. Case, accents and Unicode forms are left to the tokenizer
    of each encoder, which was trained with its own rules. Idempotent.
    """
    return _SURROGATE.sub("\ufffd", text.translate(_SPACES))


def has_lone_surrogate(text: str) -> bool:
    """Whether `text` holds half of a surrogate pair, which no UTF-8 file can store."""
    return _SURROGATE.search(text) is not None
