"""Words in any form of Unicode, with accents or without, in any script.

Characters come from Python's `unicodedata`; the cases of Turkish from SpecialCasing.txt; words and
sentences from words.toml.
"""

import sys
import tomllib
import unicodedata
from itertools import pairwise
from pathlib import Path
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swiftlet.errors import QueryError
from swiftlet.index.lexical.analysis import LANGUAGES, PIECES, analysis_of
from swiftlet.index.lexical.folding import folded
from swiftlet.index.lexical.words import joined
from swiftlet.index.lexical.writer import GrowingWords
from swiftlet.text import INVISIBLE, check_query
from tests.growth import least_seconds

SETTINGS = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))
WORDS: dict[str, list[str]] = SETTINGS["words"]
SENTENCES: dict[str, list[str]] = SETTINGS["sentences"]
CHARACTERS = [*map(chr, range(sys.maxunicode + 1))]
MARKS = [each for each in CHARACTERS if unicodedata.category(each)[0] == "M"]
ACCENTS = [each for each in MARKS if unicodedata.combining(each) >= 200 and each < "\u0370"]
LETTERS = [each for each in CHARACTERS if unicodedata.category(each) in ("Ll", "Lo", "Lt", "Lu")]
FORMS = ("NFC", "NFD")


def without_some(word: str, kept: int) -> str:
    """A word without some of its accents, by the bits of `kept`, as Unicode decomposes it."""
    parts = [*normalize("NFD", word)]
    return "".join(
        part
        for place, part in enumerate(parts)
        if kept >> place % 16 & 1 or unicodedata.combining(part) < 200 or parts[place - 1] in "иуИУ"
    )


def test_every_language_has_words_with_accents():
    assert WORDS.keys() == {*LANGUAGES} - {*PIECES}
    assert all(len({*words}) >= 10 for words in WORDS.values())


@given(st.sampled_from(sorted(WORDS)), st.data())
def test_a_word_is_found_by_any_mix_of_its_accents_and_forms(language, data):
    word = data.draw(st.sampled_from(WORDS[language]))
    mixes, forms = st.integers(0, 2**16 - 1), st.sampled_from(FORMS)
    spelled = [
        normalize(data.draw(forms), without_some(word, data.draw(mixes)))
        for _ in ("query", "passage")
    ]
    cases = [data.draw(st.sampled_from((str, str.lower, str.upper)))(each) for each in spelled]
    analysis = analysis_of(language)
    assert {*analysis.words(cases[0])} & {*analysis.passage_words(cases[1])}


@pytest.mark.parametrize("language", ["none", "english", "french"])
def test_every_letter_is_found_in_its_other_canonical_form(language):
    analysis = analysis_of(language)
    for letter in LETTERS:
        other = normalize("NFD", letter)
        if other != letter:
            words = [analysis.words(f"ab{each}ba") for each in (letter, other)]
            assert words[0] == words[1], f"U+{ord(letter):04X}"


@pytest.mark.parametrize("base", ["a", "о", "α", "ש", "ب"])
def test_no_accent_of_unicode_matters(base):
    analysis = analysis_of("none")
    bare = analysis.words(f"{base}{base}{base}")
    for accent in ACCENTS:
        assert analysis.words(f"{base}{base}{accent}{base}") == bare, f"U+{ord(accent):04X}"


def test_letters_of_their_own_are_no_accents():
    analysis = analysis_of("none")
    pairs = [("й", "и"), ("ў", "у"), ("が", "か"), ("パ", "ハ"), ("ก่", "ก"), ("क्", "क"), ("ড়", "ড")]
    for one, other in pairs:
        assert analysis.words(one) != analysis.words(other)


def test_no_mark_of_unicode_splits_a_word():
    analysis = analysis_of("none")
    for mark in MARKS:
        assert len(analysis.words(f"क{mark}क")) == 1, f"U+{ord(mark):04X}"


@pytest.mark.parametrize("language", ["none", "english", "french"])
def test_enclosing_marks_make_no_other_word(language):
    analysis = analysis_of(language)
    for mark in (each for each in MARKS if unicodedata.category(each) == "Me"):
        for word in ("1", "été", "か"):
            for hidden in ("", "\ufe0f"):
                enclosed = f"{word}{hidden}{mark}"
                assert analysis.words(enclosed) == analysis.words(word), f"U+{ord(mark):04X}"
                spans = analysis.highlighter(analysis.words(word))(f"x {enclosed} x")
                assert spans == ((2, 2 + len(enclosed)),)
        assert not analysis.words(f"#{mark}")


