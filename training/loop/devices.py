"""The processes and devices of a run, and the errors when their memory is full."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from accelerate import Accelerator, PartialState
from accelerate.state import AcceleratorState
from accelerate.utils import parse_flag_from_env

from swiftlet.errors import InvalidArgumentError
from training.errors import RecipeError, TrainingStoppedError
from training.loop.checkpoints import last_checkpoint
from training.tables import FloatingPoint

_NO_MEMORY = re.compile("out of memory|allocate memory|STATUS_ALLOC_FAILED|bad_alloc")


def processes() -> PartialState:
    """The state of all processes of this run, which torchrun started."""
    # Without `cpu`, accelerate would see a single process on a machine without a GPU.
    on_cpu = not torch.accelerator.is_available() or parse_flag_from_env("ACCELERATE_USE_CPU")
    return PartialState(cpu=on_cpu)


def is_main_process() -> bool:
    """Whether this is the process that writes files and prints."""
    return bool(processes().is_main_process)


def check_single_process(what: str) -> None:
    """Refuse to run in one of several processes, before they form a group.

    A process that left a group which still forms would fail the other processes.

    :param what: What runs in one process, as the start of a sentence.
    :raises InvalidArgumentError: When torchrun started several.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InvalidArgumentError(f"{what} in one process, not under torchrun")


def make_accelerator(precision: FloatingPoint, batch_size: int) -> Accelerator:
    """The accelerator for this precision and the devices and processes of the run.

    :raises RecipeError: When fp16 has no GPU, or the batch is smaller than the number of processes.
    """
    if precision == "fp16" and not torch.cuda.is_available():
        raise RecipeError("precision fp16 needs a GPU: use bf16 or fp32 on this machine")
    mixed_precision = "no" if precision == "fp32" else precision
    on_cpu = processes().device.type == "cpu"
    AcceleratorState._reset_state()  # noqa: SLF001 - it has the precision of the previous run
    accelerator = Accelerator(cpu=on_cpu, mixed_precision=mixed_precision)
    if batch_size < accelerator.num_processes:
        raise RecipeError(
            f"the batch size is {batch_size}, fewer than the {accelerator.num_processes} processes"
        )
    return accelerator


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
