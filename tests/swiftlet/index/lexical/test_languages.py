import pytest

from swiftlet.errors import InvalidArgumentError
from swiftlet.index.lexical.analysis import analysis_of, words_of
from swiftlet.index.lexical.writer import GrowingWords

GERMAN = "Die Häuser an der alten Straße wurden von den Nachbarn schön gestrichen."
ENGLISH = "The painted houses along the old street were admired by all the neighbours."


def rows_of(language: str, query: str) -> list[int]:
    index = GrowingWords(analysis_of(language)).with_texts([GERMAN, ENGLISH])
    return index.parse(query, exact=True).search(10)[1].tolist()


def test_a_passage_is_stemmed_in_its_own_language_and_a_query_in_each():
    assert rows_of("english", "Haus") == rows_of("german", "admiring") == []
    assert rows_of("english,german", "Haus") == [0]
    assert rows_of("english,german", "admiring") == [1]


def test_a_query_of_one_language_scores_as_if_there_were_no_other():
    mixed = GrowingWords(analysis_of("english,german")).with_texts([GERMAN] * 3)
    alone = GrowingWords(analysis_of("german")).with_texts([GERMAN] * 3)
    query = "die schönen Häuser"
    assert mixed.parse(query).search(3)[0] == pytest.approx(alone.parse(query).search(3)[0])


def test_forms_of_either_language_are_highlighted():
    query = GrowingWords(analysis_of("english,german")).with_texts([GERMAN, ENGLISH])
    for text, form, asked in ((GERMAN, "Häuser", "Haus"), (ENGLISH, "admired", "admiring")):
        spans = query.parse(asked).highlights(text)
        assert [text[start:end] for start, end in spans] == [form]


@pytest.mark.parametrize(
    ("codes", "language"),
    [
        ([], "english"),
        (["de"], "german"),
        (["en", "no", "nb"], "english,norwegian"),
        (["ja", "pl", "en"], "none,english"),
    ],
)
def test_languages_without_a_stemmer_keep_their_words(codes, language):
    assert words_of(codes) == language


def test_languages_without_a_stemmer_stand_beside_others():
    polish = "Zamek w starym mieście jest otwarty dla wszystkich gości przez cały rok."
    index = GrowingWords(analysis_of("english,none")).with_texts([polish, ENGLISH])
    assert index.parse("zamek").search(2)[1].tolist() == [0]
    assert index.parse("admiring").search(2)[1].tolist() == [1]


@pytest.mark.parametrize("language", ["klingon", "english,klingon", "english,word-pieces", "auto"])
def test_other_languages_are_refused(language):
    with pytest.raises(InvalidArgumentError, match="english,german"):
        analysis_of(language)
