"""Compact storage of ids."""

from hypothesis import given
from hypothesis import strategies as st

from training.data.identifiers import Identifiers

IDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(st.lists(IDS, unique=True), st.lists(IDS))
def test_ids_have_the_numbers_of_their_order(ids, others):
    identifiers = Identifiers(ids)
    assert list(identifiers) == ids
    expected = [ids.index(one) if one in ids else -1 for one in others + ids]
    assert identifiers.numbers(others + ids).tolist() == expected
