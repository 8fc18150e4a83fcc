"""Sentences are taken from a corpus as queries."""

from collections import Counter

from swiftlet.types import Document
from training.data.sentences import sample_sentences, sentences


def document(text: str, title: str = "") -> Document:
    return Document("d", text, title, {})


def test_a_document_gives_its_title_and_its_sentences():
    found = sentences(
        document('Birds nest in caves. Are they blind? "No," he said. (They hear.)', "On swiftlets")
    )
    assert list(found) == [
        "On swiftlets",
        "Birds nest in caves.",
        "Are they blind?",
        '"No," he said.',
        "(They hear.)",
    ]


def test_abbreviations_and_numbers_inside_a_sentence_do_not_end_it():
    text = "A dose of 2.5 mg, e.g. of aspirin, was given by 40 of 50 doctors."
    assert list(sentences(document(text))) == [text]


def test_an_empty_line_ends_a_sentence_and_single_words_are_left_out():
    assert list(sentences(document("Methods\n\nwe measured it\n  twice"))) == [
        "we measured it twice"
    ]


def test_long_sentences_are_cut_after_48_words():
    (found,) = sentences(document(" ".join(f"w{number}" for number in range(60))))
    assert found.split() == [f"w{number}" for number in range(48)]


def test_a_sample_is_as_large_as_wanted_and_the_same_for_the_same_seed():
    corpus = [document(f"sentence number {number}.") for number in range(100)]
    first = sample_sentences(corpus, 30, seed=1)
    assert len(first) == len(set(first)) == 30
    assert sample_sentences(corpus, 30, seed=1) == first
    assert sample_sentences(corpus, 30, seed=2) != first
    assert len(sample_sentences(corpus, 1000, seed=1)) == 100


def test_each_sentence_has_the_same_chance():
    corpus = [document(f"sentence {number}.") for number in range(10)]
    seen = Counter(s.text for seed in range(2000) for s in sample_sentences(corpus, 3, seed))
    # 600 expected of each; a standard deviation is 20.
    assert all(500 < seen[f"sentence {number}."] < 700 for number in range(10))
