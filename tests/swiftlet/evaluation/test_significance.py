import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swiftlet.errors import InvalidArgumentError
from swiftlet.evaluation.significance import TESTS, holm, paired_t_test, wilcoxon_test


def numbered(*values: float) -> dict[str, float]:
    return {f"q{number}": value for number, value in enumerate(values)}


def test_the_test_is_the_one_of_the_textbook():
    # Differences 1, 2, 3: mean 2, standard error 1 / sqrt(3), t = 2 sqrt(3) with 2 degrees of
    # freedom, for which the two-sided p is 1 - t / sqrt(2 + t^2).
    test = paired_t_test(numbered(2, 4, 6), numbered(1, 2, 3))
    t = 2 * math.sqrt(3)
    assert test.num_queries == 3
    assert (test.mean, test.baseline_mean, test.difference) == (4, 2, 2)
    assert test.p_value == pytest.approx(1 - t / math.sqrt(2 + t * t))


def test_wilcoxons_test_ranks_the_differences_that_are_not_zero():
    # All of six differences have one sign: 2 of 2^6 assignments of signs are as extreme.
    one = numbered(*(0.1 * n for n in range(1, 7)), 0.5)
    other = numbered(*[0.0] * 6, 0.5)
    assert wilcoxon_test(one, other).p_value == pytest.approx(2 / 64)
    assert wilcoxon_test(other, one).p_value == pytest.approx(2 / 64)


@pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)
@pytest.mark.parametrize("values", [(0.5,), (0.5, 0.7), (1.0,)])
def test_no_test_finds_a_difference_where_at_most_one_query_differs(test, values):
    assert test(numbered(*values), numbered(0.5, *values[1:])).p_value == 1


def test_queries_are_paired_by_id_whatever_their_order():
    one, other = numbered(0.5, 0.1, 0.9), numbered(0.4, 0.3, 0.7)
    assert paired_t_test(dict(reversed(one.items())), other) == paired_t_test(one, other)


@pytest.mark.parametrize(
    ("one", "other", "difference", "p_value"),
    [
        ((0.5, 0.7), (0.5, 0.7), 0.0, 1.0),  # identical runs
        ((0.5,), (0.5,), 0.0, 1.0),
        ((1.0,), (0.0,), 1.0, 1.0),  # one query proves nothing
        ((0.3, 0.6, 0.9), (0.2, 0.5, 0.8), 0.1, 0.0),  # the same amount but for rounding
        ((1.0, 0.0), (0.0, 1.0), 0.0, 1.0),
    ],
)
def test_degenerate_comparisons_have_finite_figures(one, other, difference, p_value):
    test = paired_t_test(numbered(*one), numbered(*other))
    assert test.difference == pytest.approx(difference)
    assert test.p_value == pytest.approx(p_value)


UNIT = st.floats(0, 1, allow_nan=False)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)
@settings(max_examples=10)  # each of Wilcoxon's takes 60 ms
@given(st.lists(st.tuples(UNIT, UNIT), min_size=1, max_size=12))
def test_figures_are_always_finite_and_symmetric(test, pairs):
    one, other = numbered(*[p for p, _ in pairs]), numbered(*[p for _, p in pairs])
    found, back = test(one, other), test(other, one)
    assert 0.0 <= found.p_value <= 1.0
    assert found.p_value == pytest.approx(back.p_value)
    assert found.difference == pytest.approx(-back.difference)
    assert math.isfinite(found.difference)


@pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)
@pytest.mark.parametrize("other", [{}, {"q0": 1.0}, {"q0": 1.0, "x": 1.0}])
def test_runs_over_different_queries_are_not_compared(test, other):
    with pytest.raises(InvalidArgumentError, match="two runs with the same queries"):
        test(numbered(1.0, 2.0), other)
    with pytest.raises(InvalidArgumentError, match="at least one"):
        test({}, {})


def test_holms_correction_is_that_of_the_textbook():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.6]) == [1, 1]
    assert holm([0.04]) == [0.04]
    assert holm([]) == []
