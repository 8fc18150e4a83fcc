"""The query encoder of an index."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from swiftlet import disk
from swiftlet.address import Address
from swiftlet.encoders import DEFAULT_QUERY_ENCODER, DOCUMENT_ENCODER_FOLDER, QUERY_ENCODER_FOLDER
from swiftlet.encoders.opening import Place
from swiftlet.errors import ArtefactError
from swiftlet.index.document_encoder import PLACE, MissingEncoderError, document_encoder_of
from swiftlet.index.server import server_at
from swiftlet.manifest import FILE_NAME, Manifest, describe_files, read_manifest, write_manifest


def query_encoder_of(index: Path | Address) -> Place:
    """The query encoder of an index.

    It is the first that there is: the index's own query encoder; the query encoder of the pair of
    the document encoder; the shipped one, if it is of the index's space; the document encoder.

    :raises RetrievalError: When the index is bad, or its encoder is not there or reads no queries.
    """
    if isinstance(index, Path):
        own = index / QUERY_ENCODER_FOLDER
        # Unlike Path.is_dir, it is False where a directory may not be read; opening it says so.
        if os.path.isdir(own):  # noqa: PTH112
            return own
        manifest = read_manifest(index, "index")
    else:
        manifest = server_at(index).manifest(index)
    place = Path(manifest.details.get(PLACE, ""))
    beside = place.parent / QUERY_ENCODER_FOLDER
    if place.name == DOCUMENT_ENCODER_FOLDER and os.path.isdir(beside):  # noqa: PTH112
        return beside
    if manifest.embedding_space == read_manifest(DEFAULT_QUERY_ENCODER).embedding_space:
        return DEFAULT_QUERY_ENCODER
    documents = document_encoder_of(manifest.details)
    if not isinstance(documents, Path):
        return documents
    details = read_manifest(documents, "encoder").details
    if details.get("role") == "passage":
        raise ArtefactError(
            f"the index was built by the encoder {details['name']!r}, which reads no queries: name "
            "the query encoder of its pair with --encoder (in the service by SWIFTLET_ENCODER)"
        )
    return documents


def query_encoder_if_any(index: Path | Address) -> Place | None:
    """The query encoder of an index; None if it was made of vectors alone."""
    try:
        return query_encoder_of(index)
    except MissingEncoderError:
        return None


def put_query_encoder(encoder: Path, index: Path, details: Mapping[str, Any]) -> Manifest:
    """Copy an encoder directory into an index; searches use it unless another one is named.

    The index is not published yet.

    :param details: For the index's manifest.
    :raises ManifestError: When one of the two is no artefact of its kind.
    :raises OSError: When the file system refuses.
    """
    manifest = read_manifest(index, "index")
    files = [FILE_NAME, *read_manifest(encoder, "encoder").files]
    disk.copy_tree(encoder, index / QUERY_ENCODER_FOLDER)
    described = describe_files(index, [f"{QUERY_ENCODER_FOLDER}/{name}" for name in files])
    manifest = replace(
        manifest,
        files={**manifest.files, **described},
        details={**manifest.details, **details},
    )
    write_manifest(index, manifest)
    return manifest
