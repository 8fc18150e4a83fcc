import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from training.data.positives import KnownPositives

ROWS = st.lists(st.lists(st.integers(0, 20), max_size=6), min_size=1, max_size=5)


def test_the_rows_of_a_query_are_ascending_and_once_each():
    known = KnownPositives([[7, 3, 7], [], [1]])
    assert len(known) == 3
    assert [known.of(query).tolist() for query in range(3)] == [[3, 7], [], [1]]


def test_the_pairs_name_places_in_the_batch_not_query_numbers():
    known = KnownPositives([[7, 3], [], [1]])
    places, rows = known.pairs(np.array([2, 1, 0, 2]))
    assert list(zip(places.tolist(), rows.tolist(), strict=True)) == [
        (0, 1),
        (2, 3),
        (2, 7),
        (3, 1),
    ]


@given(ROWS, st.data())
def test_the_mask_marks_known_positives(rows, data):
    known = KnownPositives(rows)
    queries = np.array(
        data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=6)), dtype=np.int64
    )
    width = data.draw(st.integers(0, 7))
    # -1 stands for no row, and rows beyond all known ones exist too.
    line = st.lists(st.integers(-1, 30), min_size=width, max_size=width)
    shared = np.array(data.draw(line), dtype=np.int64)
    own = np.array([data.draw(line) for _ in queries], dtype=np.int64).reshape(len(queries), width)
    for table, mask in (
        (np.broadcast_to(shared, own.shape), known.mask(queries, shared)),
        (own, known.mask(queries, own)),
    ):
        assert mask.shape == own.shape
        expected = [
            [row in rows[query] for row in line]
            for query, line in zip(queries.tolist(), table.tolist(), strict=True)
        ]
        assert mask.tolist() == expected


def test_queries_of_a_group_share_its_rows():
    numbers, rows = np.array([4, 1, 4, 4]), np.array([7, 5, 3, 7])
    known = KnownPositives.of_groups(numbers, rows, groups=np.array([4, 0, 1, 4, 9]))
    assert len(known) == 5
    assert [known.of(query).tolist() for query in range(5)] == [[3, 7], [], [5], [3, 7], []]
    shared = known.mask(np.array([3, 2, 1, 0]), np.array([3, 5, 7]))
    assert shared.tolist() == [
        [True, False, True],
        [False, True, False],
        [False, False, False],
        [True, False, True],
    ]


def test_a_group_is_kept_once_however_many_queries_share_it():
    count = 100_000
    known = KnownPositives.of_groups(
        np.zeros(count, np.int64), np.arange(count), groups=np.zeros(count, np.int64)
    )
    assert len(known) == count
    assert len(known.of(count - 1)) == count
