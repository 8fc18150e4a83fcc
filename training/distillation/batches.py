"""Batches of equally long texts, so that little of a batch is padding."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from training.encoders import Tower

_BATCHES_SORTED_TOGETHER = 64
_COUNTED_TOGETHER = 1024


def token_counts(tower: Tower, texts: Sequence[str]) -> NDArray[np.int64]:
    """How many tokens `tower` reads of each text, (n,).

    Characters would not do: batches of as many are half padding.
    """
    counts = np.empty(len(texts), dtype=np.int64)
    for start in range(0, len(texts), _COUNTED_TOGETHER):
        features = tower.tokenise(list(texts[start : start + _COUNTED_TOGETHER]))
        counts[start : start + _COUNTED_TOGETHER] = features["attention_mask"].sum(dim=1).numpy()
    return counts


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
