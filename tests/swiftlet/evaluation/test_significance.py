import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import permutation_test

from swiftlet.errors import InvalidArgumentError
from swiftlet.evaluation.significance import (
    TESTS,
    corrected,
    paired_t_test,
    randomisation_test,
    wilcoxon_test,
)


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
@pytest.mark.parametrize("test", [paired_t_test, randomisation_test])
@given(st.lists(st.tuples(UNIT, UNIT), min_size=1, max_size=12))
def test_figures_are_always_finite_and_symmetric(test, pairs):
    one, other = numbered(*[p for p, _ in pairs]), numbered(*[p for _, p in pairs])
    found, back = test(one, other), test(other, one)
    assert 0.0 <= found.p_value <= 1.0
    assert found.p_value == pytest.approx(back.p_value)
    assert found.difference == pytest.approx(-back.difference)
    assert math.isfinite(found.difference)


@pytest.mark.parametrize("test", [paired_t_test, randomisation_test])
@pytest.mark.parametrize("other", [{}, {"q0": 1.0}, {"q0": 1.0, "x": 1.0}])
def test_runs_over_different_queries_are_not_compared(test, other):
    with pytest.raises(InvalidArgumentError, match="two runs with the same queries"):
        test(numbered(1.0, 2.0), other)
    with pytest.raises(InvalidArgumentError, match="at least one"):
        test({}, {})


@pytest.mark.parametrize(
    ("differences", "p_value"),
    [
        # Of the sums ±1 ±2 ±3 two, 6 and -6, are as far from 0 as 6.
        ((1, 2, 3), 2 / 8),
        ((1, 2, -3), 8 / 8),
        # ±1 ±2 ±4: 7, 5, 3, 1 and their negatives; as far as 5 are four.
        ((-1, 2, 4), 4 / 8),
        ((1, 1, 1, 1, 1), 2 / 32),
        ((0, 1, 0, 2, 3), 2 / 8),  # queries without a difference are left out
        ((0.1, 0.2, -0.3), 8 / 8),  # the sum is 0 but for rounding
        ((0.1 + 0.2, 0.3, 0.3), 2 / 8),
        ((0, 0), 1.0),
        ((5,), 1.0),  # one query proves nothing
    ],
)
def test_few_queries_are_randomised_in_every_way(differences, p_value):
    test = randomisation_test(numbered(*differences), numbered(*[0.0] * len(differences)))
    assert test.p_value == pytest.approx(p_value)
    assert test.difference == pytest.approx(sum(differences) / len(differences))
    assert test.num_queries == len(differences)


def sample(number: int, shift: float) -> tuple[list[float], list[float]]:
    generator = np.random.default_rng(number)
    one = generator.random(number)
    return one.tolist(), (one + shift + generator.normal(0, 0.2, number)).tolist()


def scipys_randomisation(one: list[float], other: list[float], rounds: float) -> float:
    outcome = permutation_test(
        (one, other),
        lambda a, b, axis: np.mean(a - b, axis=axis),
        permutation_type="samples",
        n_resamples=rounds,
        vectorized=True,
        rng=np.random.default_rng(1),
    )
    return float(outcome.pvalue)


@pytest.mark.parametrize(("number", "shift"), [(2, 0.1), (7, 0.1), (12, 0.0), (13, 0.15)])
def test_all_assignments_give_the_p_value_of_scipys_exact_test(number, shift):
    one, other = sample(number, shift)
    test = randomisation_test(numbered(*one), numbered(*other))
    assert test.p_value == pytest.approx(scipys_randomisation(one, other, np.inf))


@pytest.mark.parametrize(("number", "shift"), [(30, 0.05), (43, 0.03), (300, 0.02)])
def test_drawn_assignments_come_close_to_scipys(number, shift):
    one, other = sample(number, shift)
    test = randomisation_test(numbered(*one), numbered(*other), rounds=20_000)
    expected = scipys_randomisation(one, other, 20_000)
    assert 0.005 < expected < 0.6
    # Five standard errors of the difference between two such estimates.
    assert test.p_value == pytest.approx(
        expected, abs=5 * math.sqrt(2 * expected * (1 - expected) / 20_000)
    )


def test_a_randomisation_is_repeated_by_its_seed_and_never_finds_0():
    one, other = sample(100, 0.02)
    first = randomisation_test(numbered(*one), numbered(*other), rounds=999)
    backwards = dict(reversed(numbered(*one).items()))
    assert randomisation_test(backwards, numbered(*other), rounds=999) == first
    other_seed = randomisation_test(numbered(*one), numbered(*other), rounds=999, seed=1)
    assert other_seed.p_value != first.p_value
    certain = randomisation_test(numbered(*[1.0] * 100), numbered(*[0.0] * 100), rounds=999)
    assert certain.p_value == pytest.approx(1 / 1000)


def test_a_randomisation_needs_rounds():
    with pytest.raises(InvalidArgumentError, match="rounds is 0"):
        randomisation_test(numbered(1.0), numbered(0.0), rounds=0)


@pytest.mark.parametrize(
    ("correction", "expected"),
    [
        ("none", [0.01, 0.04, 0.03, 0.5]),
        ("bonferroni", [0.04, 0.16, 0.12, 1.0]),
        # In order 4 * 0.01, 3 * 0.03, then 2 * 0.04, which may not fall below it, and 0.5.
        ("holm", [0.04, 0.09, 0.09, 0.5]),
    ],
)
def test_p_values_of_several_tests_are_raised(correction, expected):
    assert corrected([0.01, 0.04, 0.03, 0.5], correction) == pytest.approx(expected)
    assert corrected([], correction) == []
