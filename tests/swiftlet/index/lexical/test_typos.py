"""Words that no passage has stand for the words that are one typing error away."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import swiftlet
from swiftlet.encoders import DEFAULT_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.index.changes.joint import JointLexical
from swiftlet.index.lexical.analysis import analysis_of
from swiftlet.index.lexical.index import LexicalIndex, TantivyQuery
from swiftlet.index.lexical.postings import Postings
from swiftlet.index.lexical.typos import one_error_away
from swiftlet.index.lexical.writer import GrowingWords, write_lexical_index

TEXTS = ["machine learning", "machines that run", "a long letter about learning", "the sea", ""]
VOCABULARY = ["machine", "letter", "letters", "latter", "better", "station", "nation", "notion"]


def grown(texts: Sequence[str], language: str = "english") -> LexicalIndex:
    return GrowingWords(analysis_of(language)).with_texts(texts)


def opened(folder: Path, texts: Sequence[str]) -> LexicalIndex:
    write_lexical_index(folder, ((text, ()) for text in texts), "english")
    return LexicalIndex.open(folder, "english")


def rows(index: LexicalIndex | JointLexical, query: str) -> list[int]:
    return sorted(index.parse(query).search(100)[1].tolist())


@pytest.mark.parametrize("wrong", ["mahcine", "machin", "macchine", "mavhine", "Macine", "achine"])
def test_a_word_that_no_passage_has_finds_words_one_error_away(wrong):
    index = grown(TEXTS)
    assert rows(index, wrong) == rows(index, "machine") == [0, 1]
    (scores, _), (right, _) = (index.parse(each).search(9) for each in (wrong, "machine"))
    np.testing.assert_array_equal(scores, right)


def test_an_error_in_the_ending_is_corrected_before_the_word_is_stemmed():
    assert rows(grown(TEXTS), "runnign") == [1]


@pytest.mark.parametrize(
    "query",
    ["mahcien", "mahcine1", "ERR-4712", "seo", "dLETR", "nachyne", "m\u00e4hcinen", "x" * 99],
)
def test_other_words_are_not_corrected(query):
    index = grown([*TEXTS, "ERR-4711 detr detre"])
    assert index.words(query) == index.words(query, exact=True)


def test_a_word_that_a_passage_has_is_not_corrected():
    index = grown(["letter", "latter", "the latter letter"])
    assert rows(index, "latter") == [1, 2]


@pytest.mark.parametrize(
    ("language", "text", "query", "found"),
    [
        ("german", "Die Häuser am Fluss", "Häusre", True),
        ("german", "Die Häuser am Fluss", "hausre", True),
        ("french", "la bibliothèque", "bibliothèqeu", True),
        ("danish", "et køkken", "køkekn", True),
        ("russian", "новая машина", "мащина", True),
        ("greek", "η θάλασσα", "θάλσσα", True),
        ("arabic", "المدرسة", "المدرصة", True),
        ("english,german", "Die Häuser am Fluss", "Häusre", True),
        ("none", "東京都庁舎", "東京都庁社", True),  # by the pairs that are right
        ("none", "東京", "京都", False),
        ("none", "สวัสดี", "สวัดดิ", True),
    ],
)
def test_errors_are_corrected_in_alphabets_and_not_in_syllables(language, text, query, found):
    index = grown([text, "other"], language)
    assert rows(index, query) == ([0] if found else [])
    assert (index.words(query) != index.words(query, exact=True)) == (query[0] not in "東京ส")


def test_a_known_word_of_one_language_is_not_corrected_in_the_others():
    texts = [
        "Die Häuser an der alten Straße wurden von den Nachbarn schön gestrichen.",
        "The painted houses along the old street were admired by all the neighbours.",
    ]
    index = grown(texts, "english,german")
    for text in texts:
        assert index.words(text) == index.words(text, exact=True)


def test_word_pieces_are_not_corrected():
    tokenizer = Tokenizer.load(DEFAULT_ENCODER / "tokenizer.json")
    index = GrowingWords(analysis_of("word-pieces", tokenizer)).with_texts(TEXTS)
    assert index.words("mahcine") == index.words("mahcine", exact=True)


def test_of_words_that_are_near_the_best_of_a_passage_counts():
    index = grown(["letter latter", "letter", "latter latter", "station"])
    scores = index.parse("lytter").scores(np.arange(4))
    assert scores[0] < scores[1]  # not the sum: the passage is longer
    assert index.parse("lytter").highlights("A Latter letter, better") == ((2, 8), (9, 15))


def test_a_near_word_that_the_query_has_already_does_not_count_twice():
    index = grown(["letter latter", "station"])
    assert not index.words("letter lettre").instead
    assert rows(index, "lettre") == [0]


def test_a_word_that_is_misspelt_twice_counts_as_if_it_were_right_twice():
    index = grown(TEXTS)
    wrong, right = (
        index.parse(f"{a} {b} learning") for a, b in (("Mahcine", "mahcine"), ("machine",) * 2)
    )
    np.testing.assert_array_equal(wrong.scores(np.arange(5)), right.scores(np.arange(5)))


def test_at_most_eight_words_of_a_query_are_corrected():
    words = [f"{a}{b}lantern" for a in "abcd" for b in "xyz"]
    index = grown(words)
    wrong = " ".join(word.replace("lantern", "lnatern") for word in words)
    assert rows(index, wrong) == [*range(8)]


def test_a_search_corrects_among_changes_and_filters_and_in_batches(tmp_path):
    index = tmp_path / "index"
    rows = [{"_id": "air", "text": "a zeppelin", "kind": "a"}, {"_id": "sea", "text": "the sea"}]
    swiftlet.build(rows, index, encoder=LOOKUP_QUERY_ENCODER)
    with (
        swiftlet.open(index) as searcher,
        swiftlet.write(index, encoder=LOOKUP_QUERY_ENCODER) as writer,
    ):

        def found(query: str, **fields: object) -> list[str]:
            searcher.refresh()
            hits = searcher.search(query, mode="lexical", **fields)
            return sorted(hit.document_id for hit in hits)

        assert found("zepplein") == ["air"]
        writer.put([{"_id": "port", "text": "lagoon, no zeppelin", "kind": "b"}])
        assert found("zepplein") == ["air", "port"]
        assert found("lagon") == found("zepplein", filter={"kind": "b"}) == ["port"]
        hit = searcher.search("zepplein", 1, filter={"kind": "b"}, highlight="words").hits[0]
        assert hit.passage.text[slice(*hit.highlights[0])] == "zeppelin"
        writer.delete(["air"])
        assert found("zepplein") == ["port"]
        assert writer.compact()
        assert found("zepplein") == found("zeppelin") == ["port"]


@given(
    st.lists(st.lists(st.sampled_from(VOCABULARY), max_size=9), min_size=1, max_size=12),
    st.lists(
        st.sampled_from([*VOCABULARY, "lettre", "lytter", "nati", "statoin", "xyz"]), max_size=5
    ),
    st.integers(0, 12),
    st.data(),
)
@settings(max_examples=25)
def test_all_paths_agree_and_known_words_are_searched_as_ever(passages, query, cut, data):
    texts, text = [" ".join(each) for each in passages], " ".join(query)
    everything = np.arange(len(texts))
    with TemporaryDirectory() as folder:
        index = opened(Path(folder, "words"), texts)
        allowed = np.array(
            data.draw(st.lists(st.booleans(), min_size=len(texts), max_size=len(texts)))
        )
        words, parsed = index.words(text), index.parse(text)
        expected = TantivyQuery(index, words).scores(everything)
        np.testing.assert_allclose(parsed.scores(everything), expected, rtol=1e-5)
        assert sorted(parsed.search(99)[1]) == np.flatnonzero(expected).tolist()
        restricted = index.restricted_to(allowed).parse(text)
        np.testing.assert_array_equal(
            restricted.scores(everything), parsed.scores(everything) * allowed
        )
        if all(index.words(text, exact=True).passages.values()):
            assert words == index.words(text, exact=True)
        joint = JointLexical(opened(Path(folder, "base"), texts[:cut]), grown(texts[cut:]))
        assert joint.parse(text).search(99)[0] == pytest.approx(parsed.search(99)[0], abs=0.6)
        assert rows(joint, text) == rows(index, text)


@given(st.lists(st.text("abc", max_size=8), max_size=100))
def test_many_words_are_counted_as_each_is(words):
    with TemporaryDirectory() as folder:
        postings = opened(Path(folder, "words"), ["abc ab", "abc", "caab"]).postings
        assert isinstance(postings, Postings)
        assert postings.frequencies(words * 2) == [postings.frequency(word) for word in words * 2]


@given(st.text("abcdez", min_size=4, max_size=8))
def test_a_text_is_one_error_away_exactly_if_the_other_is(word):
    found = one_error_away(word)
    assert len(found) == len({word, *found}) - 1
    assert all(len(each) < 4 or word in one_error_away(each) for each in found)
