"""The encoding of a text: UTF-8, one with a byte order mark, or one that is recognised."""

import codecs
import re
import unicodedata

from swiftlet.corpora.alphabets import LATIN, OTHERS, best_codec
from swiftlet.corpora.lines import LineError

_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark is the beginning of this one
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
UTF_8 = ("utf-8", "utf-8-sig")
"""The codecs of UTF-8, without and with a mark."""

_NULS = "it has NUL characters: it is no text"
_MANY_NULS = 0.25
_MANY_LOW = 0.5
_NO_TEXT = ("Cc", "Cn", "Co")
_LEAST_OF_PAIRS = 32
_GOOD_SHARE = 0.9
CONTROL = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f]")
"""Control characters that no text has; the colours of a terminal begin with U+001B."""

_CONTROL_BYTE = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_BELOW_SPACE = bytes(range(32))
_ISO_2022_JP = re.compile(rb"\x1b\$[@B]")
_BEYOND_ASCII = re.compile("[^\x00-\x7f]+")
_RUN = 3
_OF_EAST_ASIA = re.compile(
    "[\t\n\r -~\u2010-\u203b\u3000-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff01-\uffee]"
)
_EAST_ASIAN = 0.98
_HEBREW = re.compile("[\u05b0-\u05ea]")
# Five letters have one form at the end of a word, and another one before. No word begins with a
# point.
_NOT_HEBREW = re.compile(
    "[ךםןףץ](?=[א-ת])|[כמנפצ](?![\u05b0-\u05ea])|(?<![\u05b0-\u05ea])[\u05b0-\u05c2]"
)
_MOST_ERRORS = 0.02
_PUNCTUATION = frozenset("、。・「」『』！？（），：；“”„‘’‚–—…•€£¥§©®™°·«»´¡¿±µ×ªº¹²³¼½¾\xa0\xad")  # noqa: RUF001
# Those that charset-normalizer chooses among; of all that it knows, it chooses rare ones.
_OF_PAIRS = ["shift_jis", "euc_jp", "gb18030", "big5", "euc_kr", "utf_16_le", "utf_16_be"]


def decoded(content: bytes) -> tuple[str, str]:
    """A text, and the name of its encoding, empty for UTF-8.

    :raises LineError: When it is UTF-8 with other bytes in it, or in no encoding that is known.
    """
    encoding = encoding_of(content)
    try:
        text = content.decode(encoding)
        if "\0" in text:
            raise LineError(_NULS)
        if len(CONTROL.findall(text)) > _MOST_ERRORS * len(text):
            raise LineError("it has control characters: it is no text")
        return text, "" if encoding in UTF_8 else name_of(encoding)
    except UnicodeDecodeError as error:
        if encoding not in UTF_8:
            raise LineError(f"not valid {name_of(encoding)}") from error
        read, start = error.object, error.start
        line, place = read.count(b"\n", 0, start) + 1, start - read.rfind(b"\n", 0, start)
        raise LineError(
            f"line {line:,}: not valid UTF-8: byte {place} is 0x{read[start]:02x}"
        ) from error


def encoding_of(sample: bytes, *, complete: bool = True) -> str:
    """The codec of a text that begins with a sample.

    :param complete: Whether the text has nothing after the sample.
    :raises LineError: When it is in no encoding that is known.
    """
    for mark, encoding in _MARKS.items():
        if sample.startswith(mark):
            return encoding
    if wide := _utf_16(sample):
        return wide
    if sample.count(0) > _MANY_NULS * len(sample):
        raise LineError(_NULS)
    if sample.isascii() and _ISO_2022_JP.search(sample):
        return "iso_2022_jp"
    if _is_utf_8(sample, complete=complete):
        return "utf-8"
    read = sample.decode(errors="surrogateescape")
    beyond = "".join(_BEYOND_ASCII.findall(read))
    if len(beyond) >= 2 * sum("\udc80" <= each <= "\udcff" for each in beyond):
        return "utf-8"  # with a few bytes that are not
    return _recognised(sample)


def _is_utf_8(sample: bytes, *, complete: bool = False) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample, final=complete)
    except UnicodeDecodeError:
        return False
    return True


def name_of(encoding: str) -> str:
    """The usual name of a codec, such as Windows-1252."""
    if encoding in UTF_8:
        return "UTF-8"
    name = encoding.replace("iso8859", "iso-8859").replace("_", "-").upper()
    return name.replace("CP125", "Windows-125")


def _utf_16(sample: bytes) -> str:
    """UTF-16 without a mark, empty if it is not: of most characters, one byte is below 32.

    Alphabets have their numbers below 0x2000; of Hindi and Thai, the other byte may be below, too.
    """
    if not _CONTROL_BYTE.search(sample):
        return ""
    halves = {"utf_16_le": sample[1::2], "utf_16_be": sample[::2]}
    low = {
        name: len(half) - len(half.translate(None, _BELOW_SPACE)) for name, half in halves.items()
    }
    encoding = max(halves, key=lambda name: (low[name], -len({*halves[name]})))
    text = sample[: len(sample) // 2 * 2].decode(encoding, "replace")
    rare = sum(each not in "\t\n\f\r" and unicodedata.category(each) in _NO_TEXT for each in text)
    is_wide = low[encoding] > _MANY_LOW * len(halves[encoding]) and rare <= _MOST_ERRORS * len(text)
    if is_wide:
        return encoding if "\0" not in text and "\ufffd" not in text[:-1] else ""
    if _is_utf_8(sample):  # of ASCII letters, two are often the bytes of a Chinese character
        return ""
    # East Asian characters have no such byte; swapped, they are of all scripts.
    texts = {name: sample[: len(sample) // 2 * 2].decode(name, "replace") for name in halves}
    known = {name: len(_OF_EAST_ASIA.findall(text)) for name, text in texts.items()}
    encoding = max(known, key=lambda name: (known[name], -len({*halves[name]})))
    return encoding if known[encoding] >= _EAST_ASIAN * len(texts[encoding]) else ""


def _recognised(sample: bytes) -> str:
    if latin := best_codec(sample, LATIN):
        return latin
    if _is_hebrew(sample):
        return "cp1255"
    if other := best_codec(sample, OTHERS):
        return other
    import charset_normalizer

    if len(sample) >= _LEAST_OF_PAIRS:
        found = charset_normalizer.from_bytes(sample, cp_isolation=_OF_PAIRS).best()
        if found is not None and _is_plausible(f"{found}"):
            return found.encoding
    raise LineError("neither UTF-8 nor in another encoding that can be recognised")


def _is_hebrew(sample: bytes) -> bool:
    """Whether it is Hebrew in Windows-1255, which charset-normalizer may take for Cyrillic."""
    text = sample.decode("cp1255", "replace")
    count = len(_HEBREW.findall(text))
    return (
        count >= max(_RUN, _GOOD_SHARE * len("".join(_BEYOND_ASCII.findall(text))))
        and len(_NOT_HEBREW.findall(text)) <= _MOST_ERRORS * count
        and not CONTROL.search(text)
    )


def _is_plausible(text: str) -> bool:
    """Whether nearly all characters beyond ASCII are letters or punctuation of texts."""
    high = "".join(_BEYOND_ASCII.findall(text))
    good = sum(each.isalnum() or each.isspace() or each in _PUNCTUATION for each in high)
    return good >= _GOOD_SHARE * len(high) and not CONTROL.search(text)
