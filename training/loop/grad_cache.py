"""Gradient caching: batches with gradient that are larger than memory allows at once.

Gao et al., "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup", 2021.
"""

from collections.abc import Callable, Sequence

import torch

from training.loop.shares import backward_through
from training.model.dual_encoder import Features


class GradCache:
    """Encodes micro-batches without a graph, and again when the gradient of the loss is known."""

    def __init__(self, encode: Callable[[Features], torch.Tensor], batches: Sequence[Features]):
        """Encode at least one micro-batch with `encode`, without a graph."""
        self._encode, self._batches = encode, batches
        self._device = batches[0]["input_ids"].device
        self._states: list[list[torch.Tensor]] = []
        pieces = []
        with torch.no_grad():
            for features in batches:
                self._states.append(_random_state(self._device))
                pieces.append(encode(features))
        self.embeddings = torch.cat(pieces)
        """Embeddings (n, width) of all micro-batches, without gradient."""

    def backward(self, gradient: torch.Tensor) -> None:
        """Carry the gradient (n, width) of the embeddings into the encoder."""
        after = _random_state(self._device)
        parts = torch.split(gradient, [len(each["input_ids"]) for each in self._batches])
        for features, state, part in zip(self._batches, self._states, parts, strict=True):
            # Dropout must be the same as in the first pass.
            _restore_random_state(self._device, state)
            backward_through(self._encode(features), part)
        _restore_random_state(self._device, after)


def _random_state(device: torch.device) -> list[torch.Tensor]:
    state = [torch.get_rng_state()]
    return [*state, torch.cuda.get_rng_state(device)] if device.type == "cuda" else state


def _restore_random_state(device: torch.device, state: list[torch.Tensor]) -> None:
    torch.set_rng_state(state[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state[1], device)
