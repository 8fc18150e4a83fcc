from itertools import permutations

import numpy as np
import pytest
import torch
from scipy import stats

from training.objective.negatives.gumbel import _overtaking, gumbel_top_k

SCORES = np.array([2.0, -1.0, 0.5, 0.5, 1.5, -3.0])


def plackett_luce(scores: np.ndarray, count: int) -> dict[tuple[int, ...], float]:
    """The probability of each sequence that is drawn one by one without replacement."""
    weights = np.exp(scores)
    probabilities = {}
    for sequence in permutations(range(len(scores)), count):
        left, probability = weights.sum(), 1.0
        for item in sequence:
            probability *= weights[item] / left
            left -= weights[item]
        probabilities[sequence] = probability
    return probabilities


def draws(scores: np.ndarray, lines: int, count: int, blocks: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return gumbel_top_k(torch.tensor(np.tile(scores, (lines, 1))), count, random, blocks)


@pytest.mark.parametrize("count", [1, 3])
def test_sequences_follow_the_plackett_luce_model(count):
    expected = plackett_luce(SCORES, count)
    drawn = [tuple(line) for line in draws(SCORES, 20_000, count, 6).tolist()]
    observed = [drawn.count(sequence) for sequence in expected]
    assert sum(observed) == 20_000
    assert stats.chisquare(observed, 20_000 * np.array([*expected.values()])).pvalue > 0.01


@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0, 4.0])
def test_noise_for_the_best_columns_alone_draws_the_same_as_noise_for_all(spread):
    lines, size, count = 400, 2003, 4
    scores = spread * np.random.default_rng(1).normal(size=size)
    drawn = draws(scores, lines, count, blocks=1, seed=2)
    assert (np.diff(np.sort(drawn, axis=1)) > 0).all()
    # Compared in twenty groups of ascending scores with noise for all.
    groups = np.argsort(np.argsort(scores)) * 20 // size
    all_perturbed = draws(scores, 10 * lines, count, blocks=size, seed=3)
    for place in range(count):
        table = [
            np.bincount(groups[found[:, place]], minlength=20) for found in (drawn, all_perturbed)
        ]
        # The test is unreliable where a few draws are expected in a cell.
        filled = np.sum(table, axis=0) >= 55
        assert stats.chi2_contingency(np.array(table)[:, filled]).pvalue > 0.001
    if spread == 0:
        assert (drawn >= 0).all()
        assert stats.kstest(drawn.ravel() / size, "uniform").pvalue > 0.001


def test_scores_above_a_threshold_have_gumbel_noise_beyond_it():
    scores = torch.full((1, 20_000), 0.3)
    bounds, thresholds = np.array([1.0]), np.array([-1.0])
    # So low a threshold that most columns arrive several times.
    _, columns, keys = _overtaking(scores, bounds, thresholds, np.random.default_rng(0))
    assert len(np.unique(columns)) == len(columns)
    above = stats.gumbel_r.sf(-1.0, loc=0.3)
    assert stats.binomtest(len(columns), 20_000, above).pvalue > 0.01
    uniform = stats.gumbel_r.sf(keys, loc=0.3) / above
    assert stats.kstest(uniform, "uniform").pvalue > 0.01


def test_a_first_draw_from_many_columns_follows_the_softmax():
    scores = np.concatenate([np.full(900, -2.0), np.full(90, 0.0), np.full(10, 2.0)])
    drawn = draws(scores, 5000, 1, blocks=1)[:, 0]
    observed = np.histogram(drawn, [0, 900, 990, 1000])[0]
    weights = np.array([900 * np.exp(-2), 90, 10 * np.exp(2)])
    assert stats.chisquare(observed, 5000 * weights / weights.sum()).pvalue > 0.01


@pytest.mark.parametrize("perturbed", [1, 100])
def test_minus_infinity_is_never_drawn_and_missing_draws_are_marked(perturbed):
    scores = np.full(100, -np.inf)
    scores[[3, 50, 98]] = [0.0, -200.0, 200.0]
    drawn = draws(scores, 50, 5, perturbed)
    assert (drawn == [98, 3, 50, -1, -1]).all()
    assert (draws(np.full(100, -np.inf), 2, 5, perturbed) == -1).all()


@pytest.mark.parametrize("size", [0, 1, 3])
def test_fewer_columns_than_wanted_are_all_drawn(size):
    drawn = draws(np.zeros(size), 4, 3, 6)
    assert drawn.shape == (4, 3)
    assert (np.sort(drawn, axis=1)[:, 3 - size :] == np.arange(size)).all()
    assert ((drawn == -1).sum(axis=1) == 3 - size).all()


def test_scores_that_are_not_finite_do_not_stop_the_draw():
    assert draws(np.full(100, np.nan), 2, 3, 6).shape == (2, 3)
