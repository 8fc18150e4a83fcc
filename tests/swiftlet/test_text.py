import sys
import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from swiftlet.text import has_lone_surrogate, normalise

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
