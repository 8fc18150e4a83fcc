"""The document encoder of an index, as its manifest remembers it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swiftlet.encoders import DEFAULT_ENCODER, SHIPPED, find_shipped
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.errors import ArtefactError
from swiftlet.manifest import read_manifest


class MissingEncoderError(ArtefactError):
    """An index was made of vectors, and no encoder is known."""


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
    :raises MissingEncoderError: When the index was made of vectors alone.
    :raises ArtefactError: When it is no longer there.
    """
    if not (details["encoder"] or details["encoder_fingerprint"] or PLACE in details):
        raise MissingEncoderError(
            "the index was made of vectors without an encoder, so no text of a document can be "
            'encoded: give each document its vector in the field "embedding", or adopt the vectors '
            "with --encoder, the encoder that made them"
        )
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
