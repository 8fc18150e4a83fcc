"""Whether the difference between two runs is more than chance."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

import numpy as np

from retrieval.errors import InvalidArgumentError
from retrieval.extras import extra

Correction = Literal["none", "bonferroni", "holm"]
"""How p-values are raised when several differences are tested at once."""

_SIGNS_AT_ONCE = 1 << 22
# Sums that are equal but for rounding count as equal: as often as not they are the same difference.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class PairedTest:
    """The outcome of a two-sided paired test over queries; every figure is finite.

    `difference` is `mean` minus `baseline_mean`. `p_value` is the probability of a difference at
    least as large if the runs were equally good; it is not corrected for several comparisons.
    """

    num_queries: int
    mean: float
    baseline_mean: float
    difference: float
    p_value: float


def paired_t_test(values: Mapping[str, float], baseline: Mapping[str, float]) -> PairedTest:
    """Compare one metric of two runs, query_id -> value each, by Student's t over the same queries.

    Where the t statistic is undefined, the p-value is what says the least: 1 for a single query and
    for runs that are equal on every query. It is 0 when every query differs by the same amount,
    which is the limit.

    :raises InvalidArgumentError: When the queries of the two are not the same, or there are none.
    """
    return _paired(values, baseline, _p_of_t)


def randomisation_test(
    values: Mapping[str, float],
    baseline: Mapping[str, float],
    *,
    rounds: int = 100_000,
    seed: int = 0,
) -> PairedTest:
    """Compare one metric of two runs, query_id -> value each, by Fisher's randomisation test.

    Were the runs equally good, each query's difference could as well have the other sign. The
    p-value is the share of all sign assignments whose mean is as far from 0 as the one observed.
    Queries without a difference change nothing; where the n others have no more than `rounds`
    assignments (2^n), each is counted, otherwise that many are drawn by `seed`, and the observed
    one counts too: p = (count + 1) / (rounds + 1). Unlike the t-test this assumes no distribution.

    :raises InvalidArgumentError: When the queries of the two are not the same, or there are none;
        or when `rounds` is below 1.
    """
    if rounds < 1:
        raise InvalidArgumentError(f"rounds is {rounds}, but at least 1 is expected")
    return _paired(values, baseline, lambda differences: _p_of_signs(differences, rounds, seed))


def corrected(p_values: Sequence[float], correction: Correction) -> list[float]:
    """The p-values of tests that are made at once, in the same order, each at most 1.

    Bonferroni multiplies each by their number m. Holm does so with the smallest only, the next by
    m - 1 and so on, never below the one before; it finds no less and holds the same bound on any
    false finding among them.
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
        p_value=p_value(differences),
    )


def _p_of_t(differences: list[float]) -> float:
    if len(differences) == 1 or not any(differences):
        return 1.0
    low, high = min(differences), max(differences)
    if math.isclose(low, high, rel_tol=1e-9):  # a spread that is nothing but rounding
        return 0.0
    with extra("evaluation"):
        from scipy.stats import ttest_1samp
    # The paired test is the test that the differences have mean 0.
    return float(ttest_1samp(differences, 0.0).pvalue)


def _p_of_signs(differences: list[float], rounds: int, seed: int) -> float:
    changed = np.array([difference for difference in differences if difference])
    number = len(changed)
    if not number:
        return 1.0
    total = float(changed.sum())
    needed = abs(total) - _ROUNDING * float(np.abs(changed).sum())
    exact = 2**number <= rounds
    generator = np.random.default_rng(seed)
    num_assignments = 2**number if exact else rounds
    rows_at_once = max(1, _SIGNS_AT_ONCE // number)
    count = 0
    for first in range(0, num_assignments, rows_at_once):
        rows = min(rows_at_once, num_assignments - first)
        if exact:
            assignments = np.arange(first, first + rows)
            kept = ((assignments[:, None] >> np.arange(number)) & 1).astype(np.uint8)
        else:
            random = generator.integers(0, 256, size=(rows, (number + 7) // 8), dtype=np.uint8)
            kept = np.unpackbits(random, axis=1, count=number)
        # The sum with signs: what keeps its sign once, less all that does not.
        count += int(np.count_nonzero(np.abs(2 * (kept @ changed) - total) >= needed))
    return count / num_assignments if exact else (count + 1) / (rounds + 1)
