"""Whether the difference between two runs is more than chance."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from retrieval.errors import InvalidArgumentError
from retrieval.extras import extra


@dataclass(frozen=True, slots=True)
class PairedTest:
    """The outcome of a two-sided paired t-test over queries; every figure is finite.

    `difference` is `mean` minus `baseline_mean`. `p_value` is the probability of a difference at
    least as large if the runs were equally good; it is not corrected for several comparisons.
    """

    num_queries: int
    mean: float
    baseline_mean: float
    difference: float
    p_value: float


def paired_t_test(values: Mapping[str, float], baseline: Mapping[str, float]) -> PairedTest:
    """Compare one metric of two runs, query_id -> value each, over the same queries.

    Where the t statistic is undefined, the p-value is what says the least: 1 for a single query and
    for runs that are equal on every query. It is 0 when every query differs by the same amount,
    which is the limit.

    :raises InvalidArgumentError: When the queries of the two are not the same, or there are none.
    """
    if not values or values.keys() != baseline.keys():
        raise InvalidArgumentError(
            f"a paired test needs the same queries twice, at least one; {len(values)} and "
            f"{len(baseline)} came, of which {len(values.keys() & baseline.keys())} are the same"
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
        p_value=_p_value(differences),
    )


def _p_value(differences: list[float]) -> float:
    if len(differences) == 1 or not any(differences):
        return 1.0
    low, high = min(differences), max(differences)
    if math.isclose(low, high, rel_tol=1e-9):  # a spread that is nothing but rounding
        return 0.0
    with extra("evaluation"):
        from scipy.stats import ttest_1samp
    # The paired test is the test that the differences have mean 0.
    return float(ttest_1samp(differences, 0.0).pvalue)
