import numpy as np
import torch

from tests.samplers import made
from training.data.positives import KnownPositives
from training.objective.negatives.sampler import (
    NO_ROW,
    MixedSampler,
    QueryBatch,
    without_repetition,
)
from training.objective.negatives.simple import InBatchSampler, UniformSampler

KNOWN = KnownPositives([[10], [11, 12], [12], [10]])
BATCH = QueryBatch(np.arange(4), np.array([10, 11, 12, 10]), torch.zeros(4, 1))


def test_in_batch_negatives_are_the_others_positives_where_irrelevant():
    expected = [
        [NO_ROW, 11, 12, NO_ROW],
        [10, NO_ROW, NO_ROW, NO_ROW],
        [10, 11, NO_ROW, NO_ROW],
        [NO_ROW, 11, 12, NO_ROW],
    ]
    assert made(InBatchSampler, KNOWN).draw(BATCH).tolist() == expected


def test_a_batch_of_one_has_no_in_batch_negatives():
    batch = QueryBatch(np.array([0]), np.array([10]), torch.zeros(1, 1))
    assert made(InBatchSampler, KNOWN).draw(batch).tolist() == [[NO_ROW]]


def test_a_repeated_row_stays_where_it_stands_first():
    rows = np.array([[5, NO_ROW, 5, 3, NO_ROW, 3, 5], [1, 2, 3, 4, 5, 6, 7]])
    expected = [[5, NO_ROW, NO_ROW, 3, NO_ROW, NO_ROW, NO_ROW], [1, 2, 3, 4, 5, 6, 7]]
    assert without_repetition(rows).tolist() == expected
    assert without_repetition(np.empty((2, 0), np.int64)).shape == (2, 0)


def test_a_mixture_has_the_rows_of_all_in_order():
    def uniform() -> UniformSampler:
        return made(UniformSampler, KNOWN, 13, settings={"per_query": 12}, seed=4)

    rows = MixedSampler([made(InBatchSampler, KNOWN), uniform()]).draw(BATCH)
    assert (rows[:, :4] == made(InBatchSampler, KNOWN).draw(BATCH)).all()
    alone = uniform().draw(BATCH)
    for line, own, in_batch in zip(rows[:, 4:], alone, rows[:, :4], strict=True):
        assert (line == np.where(np.isin(own, in_batch), NO_ROW, own)).all()
    assert (rows[:, 4:] != alone).any()
