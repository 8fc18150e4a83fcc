"""The share of each process in the texts of a batch, and the outputs of all processes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import ArrayLike


@dataclass(frozen=True, slots=True)
class DetachedEmbeddings:
    """Embeddings (n, width) of a batch, without the graph of the model.

    After the backward pass of the loss, call `backward`. `carry` carries their gradient (n, width)
    into the model.
    """

    embeddings: torch.Tensor
    carry: Callable[[torch.Tensor], object]

    def backward(self) -> None:
        """Carry the gradient into the model, if a loss gave one."""
        if self.embeddings.grad is not None:
            self.carry(self.embeddings.grad)


class Shares:
    """Each process computes the outputs for its share of a batch and receives all outputs."""

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator

    def of(self, total: int) -> slice:
        """The texts, of `total`, that this process has."""
        each = math.ceil(total / self._accelerator.num_processes)
        first = min(total, each * self._accelerator.process_index)
        return slice(first, min(total, first + each))

    def computed(
        self, texts: Sequence[str], width: int, compute: Callable[[list[str]], torch.Tensor]
    ) -> torch.Tensor:
        """Outputs (n, width) for n texts, each by `compute` in one process.

        They are on the device of what `compute` gives.
        """
        own = list(texts[self.of(len(texts))])
        return self.gathered(compute(own) if own else torch.empty(0, width), len(texts))

    def gathered(self, own: torch.Tensor, total: int) -> torch.Tensor:
        """The outputs (total, width) of all processes; `own` (n, width) are this process's."""
        if self._accelerator.num_processes == 1:
            return own
        each = math.ceil(total / self._accelerator.num_processes)
        padded = torch.zeros(each, own.shape[1], dtype=own.dtype, device=self._accelerator.device)
        padded[: len(own)] = own
        gathered: torch.Tensor = self._accelerator.gather(padded)
        return gathered[:total].to(own.device)

    def detached(
        self,
        own: torch.Tensor,
        total: int,
        backward: Callable[[torch.Tensor], object] | None = None,
    ) -> DetachedEmbeddings:
        """The outputs (total, width) of all processes, for a loss that each process computes whole.

        :param backward: Carries the gradient of `own` (n, width) into the model, by default through
            the graph of `own`.
        """
        share, carry = self.of(total), backward or partial(backward_through, own)
        embeddings = self.gathered(own.detach(), total).requires_grad_()
        return DetachedEmbeddings(embeddings, lambda gradient: carry(gradient[share]))


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


def backward_through(outputs: torch.Tensor, gradient: torch.Tensor) -> None:
    """Carry the gradient of `outputs` into the model, unless all of it is frozen."""
    if outputs.requires_grad:
        torch.autograd.backward(outputs, gradient)
