"""Puts a query encoder of its own into an index directory that is not published yet."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from swiftlet.encoders import QUERY_ENCODER_FOLDER
from swiftlet.manifest import (
    FILE_NAME,
    Manifest,
    describe_files,
    read_manifest,
    write_manifest,
)


def put_query_encoder(encoder: Path, index: Path, details: Mapping[str, Any]) -> Manifest:
    """Copy an encoder directory into an index; searches use it unless another one is named.

    :param details: For the index's manifest.
    :raises ManifestError: When one of the two is no artefact of its kind.
    :raises OSError: When the file system refuses.
    """
    manifest = read_manifest(index, "index")
    files = [FILE_NAME, *read_manifest(encoder, "encoder").files]
    shutil.copytree(encoder, index / QUERY_ENCODER_FOLDER)
    described = describe_files(index, [f"{QUERY_ENCODER_FOLDER}/{name}" for name in files])
    manifest = replace(
        manifest,
        files={**manifest.files, **described},
        details={**manifest.details, **details},
    )
    write_manifest(index, manifest)
    return manifest
