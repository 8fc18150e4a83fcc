"""The encoders of an index: of its documents, as its manifest remembers it, and of queries."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from swiftlet.address import Address
from swiftlet.encoders import (
    DEFAULT_ENCODER,
    DEFAULT_QUERY_ENCODER,
    DOCUMENT_ENCODER_FOLDER,
    QUERY_ENCODER_FOLDER,
    SHIPPED,
    find_shipped,
)
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.errors import ArtefactError
from swiftlet.index.server import server_at
from swiftlet.manifest import FILE_NAME, Manifest, describe_files, read_manifest, write_manifest

PLACE = "encoder_place"
"""The detail with the directory of an encoder that does not ship."""


def with_place(details: Mapping[str, Any], encoder: Path) -> dict[str, Any]:
    """The details of an index's manifest, with the place of its encoder unless that one ships."""
    others = {name: value for name, value in details.items() if name != PLACE}
    found = find_shipped(encoder).resolve()
    return others if found.parent == SHIPPED else {**others, PLACE: f"{found}"}


def document_encoder_of(details: Mapping[str, Any]) -> Path:
    """The document encoder of an index: where it was at the build, or else one that ships.

    :param details: Those of the index's manifest.
    :raises ArtefactError: When it is no longer there.
    """
    if PLACE not in details:
        wanted = details["encoder_fingerprint"]
        shipped = sorted(each.parent for each in SHIPPED.glob("*/manifest.json"))
        found = (each for each in shipped if read_manifest(each).fingerprint == wanted)
        return next(found, DEFAULT_ENCODER)
    place = Path(details[PLACE])
    # Unlike Path.is_dir, it is False where a directory may not be read.
    if not os.path.isdir(place):  # noqa: PTH112
        raise ArtefactError(
            f"the index was built by the encoder {details['encoder']!r} "
            f"({details['encoder_fingerprint'][:12]}), which is no longer in {place}: name it with "
            "--encoder (in the service by SWIFTLET_ENCODER and SWIFTLET_DOCUMENT_ENCODER)"
        )
    return place


def load_document_encoder(
    details: Mapping[str, Any], directory: Path | None = None, *, made: str = "the index was built"
) -> OnnxEncoder:
    """The document encoder that passages were encoded by.

    :param details: Of the manifest of an index, or of the corpus.
    :param directory: The encoder; None takes the one that the details name.
    :param made: How a message calls the encoding.
    :raises ArtefactError: When the encoder is damaged, is not there, or is another one.
    """
    directory = directory or document_encoder_of(details)
    encoder = OnnxEncoder.load(directory, precision=details["precision"], role="passage")
    if encoder.manifest.fingerprint != details["encoder_fingerprint"]:
        raise ArtefactError(
            f"{made} by the encoder {details['encoder']!r} "
            f"({details['encoder_fingerprint'][:12]}), but {directory} is "
            f"{encoder.manifest.details.get('name', '')!r} "
            f"({encoder.manifest.fingerprint[:12]}): name that encoder, or encode again"
        )
    return encoder


def query_encoder_of(index: Path | Address) -> Path:
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
    details = read_manifest(documents, "encoder").details
    if details.get("role") == "passage":
        raise ArtefactError(
            f"the index was built by the encoder {details['name']!r}, which reads no queries: name "
            "the query encoder of its pair with --encoder (in the service by SWIFTLET_ENCODER)"
        )
    return documents


def put_query_encoder(encoder: Path, index: Path, details: Mapping[str, Any]) -> Manifest:
    """Copy an encoder directory into an index; searches use it unless another one is named.

    The index is not published yet.

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
