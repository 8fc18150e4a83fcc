import re
import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from swiftlet.text import has_lone_surrogate, in_form, normalise
from tests.growth import grows_evenly

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@given(ANY_TEXT)
@example("a\ud83d\ude00b")
@example("\x00\x1f\x7f\x85\u2028\u3000\t\r\n")
def test_normalising_keeps_positions_and_all_but_space_control_and_surrogate_characters(text):
    clean = normalise(text)
    assert len(clean) == len(text)
    assert normalise(clean) == clean
    for before, after in zip(text, clean, strict=True):
        if before.isspace() or unicodedata.category(before) == "Cc":
            assert after == " "
        elif unicodedata.category(before) == "Cs":
            assert after == "\ufffd"
        else:
            assert after == before


def test_no_character_of_unicode_gives_a_control_character_or_a_surrogate():
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    clean = normalise(everything)
    assert not {character for character in set(clean) if character.isspace()} - {" "}
    assert not {unicodedata.category(character) for character in set(clean)} & {"Cc", "Cs", "Zl"}
    clean.encode()


@given(ANY_TEXT)
def test_a_text_has_a_lone_surrogate_exactly_if_it_cannot_be_stored_as_utf_8(text):
    try:
        text.encode()
    except UnicodeEncodeError:
        assert has_lone_surrogate(text)
    else:
        assert not has_lone_surrogate(text)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize(
    "piece",
    ["\u0301\u0316", "\u0316\U0001d165", "\U00010a0f\u0301", "\u0f73\u0301", "\u0344\u0316"],
)
def test_the_time_to_order_marks_grows_with_their_number(form, piece):
    assert grows_evenly(lambda count: in_form(form, "a" + piece * count), 3_000)


@given(
    st.lists(st.sampled_from([*"ab \u4e00\u0915", *("\u0301\u0316\u0323" * 5)]), max_size=80).map(
        "".join
    )
)
@example("a" + 31 * "\u0301")
@example("\u4e00" + 30 * "\u0323")
def test_texts_with_fewer_marks_on_a_letter_have_unicodes_form(text):
    most = max(map(len, re.findall("[\u0301\u0316\u0323]+", text)), default=0)
    assert (in_form("NFC", text) == unicodedata.normalize("NFC", text)) == (most <= 30)
