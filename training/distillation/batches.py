"""Batches of texts of similar length, which have little padding."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from training.loop.lengths import computed_by_length
from training.model.towers import Tower

_BATCHES_SORTED_TOGETHER = 64
_COUNTED_TOGETHER = 1024
_ENCODED_TOGETHER = 64


def token_counts(tower: Tower, texts: Sequence[str]) -> NDArray[np.int64]:
    """The number of tokens that `tower` reads of each text, (n,).

    In batches of texts with similar numbers of characters, half of the tokens would be padding.
    """
    counts = np.empty(len(texts), dtype=np.int64)
    for start in range(0, len(texts), _COUNTED_TOGETHER):
        features = tower.tokenise(list(texts[start : start + _COUNTED_TOGETHER]))
        counts[start : start + _COUNTED_TOGETHER] = features["attention_mask"].sum(dim=1).numpy()
    return counts


def length_bucketed_batches(
    lengths: NDArray[np.int64], batch_size: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """The batches (steps, batch_size) of an epoch, in random order, as numbers of texts.

    The texts, with `lengths` (n,), are shuffled and divided into stretches of 64 batches. Each
    stretch is sorted by length. Texts that do not fill a batch are left out of this epoch.
    """
    steps = len(lengths) // batch_size
    order = random.permutation(len(lengths))[: steps * batch_size]
    stretch = _BATCHES_SORTED_TOGETHER * batch_size
    for start in range(0, len(order), stretch):
        part = order[start : start + stretch]
        order[start : start + stretch] = part[np.argsort(lengths[part], kind="stable")]
    batches = order.reshape(steps, batch_size)
    return batches[random.permutation(steps)]


@torch.inference_mode()
def encode_by_length(
    tower: Tower, model: torch.nn.Module, texts: Sequence[str], device: torch.device
) -> torch.Tensor:
    """Outputs (n, width) of `model` for `texts`, on the CPU, in the order of the texts.

    :param tower: Tokenises the texts.
    """

    def compute(batch: list[str]) -> torch.Tensor:
        found: torch.Tensor = model(tower.tokenise(batch, device)).float().cpu()
        return found

    return computed_by_length(texts, token_counts(tower, texts), _ENCODED_TOGETHER, compute)
