"""Nested state in two files without pickle: tensors in safetensors, the rest in JSON."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from swiftlet.errors import StorageError
from swiftlet.publication import storage_errors

TENSORS = "state.safetensors"
STRUCTURE = "state.json"
FILES = (TENSORS, STRUCTURE)

_TENSOR, _ARRAY, _PAIRS = "__tensor__", "__array__", "__pairs__"


def write_state(directory: Path, state: Mapping[str, Any]) -> None:
    """Write nested dictionaries and lists of numbers, strings, None, arrays and tensors.

    :raises TypeError: When `state` has a value of another type.
    """
    tensors: dict[str, torch.Tensor] = {}
    structure = _flatten(state, tensors)
    save_file(tensors, directory / TENSORS)
    (directory / STRUCTURE).write_text(json.dumps(structure), "utf-8")


def read_state(directory: Path) -> dict[str, Any]:
    """Read a state that `write_state` wrote. Tensors are on the CPU."""
    tensors = load_file(directory / TENSORS)
    structure = json.loads((directory / STRUCTURE).read_text("utf-8"))
    state: dict[str, Any] = _restore(structure, tensors)
    return state


@contextmanager
def weight_errors(place: Path) -> Iterator[None]:
    """Like `storage_errors`, but also for the errors of the safetensors library."""
    with storage_errors(place):
        try:
            yield
        except SafetensorError as error:
            raise StorageError(f"cannot write {place}: {error}") from error


def _flatten(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor | np.ndarray):
        kind = _TENSOR if isinstance(value, torch.Tensor) else _ARRAY
        name = str(len(tensors))
        # A copy, since safetensors refuses tensors that share their memory.
        tensors[name] = torch.as_tensor(value).detach().cpu().clone().contiguous()
        return {kind: name}
    if isinstance(value, Mapping):
        # As pairs, since JSON would turn the optimiser's integer keys into strings.
        return {_PAIRS: [[key, _flatten(item, tensors)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return [_flatten(item, tensors) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be kept in a checkpoint")


def _restore(value: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    if isinstance(value, list):
        return [_restore(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if _TENSOR in value:
        return tensors[value[_TENSOR]]
    if _ARRAY in value:
        return tensors[value[_ARRAY]].numpy()
    return {key: _restore(item, tensors) for key, item in value[_PAIRS]}
