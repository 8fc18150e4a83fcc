"""Checkpoints appear whole or not at all, and are verified when a run goes on from one."""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from retrieval.manifest import Manifest, describe_files, load_manifest, write_manifest
from retrieval.publication import published
from training.state_files import FILES, read_state, weight_errors, write_state

KIND = "checkpoint"


def write_checkpoint(directory: Path, state: Mapping[str, Any], *, dim: int) -> None:
    """Put a checkpoint in the place of the one before.

    :raises StorageError: When the file system refuses; the one before is then as it was.
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
