"""When requests of many independent users come."""

import numpy as np
from numpy.typing import NDArray

Seconds = NDArray[np.float64]


def poisson_arrivals(rate: float, seconds: float, *, seed: int) -> Seconds:
    """Moments of a Poisson process of `rate` a second within `seconds`, ascending from 0, (n,).

    The gaps are exponential and independent; the same arguments give the same moments.
    """
    chance = np.random.default_rng(seed)
    # Six standard deviations more than are expected, so that the last one falls beyond the end.
    enough = int(rate * seconds + 6 * np.sqrt(rate * seconds) + 10)
    moments = np.cumsum(chance.exponential(1 / rate, enough))
    return moments[moments < seconds]
