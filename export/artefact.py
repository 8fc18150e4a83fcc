"""Writes the files of an exported model and their manifest."""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from swiftlet.manifest import Manifest, describe_files, write_manifest


def write_artefact(
    directory: Path,
    files: Mapping[str, bytes],
    *,
    kind: str,
    dim: int,
    embedding_space: str,
    details: Mapping[str, Any],
) -> Manifest:
    """Write `files` (name -> content) into an empty directory, and then its manifest.

    :raises StorageError: When the file system refuses.
    """
    for name, content in files.items():
        (directory / name).write_bytes(content)
    manifest = Manifest(
        kind=kind,
        dim=dim,
        embedding_space=embedding_space,
        files=describe_files(directory, [*files]),
        created_by=f"swiftlet {version('swiftlet-retrieval')}",
        details=details,
    )
    write_manifest(directory, manifest)
    return manifest
