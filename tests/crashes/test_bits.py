"""A part of the walk over flipped bits: `make crash` does all."""

import pytest

from tests.crashes.bits import NAMES, walk


@pytest.mark.check
def test_a_flipped_bit_is_refused_by_name_or_without_effect(tmp_path):
    found = walk(NAMES, tmp_path, flips=2, queries=40)
    assert found["wrong"] == []
    assert found["flips"] > 200
    assert {"changed/changes.sqlite-wal", "changed/changes.last"} <= found["files"]["closed"].keys()
    # Flips that nothing notices would make a poor walk.
    assert all(counts["refused by name"] > 50 for counts in found["outcomes"].values())