# Each as sara am, in two parts, and with the tone after the first part; Lao's ligatures of ho.
@pytest.mark.parametrize(
    "spellings",
    [
        ("\u0e17\u0e33", "\u0e17\u0e4d\u0e32"),
        ("\u0e19\u0e49\u0e33", "\u0e19\u0e49\u0e4d\u0e32", "\u0e19\u0e4d\u0e49\u0e32"),
        ("\u0e84\u0eb3", "\u0e84\u0ecd\u0eb2"),
        ("\u0e99\u0ec9\u0eb3", "\u0e99\u0ec9\u0ecd\u0eb2", "\u0e99\u0ecd\u0ec9\u0eb2"),
        ("\u0edc\u0ec9\u0eb2", "\u0eab\u0e99\u0ec9\u0eb2"),
        ("\u0edd\u0eb2", "\u0eab\u0ea1\u0eb2"),
        ("\u0edd\u0ead\u0e81", "\u0eab\u0ea1\u0ead\u0e81"),
    ],
)
@pytest.mark.parametrize("language", ["none", "english", "french"])
def test_thai_and_lao_are_found_in_each_spelling(language, spellings):
    analysis = analysis_of(language)
    for before, after in (("", ""), ("\u0e01\u0e32\u0e23", "\u0e07\u0e32\u0e19")):
        texts = [f"{before}{each}{after}" for each in spellings]
        index = GrowingWords(analysis).with_texts([*texts, f"{before}{after} x"])
        for text in texts:
            query = index.parse(text)
            assert {*query.search(len(texts))[1].tolist()} == {*range(len(texts))}
            for each in texts:
                assert query.highlights(each) == ((0, len(each)),)


INVISIBLES = [each for each in CHARACTERS if INVISIBLE.match(each)]


def test_invisible_characters_are_those_of_unicode():
    # Format characters that are shown, or end a line of annotation, are not default-ignorable.
    shown = {
        *"\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\ufff9\ufffa\ufffb"
    }
    formats = {each for each in CHARACTERS if unicodedata.category(each) == "Cf"} - shown
    outside = {each for each in formats if not INVISIBLE.match(each)}
    assert all("\U00011000" < each < "\U00013440" for each in outside)  # Kaithi and hieroglyphs
    others = {each for each in INVISIBLES if unicodedata.category(each) not in ("Cf", "Cn")}
    assert {unicodedata.category(each) for each in others} <= {"Mn", "Lo"}


@pytest.mark.parametrize("language", ["none", "english", "spanish", "turkish"])
def test_invisible_characters_are_left_out_of_words(language):
    analysis = analysis_of(language)
    for character in INVISIBLES[:400]:
        for word in ("information", "नमस्ते", "ตากลม", "café", "a_b"):
            hidden = f"{word[:2]}{character}{word[2:]}"
            assert analysis.words(hidden) == analysis.words(word), f"U+{ord(character):04X}"


@pytest.mark.parametrize(
    "query", ["\u00ad", "\u200b\u200c\u200d", " \ufeff\t", "\u2060\ufe0f", "\U000e0041"]
)
def test_a_query_of_invisible_characters_is_blank(query):
    with pytest.raises(QueryError, match="the query is empty"):
        check_query(query)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("ﬂow", "flow"), ("ｓｅａｒｃｈ", "search"), ("𝐩𝐫𝐨𝐨𝐟", "proof"), ("ﻛﺘﺎﺏ", "كتاب"),
        ("ｶﾞｲﾄﾞ", "ガイド"),        ("⼭⽔", "山水"), ("chapter Ⅻ", "chapter XII"), ("ﬅart", "start"),
        ("𝑡ℎ𝑒", "the"), ("𝔄ℑℨ", "AIZ"), ("𝓗ℯ𝓁ℓ", "Hell"), ("ℝ", "R"), ("𞸀𞸁", "اب"), ("ٵ", "اٴ"),
    ],
)  # fmt: skip
def test_forms_of_letters_are_the_letters(text, word):
    for language in ("none", "english"):
        assert analysis_of(language).words(text) == analysis_of(language).words(word)


