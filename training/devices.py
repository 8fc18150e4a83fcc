"""The processes and devices that a run has."""

import torch
from accelerate import Accelerator, PartialState
from accelerate.state import AcceleratorState
from accelerate.utils import parse_flag_from_env

from training.errors import RecipeError
from training.recipe import FloatingPoint


def processes() -> PartialState:
    """All processes of this run, as torchrun started them, and which of them this is."""
    # Without being told that no GPU is wanted, accelerate sees one process alone on CPUs.
    on_cpu = not torch.accelerator.is_available() or parse_flag_from_env("ACCELERATE_USE_CPU")
    return PartialState(cpu=on_cpu)


def is_main_process() -> bool:
    """Whether this process is the one that writes and prints."""
    return bool(processes().is_main_process)


def make_accelerator(precision: FloatingPoint, batch_size: int) -> Accelerator:
    """The devices and processes of a run, and the precision it computes in.

    :raises RecipeError: When they do not suit it.
    """
    if precision == "fp16" and not torch.cuda.is_available():
        raise RecipeError("precision fp16 needs a GPU: use bf16 or fp32 on this machine")
    mixed_precision = "no" if precision == "fp32" else precision
    on_cpu = processes().device.type == "cpu"
    AcceleratorState._reset_state()  # noqa: SLF001 - keeps the precision of the run before
    accelerator = Accelerator(cpu=on_cpu, mixed_precision=mixed_precision)
    if batch_size < accelerator.num_processes:
        raise RecipeError(
            f"the batch size is {batch_size}, fewer than the {accelerator.num_processes} processes"
        )
    return accelerator
