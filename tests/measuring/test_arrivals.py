import numpy as np
import pytest

from measuring.loads import poisson_arrivals


@pytest.mark.parametrize("rate", [20.0, 1_000.0])
def test_the_rate_is_the_one_that_was_asked_for(rate: float) -> None:
    counts = [len(poisson_arrivals(rate, 20.0, seed=seed)) for seed in range(50)]
    expected = 20.0 * rate
    # The mean of fifty Poisson numbers, within four of its standard deviations.
    assert abs(np.mean(counts) - expected) < 4 * np.sqrt(expected / 50)
    # Their variance is their mean, which it is not for requests at even or at jittered moments.
    assert 0.5 < np.var(counts) / expected < 1.7


def test_the_gaps_are_exponential_and_independent() -> None:
    gaps = np.diff(poisson_arrivals(500.0, 200.0, seed=1))
    assert np.mean(gaps) == pytest.approx(1 / 500, rel=0.02)
    assert np.std(gaps) == pytest.approx(1 / 500, rel=0.02)
    assert np.median(gaps) == pytest.approx(np.log(2) / 500, rel=0.02)
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 0.02


def test_all_moments_lie_within_the_time_and_ascend() -> None:
    moments = poisson_arrivals(300.0, 5.0, seed=3)
    assert moments[0] >= 0
    assert moments[-1] < 5.0
    assert (np.diff(moments) > 0).all()


def test_the_same_seed_gives_the_same_moments_and_another_one_others() -> None:
    assert (poisson_arrivals(50.0, 4.0, seed=7) == poisson_arrivals(50.0, 4.0, seed=7)).all()
    assert poisson_arrivals(50.0, 4.0, seed=7)[0] != poisson_arrivals(50.0, 4.0, seed=8)[0]


def test_a_rate_of_less_than_one_in_the_time_may_give_none() -> None:
    assert any(len(poisson_arrivals(0.1, 1.0, seed=seed)) == 0 for seed in range(10))
