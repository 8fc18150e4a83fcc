"""Significance tests of the difference between two runs."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from swiftlet.errors import InvalidArgumentError
from swiftlet.extras import extra

TestName = Literal["t", "wilcoxon"]
"""The significance tests, by name."""

SIGNIFICANT = 0.05
"""The p-value up to which an adapted encoder counts as better."""

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


TESTS: dict[TestName, Callable[[Mapping[str, float], Mapping[str, float]], PairedTest]] = {
    "t": paired_t_test,
    "wilcoxon": wilcoxon_test,
}


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values of several tests, corrected so that all of them together err as one test does.

    S. Holm, A simple sequentially rejective multiple test procedure (1979).
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected, highest = [1.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = highest
    return corrected


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
