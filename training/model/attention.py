"""The attention that trains fastest on CPUs."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

# Up to this many tokens, training with fused attention is slower on CPUs than without. The backward
# pass of the fused kernel is slow in bf16: see docs/decisions/training.md.
_SHORT = {torch.float32: 64, torch.bfloat16: 256}


def fastest_attention(input_ids: Tensor) -> AbstractContextManager[None]:
    """Choose the kernel for texts of this length, (n, tokens), and the precision of the run."""
    if input_ids.device.type == "cpu" and torch.is_grad_enabled():
        lowered = torch.is_autocast_enabled("cpu")
        precision = torch.get_autocast_dtype("cpu") if lowered else torch.float32
        if input_ids.shape[1] <= _SHORT.get(precision, 0):
            return sdpa_kernel(SDPBackend.MATH)
    return nullcontext()
