"""Duplicate ids."""

from hypothesis import given
from hypothesis import strategies as st

from swiftlet.corpora.identifiers import SeenIds


@given(st.lists(st.text(max_size=2)))
def test_an_id_is_new_exactly_once(values):
    seen = SeenIds()
    expected: set[str] = set()
    for value in values:
        assert seen.add(value) == (value not in expected)
        expected.add(value)


def test_every_id_is_found_again_after_the_table_has_grown():
    seen = SeenIds()
    assert all(seen.add(f"D{number}") for number in range(20_000))
    assert not any(seen.add(f"D{number}") for number in range(20_000))
