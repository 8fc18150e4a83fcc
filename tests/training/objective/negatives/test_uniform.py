import numpy as np
import pytest
import torch
from scipy import stats

from tests.samplers import made
from training.data.positives import KnownPositives
from training.objective.negatives.sampler import QueryBatch
from training.objective.negatives.simple import UniformSampler


def batch(queries: list[int]) -> QueryBatch:
    return QueryBatch(np.array(queries), np.zeros(len(queries), np.int64), torch.zeros(1, 1))


@pytest.mark.parametrize("positives", [[], [0], [19], [0, 1, 2, 7, 18, 19]])
def test_every_non_positive_is_equally_likely(positives):
    known = KnownPositives([positives])
    sampler = made(UniformSampler, known, 20, settings={"per_query": 5}, seed=1)
    counts = np.bincount(sampler.draw(batch([0] * 4000)).ravel(), minlength=20)
    assert (counts[positives] == 0).all()
    others = np.delete(counts, positives)
    # Without replacement, counts vary less than a multinomial's, by this factor.
    shrink = (len(others) - 5) / (len(others) - 1)
    statistic = stats.chisquare(others).statistic / shrink
    assert stats.chi2.sf(statistic, len(others) - 1) > 0.01
    assert stats.chi2.cdf(statistic, len(others) - 1) > 0.001


def test_a_draw_does_not_depend_on_how_many_passages_there_are():
    known = KnownPositives([[3, 10**12]])
    sampler = made(UniformSampler, known, 10**13, settings={"per_query": 64}, seed=1)
    rows = sampler.draw(batch([0]))
    assert len(np.unique(rows)) == 64
    assert rows.max() > 10**12
