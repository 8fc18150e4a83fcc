"""Writes checkpoints completely or not at all, and verifies them when they are read."""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from swiftlet.manifest import Manifest, describe_files, load_manifest, write_manifest
from swiftlet.publication import published
from training.loop.state_files import FILES, read_state, weight_errors, write_state

KIND = "checkpoint"
CHECKPOINT, BEST, STAGES = "checkpoint", "best", "stages"


def write_checkpoint(directory: Path, state: Mapping[str, Any], *, dim: int) -> None:
    """Write a checkpoint and replace the previous one.

    :raises StorageError: When the file system refuses. The previous checkpoint is then unchanged.
    """
    with published(directory, overwrite=True) as partial, weight_errors(directory):
        write_state(partial, state)
        manifest = Manifest(
            kind=KIND,
            dim=dim,
            embedding_space="",
            files=describe_files(partial, FILES),
            created_by=f"swiftlet {version('swiftlet-retrieval')}",
        )
        write_manifest(partial, manifest)


def read_checkpoint(directory: Path) -> dict[str, Any]:
    """Read a checkpoint and verify it.

    :raises ManifestError: When there is none.
    :raises CorruptArtefactError: When a file was altered.
    """
    load_manifest(directory, KIND)
    return read_state(directory)


def last_checkpoint(directory: Path) -> str:
    """The last checkpoint of the run in `directory`, as the end of an error message."""
    place = directory / CHECKPOINT
    return f"; the last checkpoint is {place}" if place.is_dir() else "; there is no checkpoint yet"
