"""Batches of texts of similar length."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike


def computed_by_length(
    texts: Sequence[str],
    lengths: ArrayLike,
    batch_size: int,
    compute: Callable[[list[str]], torch.Tensor],
) -> torch.Tensor:
    """Outputs (n, width) for n texts, by `compute` for texts of similar length, so little padding.

    :param lengths: The length of each text, (n,).
    """
    order = np.argsort(lengths, kind="stable")
    batches = (order[start : start + batch_size] for start in range(0, len(order), batch_size))
    outputs = torch.cat([compute([texts[number] for number in batch]) for batch in batches])
    return outputs[torch.from_numpy(np.argsort(order)).to(outputs.device)]
