"""Which encoding of one byte a character makes letters of one alphabet of a text."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

_BEFORE, _MOST_BYTES, _MOST_OF_WORDS = 1 << 6, 1 << 20, 1 << 14
_LEAST_SHARE = 0.9
_COMMON, _OF_COMMON = 10, 0.1
_MIXED = 0.95
_RUN, _MOST_IN_RUNS = 3, 0.5
_PUNCTUATION = frozenset("“”„‘’‚–—…•€£¥§©®™°·«»‹›´¡¿±µ×ªº¹²³¼½¾\xa0\xad№")  # noqa: RUF001
_BEYOND_ASCII = re.compile("[^\x00-\x7f]+")
# What texts do not have within a word or after one, so it is a letter of another encoding; in Thai,
# a mark without the letter that it stands on.
_SIGN = re.compile(
    "(?<!\\w)[ªº][a-zà-ÿ]|[^\\W\\d_]([¡-©«-´¶¸¹»-¿×ˆ‰†‡‹›“”„€™]+[^\\W\\d_]|‚)"  # noqa: RUF001
    "|(?<![ก-ฮ])[\u0e31\u0e34-\u0e3a]|(?<![ก-ฮ\u0e31-\u0e39])[\u0e47-\u0e4e]|[เ-ไ](?![ก-ฮ])"
)

_TURKISH, _LITHUANIAN, _LATVIAN = "çğıi\u0307öşüâîû", "ąčęėįšųūž", "āčēģīķļņšūž"  # noqa: RUF001
_ESTONIAN = "äöüõšž"
_WESTERN = [
    "éèàùâêîôûçëïüœæÿ", "äöüßéà", "áéíñóúüº", "ãáâàçéêíóôõúº", "àèéìíîòóù", "åäöæøéü",
    "àçèéíïòóúü", _ESTONIAN, "éëïóöüèáí",
]  # fmt: skip
_ICELANDIC = "áéíóúýæøöðþ"
_CENTRAL = [
    "ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "čšžćđ", "ăâîşţ",
]  # fmt: skip
# The commonest letters are the first.
_CYRILLIC = [
    "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё",
    "оаинвтерслкудмпзяьбгйчхцжіїюєфшщґ",
    "аоиентрсвлкдпмзуябгъчцжщхфшйюь",
    "аоиенрстукдвлјпмзбгшчжцхћњљђфџ",
    "анеіртсоылкядпмвзуцбгўхйьчжшфюэё",
]
_GREEK = "αοιετσνηυρπκμλςωδγχθφβξζψάέήίόύώϊϋΐΰ"
_ARABIC = "اليمنورتبةعدسفهكقأحجشطصخضذثئىغءزآإظؤگچپژکی،؛؟ـ"
_THAI = "านรกอเง่้มยลวตดทสะิีัคหบปพขชจไใแโถุูำ์็ึืซศณธ"  # without rare ones, for words of East Asia

LATIN = [
    ("cp1252", _WESTERN),
    ("cp1254", [_TURKISH]),
    ("cp1252", [_ICELANDIC]),
    ("cp1257", [_LITHUANIAN, _LATVIAN, _ESTONIAN]),
    ("cp1250", _CENTRAL),
    ("iso8859_2", _CENTRAL),
    ("iso8859_15", _WESTERN),
    ("cp850", _WESTERN),
    ("cp852", _CENTRAL),
    ("cp857", [_TURKISH]),
    ("mac_roman", _WESTERN),
    ("mac_latin2", _CENTRAL),
]
"""The codecs of languages with Latin letters and their alphabets; of equal ones, the first."""

OTHERS = [
    ("cp1251", _CYRILLIC),
    ("koi8_r", _CYRILLIC[:1]),
    ("koi8_u", _CYRILLIC[:2]),
    ("cp866", [_CYRILLIC[0], _CYRILLIC[2]]),
    ("iso8859_5", _CYRILLIC),
    ("mac_cyrillic", _CYRILLIC),
    ("cp1253", [_GREEK]),
    ("iso8859_7", [_GREEK]),
    ("cp1256", [_ARABIC]),
    ("iso8859_6", [_ARABIC]),
    ("cp874", [_THAI]),
]
"""The same for Cyrillic, Greek, Arabic and Thai letters."""


def best_codec(sample: bytes, among: Sequence[tuple[str, Sequence[str]]]) -> str:
    """The codec in which nearly all characters beyond ASCII fit one alphabet; empty if none is."""
    found = re.search(rb"[\x80-\xff]", sample)
    start = max(0, found.start() - _BEFORE) if found else 0
    part = sample[start : start + _MOST_BYTES]
    words = b" ".join(word for word in part.split() if not word.isascii())[:_MOST_OF_WORDS]
    share, codec = 0.0, ""
    for each, alphabets in among:
        if (of_codec := _share(words, each, alphabets, is_latin=among is LATIN)) > share:
            share, codec = of_codec, each
    return codec if share >= _LEAST_SHARE else ""


def _share(words: bytes, codec: str, alphabets: Sequence[str], *, is_latin: bool) -> float:
    """The greatest share of good characters beyond ASCII, those of one alphabet and punctuation.

    Bad are a capital after a small letter, and a sign within a word. Texts with Latin letters have
    few words of other characters alone. The commonest letters of other alphabets count more.
    """
    try:
        text = words.decode(codec)
    except UnicodeDecodeError:
        return 0.0
    runs = _BEYOND_ASCII.findall(text)
    counts = Counter("".join(runs))
    in_runs = sum(len(run) for run in runs if len(run) >= _RUN)
    if is_latin and in_runs > _MOST_IN_RUNS * counts.total():
        return 0.0
    bad = len(_SIGN.findall(text)) + sum(
        before.islower() and after.isupper() and not (before + after).isascii()
        for before, after in pairwise(text)
    )

    def good(letters: str) -> int:
        return sum(count for each, count in counts.items() if each.lower() in letters)

    usual = sum(count for each, count in counts.items() if each in _PUNCTUATION or each.isspace())
    shares = [
        good(letters) + usual - bad + (0 if is_latin else _OF_COMMON * good(letters[:_COMMON]))
        for letters in alphabets
    ]
    if is_latin:
        shares.append(_MIXED * (good("".join(alphabets)) + usual) - bad)
    return max(shares) / max(1, counts.total())