def test_what_finds_a_character_of_unicode_also_marks_it():
    analysis = analysis_of("none")
    forms = (each for each in CHARACTERS if normalize("NFKC", each) != each)
    letters = [form for form in forms if any(map(str.isalnum, "".join(analysis.words(form))))]
    assert {"\u2f24", "\ufb01", "\ufdfc"} <= {*letters}
    for text in (around.format(each) for each in letters for around in ("{}", "a {} b", "東{}学")):
        marks = analysis.highlighter(analysis.words(text))(text)
        assert "".join(text[start:end] for start, end in marks) == text.replace(" ", "")


@pytest.mark.parametrize("symbol", ["™", "℠", "№", "㎏", "½", "…", "🏽", "≠", "€"])
def test_symbols_do_not_become_parts_of_words(symbol):
    assert analysis_of("none").words(f"Name{symbol} x")[0] in ("name", f"name{symbol}".lower())


def test_code_has_the_words_that_it_had():
    sources = [*Path("swiftlet").rglob("*.py")]
    before, after = analysis_of("english", version=1), analysis_of("english")
    for source in sources:
        text = source.read_text("utf-8")
        if text.isascii():
            assert before.words(text) == after.words(text)
            assert before.names(text) == after.names(text)


# I and i, and their dotted and dotless forms, in lower and upper case.
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("İ", "i"),
        ("I", "ı"),
        ("I\u0307", "i"),
        ("İZMİR", "izmir"),
        ("ISPARTA", "ısparta"),
        ("DİYARBAKIR", "Diyarbakır"),
    ],
)
def test_turkish_has_a_dotted_and_a_dotless_i(one, other):
    analysis = analysis_of("turkish")
    assert analysis.words(one)[:1] == analysis.words(other)[:1]
    assert {*analysis.words(one)} & {*analysis.words(other)}


@pytest.mark.parametrize("script", sorted(SENTENCES))
def test_every_word_of_a_script_without_spaces_is_found(script):
    sentences = [each.split("|") for each in SENTENCES[script]]
    texts = ["".join(each) for each in sentences]
    index = GrowingWords(analysis_of("english")).with_texts([*texts, "English beside it"])
    for word in {word for each in sentences for word in each}:
        query = index.parse(word)
        rows = query.search(len(texts))[1].tolist()
        assert {row for row, each in enumerate(sentences) if word in each} <= {*rows}
        marked = [texts[rows[0]][start:end] for start, end in query.highlights(texts[rows[0]])]
        assert folded(word) in folded("".join(marked))
    assert index.parse("english").search(3)[1].tolist() == [len(texts)]


def test_a_script_is_told_apart_within_a_text():
    words = analysis_of("english").words
    assert words("使用Python编程") == ["使用", "python", "编程"]
    assert words("3月の天気、东京") == ["3", "月の", "の天", "天気", "东京"]
    assert words("한국어 검색") == ["한국어", "검색"]


@given(st.text(max_size=40), st.sampled_from(["none", "english", "spanish"]))
def test_highlights_are_spans_of_the_text_that_was_given(text, language):
    text = f"Cafe\u0301s 東京\u200bタワー {text} naïve"
    analysis = analysis_of(language)
    spans = analysis.highlighter(analysis.words("CAFÉS 東京 naive"))(text)
    assert [text[slice(*span)] for span in spans[:2]] == ["Cafe\u0301s", "東京\u200b"]
    assert text[slice(*spans[-1])].endswith("naïve")
    assert all(first[1] <= second[0] for first, second in pairwise(spans))


def test_spans_that_overlap_are_joined():
    assert joined([(0, 1), (0, 2), (1, 2), (1, 3), (4, 5), (5, 6)]) == ((0, 3), (4, 5), (5, 6))


@pytest.mark.parametrize(
    "part",
    [
        "東", "b\u0301\u0489", "เ", "กา", "é", "\u200b", "ᄀ", "क्", "₂.", "a\u0300\u0315", "ﷺ",
        "\u0e4d\u0e49", "\u0e4d" + 9 * "\u0e49", "\u20e3",
    ],
)  # fmt: skip
def test_the_time_is_in_proportion_to_the_text(part):
    analysis = analysis_of("spanish")

    def seconds(count: int) -> float:
        text = part * count
        return least_seconds(lambda: (analysis.indexed(text), analysis.highlighter(["x"])(text)))

    assert seconds(40_000) < 10 * seconds(10_000) + 0.1
