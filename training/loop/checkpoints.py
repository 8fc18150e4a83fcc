"""Checkpoints: nested state without pickle, written completely or not at all, verified when read.

Tensors are in safetensors, the rest in JSON.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from swiftlet import disk
from swiftlet.errors import StorageError
from swiftlet.manifest import Manifest, describe_files, load_manifest, write_manifest
from swiftlet.publication import published

KIND = "checkpoint"
CHECKPOINT, BEST, STAGES = "checkpoint", "best", "stages"

_TENSORS, _STRUCTURE = "state.safetensors", "state.json"
_TENSOR, _ARRAY, _PAIRS = "__tensor__", "__array__", "__pairs__"


def write_checkpoint(directory: Path, state: Mapping[str, Any], *, dim: int) -> None:
    """Write nested dictionaries and lists of numbers, strings, None, arrays and tensors.

    A previous checkpoint in `directory` is replaced.

    :raises StorageError: When the file system refuses. The previous checkpoint is then unchanged.
    :raises TypeError: When `state` has a value of another type.
    """
    with published(directory, overwrite=True) as partial, weight_errors(directory):
        tensors: dict[str, torch.Tensor] = {}
        structure = _flatten(state, tensors)
        save_file(tensors, partial / _TENSORS)
        disk.write(partial / _STRUCTURE, json.dumps(structure))
        manifest = Manifest(
            kind=KIND,
            dim=dim,
            embedding_space="",
            files=describe_files(partial, (_TENSORS, _STRUCTURE)),
            created_by=f"swiftlet {version('swiftlet-retrieval')}",
        )
        write_manifest(partial, manifest)


def read_checkpoint(directory: Path) -> dict[str, Any]:
    """Read a checkpoint and verify it. Tensors are on the CPU.

    :raises ManifestError: When there is none.
    :raises CorruptArtefactError: When a file was altered.
    """
    load_manifest(directory, KIND)
    structure = json.loads((directory / _STRUCTURE).read_text("utf-8"))
    state: dict[str, Any] = _restore(structure, load_file(directory / _TENSORS))
    return state


def last_checkpoint(directory: Path) -> str:
    """The last checkpoint of the run in `directory`, as the end of an error message."""
    place = directory / CHECKPOINT
    return f"; the last checkpoint is {place}" if place.is_dir() else "; there is no checkpoint yet"


@contextmanager
def weight_errors(place: Path) -> Iterator[None]:
    """Like `storage_errors`, but also for the errors of the libraries that write weights."""
    with disk.storage_errors(place):
        try:
            yield
        except Exception as error:
            # The library of tokenizers raises the class itself.
            if not isinstance(error, SafetensorError) and type(error) is not Exception:
                raise
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
