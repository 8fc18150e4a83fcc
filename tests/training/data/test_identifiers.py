"""Compact storage of ids."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.data.identifiers import Identifiers

IDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(st.lists(IDS, unique=True), st.lists(IDS))
def test_ids_have_the_numbers_of_their_order(ids: list[str], others: list[str]) -> None:
    identifiers = Identifiers(ids)
    assert list(identifiers) == ids
    expected = [ids.index(one) if one in ids else -1 for one in others + ids]
    assert identifiers.numbers(others + ids).tolist() == expected


def test_a_number_that_no_id_has_is_refused() -> None:
    for number in (-1, 2):
        with pytest.raises(IndexError, match=f"no number {number} among 2 ids"):
            Identifiers(["a", "b"])[number]


def test_an_array_of_numbers_can_be_looked_up() -> None:
    identifiers = Identifiers(f"d{number}" for number in range(1000))
    numbers = np.array([7, 999])
    assert [identifiers[number] for number in numbers] == ["d7", "d999"]
