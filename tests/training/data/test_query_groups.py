"""Queries with the same words form a group."""

from training.data.query_groups import query_groups


def test_case_and_white_space_make_no_difference():
    queries = ["What is lava?", "bread", "what  is\tLAVA? ", "Straße", "bread", "STRASSE", "lava"]
    assert query_groups(queries).tolist() == [0, 1, 0, 3, 1, 3, 6]


def test_there_may_be_no_queries():
    assert query_groups([]).tolist() == []
