"""Queries ask for the same when their words are the same."""

from training.same_words import same_words


def test_case_and_white_space_make_no_difference() -> None:
    queries = ["What is lava?", "bread", "what  is\tLAVA? ", "Straße", "bread", "STRASSE", "lava"]
    assert same_words(queries).tolist() == [0, 1, 0, 3, 1, 3, 6]


def test_there_may_be_no_queries() -> None:
    assert same_words([]).tolist() == []
