"""Batches of equally long texts, so that little of a batch is padding."""

import numpy as np
from numpy.typing import NDArray

_BATCHES_SORTED_TOGETHER = 64


def length_bucketed_batches(
    lengths: NDArray[np.int64], batch_size: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """Numbers (steps, batch_size) of texts with these `lengths` (n,): one epoch, in random order.

    Texts are sorted by length within stretches of 64 batches, each drawn at random. The few that
    do not fill a batch are left out of this epoch.
    """
    steps = len(lengths) // batch_size
    order = random.permutation(len(lengths))[: steps * batch_size]
    stretch = _BATCHES_SORTED_TOGETHER * batch_size
    for start in range(0, len(order), stretch):
        part = order[start : start + stretch]
        order[start : start + stretch] = part[np.argsort(lengths[part], kind="stable")]
    batches = order.reshape(steps, batch_size)
    return batches[random.permutation(steps)]
