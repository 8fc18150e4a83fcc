"""How much a service can do at most."""

from collections.abc import Callable

from loadtests.figures import Figures

MOST_CLIENTS = 128
GROWTH = 1.03
STEADY = 0.1
CHANGED = "the machine, or the service itself, became faster or slower"


def find_saturation(measure: Callable[[int], Figures]) -> tuple[int, dict[int, Figures]]:
    """With how many clients most is answered, and the figures of each number that was tried.

    The saturation rate is the highest rate of 200s of closed loops with 1, 2, 4, … clients. They
    are doubled until two doublings in a row bring less than 3% over the best rate so far, or there
    are 128.

    :param measure: The figures of a closed loop with so many clients.
    """
    steps: dict[int, Figures] = {}
    best, without_growth, clients = 0.0, 0, 1
    while clients <= MOST_CLIENTS and without_growth < 2:
        steps[clients] = measure(clients)
        rate = steps[clients].answered_rate
        without_growth = 0 if rate > GROWTH * best else without_growth + 1
        best, clients = max(best, rate), 2 * clients
    return max(steps, key=lambda clients: steps[clients].answered_rate), steps


def unsteadiness(before: float, after: float) -> list[str]:
    """Why a rate was not the share of what the service could do that it is said to be, if so.

    :param before: The saturation rate as it was right before, of which the rate is a share.
    :param after: The saturation rate as it was right after.
    """
    change = after / before - 1
    if abs(change) <= STEADY:
        return []
    was = f"{before:,.0f} a second right before and {after:,.0f} right after"
    return [f"the saturation rate was {was}: {CHANGED}"]
