"""The device of a run, and the errors when its memory is full."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState

from swiftlet.errors import InvalidArgumentError
from training.errors import RecipeError, TrainingStoppedError
from training.loop.checkpoints import last_checkpoint
from training.tables import FloatingPoint

_NO_MEMORY = re.compile("out of memory|allocate memory|STATUS_ALLOC_FAILED|bad_alloc")


def make_accelerator(precision: FloatingPoint) -> Accelerator:
    """The accelerator for this precision and the device of the run.

    :raises RecipeError: When fp16 has no GPU.
    :raises InvalidArgumentError: When torchrun started several processes.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InvalidArgumentError("a training runs in one process, not under torchrun")
    if precision == "fp16" and not torch.cuda.is_available():
        raise RecipeError("precision fp16 needs a GPU: use bf16 or fp32 on this machine")
    mixed_precision = "no" if precision == "fp32" else precision
    AcceleratorState._reset_state()  # noqa: SLF001 - it has the precision of the previous run
    return Accelerator(mixed_precision=mixed_precision)


@contextmanager
def memory_errors(advice: str, out: Path) -> Iterator[None]:
    """Catch out-of-memory errors on any device.

    :param advice: The settings to lower, as the part of a sentence after a colon.
    :raises TrainingStoppedError: When memory runs out.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:  # torch raises RuntimeError on every device
        if isinstance(error, RuntimeError) and not _NO_MEMORY.search(str(error)):
            raise
        raise TrainingStoppedError(f"memory ran out: {advice}{last_checkpoint(out)}") from error
