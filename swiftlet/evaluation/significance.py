"""Significance tests of the difference between two runs."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from swiftlet.errors import InvalidArgumentError
from swiftlet.extras import extra

Correction = Literal["none", "bonferroni", "holm"]
"""The correction of p-values when several differences are tested at once."""

TestName = Literal["t", "wilcoxon", "randomisation"]
"""The significance tests, by name."""

SIGNIFICANT = 0.05
"""The p-value up to which an adapted encoder counts as better."""

_SIGNS_AT_ONCE = 1 << 22
_DECIMALS = 12


@dataclass(frozen=True, slots=True)
class PairedTest:
    """The outcome of a two-sided paired test over queries; every figure is finite.

    `difference` is `mean` minus `baseline_mean`. `p_value` is the probability of a difference at
    least as large between equally good runs. It is not corrected for several comparisons.
    """

    num_queries: int
    mean: float
    baseline_mean: float
    difference: float
    p_value: float


def paired_t_test(values: Mapping[str, float], baseline: Mapping[str, float]) -> PairedTest:
    """Compare one metric of two runs, query_id -> value each, by Student's t over the same queries.

    The p-value is 1 for a single query and for runs that are equal on every query. It is 0 when
    every query differs by the same amount.

    :raises InvalidArgumentError: When the queries of the two are not the same, or there are none.
    """
    return _paired(values, baseline, _p_of_t)


def wilcoxon_test(values: Mapping[str, float], baseline: Mapping[str, float]) -> PairedTest:
    """Compare one metric of two runs, query_id -> value each, by Wilcoxon's signed-rank test.

    It compares the ranks of the differences, without those that are 0 (002, section 7). The p-value
    is 1 if at most one query differs.

    :raises InvalidArgumentError: When the queries of the two are not the same, or there are none.
    """
    return _paired(values, baseline, _p_of_ranks)


def randomisation_test(
    values: Mapping[str, float],
    baseline: Mapping[str, float],
    *,
    rounds: int = 10_000,
    seed: int = 0,
) -> PairedTest:
    """Compare one metric of two runs, query_id -> value each, by Fisher's randomisation test.

    If the runs are equally good, the sign of each query's difference is chance. The p-value is the
    share of sign assignments that bring the mean at least as far from 0 as it is. Queries without a
    difference are left out. The other n queries have 2^n assignments: all are counted if these are
    at most `rounds`; otherwise `rounds` are drawn with `seed`, and p = (count + 1) / (rounds + 1).
    Unlike the t-test this assumes no distribution.

    :raises InvalidArgumentError: When the queries of the two are not the same, or there are none;
        or when `rounds` is below 1.
    """
    if rounds < 1:
        raise InvalidArgumentError(f"rounds is {rounds}, but at least 1 is expected")
    return _paired(values, baseline, lambda differences: _p_of_signs(differences, rounds, seed))


TESTS: dict[TestName, Callable[[Mapping[str, float], Mapping[str, float]], PairedTest]] = {
    "t": paired_t_test,
    "wilcoxon": wilcoxon_test,
    "randomisation": randomisation_test,
}


def corrected(p_values: Sequence[float], correction: Correction) -> list[float]:
    """The corrected p-values, in the same order, each at most 1.

    Bonferroni multiplies each of the m p-values by m. Holm multiplies the smallest by m, the next
    by m - 1 and so on; none is smaller than the previous one. Both bound the probability of any
    false finding; Holm rejects every hypothesis that Bonferroni rejects.
    """
    number = len(p_values)
    if correction == "none":
        return list(p_values)
    if correction == "bonferroni":
        return [min(1.0, number * p_value) for p_value in p_values]
    raised, floor = [0.0] * number, 0.0
    for rank, position in enumerate(sorted(range(number), key=lambda place: p_values[place])):
        floor = max(floor, min(1.0, (number - rank) * p_values[position]))
        raised[position] = floor
    return raised


def _paired(
    values: Mapping[str, float],
    baseline: Mapping[str, float],
    p_value: Callable[[list[float]], float],
) -> PairedTest:
    if not values or values.keys() != baseline.keys():
        raise InvalidArgumentError(
            "a paired test needs two runs with the same queries, at least one; these have "
            f"{len(values)} and {len(baseline)} queries, of which "
            f"{len(values.keys() & baseline.keys())} are the same"
        )
    query_ids = sorted(values)
    first = [values[query_id] for query_id in query_ids]
    second = [baseline[query_id] for query_id in query_ids]
    differences = [one - other for one, other in zip(first, second, strict=True)]
    return PairedTest(
        num_queries=len(query_ids),
        mean=fmean(first),
        baseline_mean=fmean(second),
        difference=fmean(differences),
        p_value=p_value(differences),
    )


def _p_of_t(differences: list[float]) -> float:
    if len(differences) == 1 or not any(differences):
        return 1.0
    low, high = min(differences), max(differences)
    if math.isclose(low, high, rel_tol=1e-9):  # equal but for rounding
        return 0.0
    with extra("evaluation"):
        from scipy.stats import ttest_1samp
    # The paired test is the test that the differences have mean 0.
    return float(ttest_1samp(differences, 0.0).pvalue)


def _p_of_ranks(differences: list[float]) -> float:
    changed = [round(difference, _DECIMALS) for difference in differences if difference]
    if len(changed) < 2:
        return 1.0
    with extra("evaluation"):
        from scipy.stats import wilcoxon
    return float(wilcoxon(changed).pvalue)


def _p_of_signs(differences: list[float], rounds: int, seed: int) -> float:
    changed = np.array([difference for difference in differences if difference])
    if len(changed) < 2:
        return 1.0
    with extra("evaluation"):
        from scipy.stats import permutation_test
    scale = np.abs(changed).sum()

    def distance(signed: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
        """How far each mean is from 0; rounded, so that equal sums in another order stay equal."""
        distances: NDArray[np.float64] = np.abs(signed.sum(axis=axis)) / scale
        return distances.round(_DECIMALS)

    outcome = permutation_test(
        (changed,),
        distance,
        permutation_type="samples",  # of a single sample: the signs
        alternative="greater",
        n_resamples=rounds,
        batch=max(1, _SIGNS_AT_ONCE // len(changed)),
        vectorized=True,
        rng=np.random.default_rng(seed),
    )
    return float(outcome.pvalue)
