"""The document encoder of an index, as its manifest remembers it."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from swiftlet.encoders import DEFAULT_ENCODER, SHIPPED, find_shipped
from swiftlet.encoders.encoder import ModelEncoder
from swiftlet.encoders.function import SAME_COSINE, FunctionEncoder
from swiftlet.encoders.opening import EncoderFunction, Place, open_encoder, remembered_place
from swiftlet.errors import ArtefactError
from swiftlet.manifest import read_manifest


class MissingEncoderError(ArtefactError):
    """An index was made of vectors, and no encoder is known."""


PLACE = "encoder_place"
"""The detail with the directory, the function or the address of an encoder that does not ship."""

WEIGHT = "encoder_weight"
"""The detail with the default weight of an encoder in hybrid searches, if it has one of its own."""


def with_place(details: Mapping[str, Any], encoder: Place) -> dict[str, Any]:
    """The details of an index's manifest, with the place of its encoder unless that one ships."""
    others = {name: value for name, value in details.items() if name != PLACE}
    found = find_shipped(encoder).resolve() if isinstance(encoder, Path) else encoder
    is_shipped = isinstance(found, Path) and found.parent == SHIPPED
    return others if is_shipped else {**others, PLACE: f"{found}"}


def document_encoder_of(details: Mapping[str, Any]) -> Place:
    """The document encoder of an index: where it was at the build, or else one that ships.

    :param details: Those of the index's manifest.
    :raises MissingEncoderError: When the index was made of vectors alone.
    :raises ArtefactError: When it is no longer there, or a function: an index may come from others,
        and runs no code of theirs.
    """
    if not (details["encoder"] or details["encoder_fingerprint"] or PLACE in details):
        raise MissingEncoderError(
            "the index was made of vectors without an encoder, so no text of a document can be "
            'encoded: give each document its vector in the field "embedding", or name the encoder '
            "that made them with --encoder (in the service by SWIFTLET_DOCUMENT_ENCODER)"
        )
    if PLACE not in details:
        wanted = details["encoder_fingerprint"]
        shipped = sorted(each.parent for each in SHIPPED.glob("*/manifest.json"))
        found = (each for each in shipped if read_manifest(each).fingerprint == wanted)
        return next(found, DEFAULT_ENCODER)
    place = remembered_place(details[PLACE])
    if isinstance(place, EncoderFunction):
        raise ArtefactError(
            f"the index was built by the function {place}, which only runs when you name it: "
            f"--encoder {place} (in the service SWIFTLET_ENCODER and SWIFTLET_DOCUMENT_ENCODER, in "
            "Python encoder=)"
        )
    if not isinstance(place, Path):
        return place
    # Unlike Path.is_dir, it is False where a directory may not be read.
    if not os.path.isdir(place):  # noqa: PTH112
        raise ArtefactError(
            f"the index was built by the encoder {details['encoder']!r} "
            f"({details['encoder_fingerprint'][:12]}), which is no longer in {place}: name it with "
            "--encoder (in the service by SWIFTLET_ENCODER and SWIFTLET_DOCUMENT_ENCODER)"
        )
    return place


def load_document_encoder(
    details: Mapping[str, Any],
    place: Place | None = None,
    *,
    made: str = "the index was built",
    trial: Callable[[ModelEncoder], ModelEncoder] | None = None,
) -> ModelEncoder:
    """The document encoder that passages were encoded by.

    :param details: Of the manifest of an index, or of the corpus.
    :param place: The encoder; None takes the one that the details name.
    :param made: How a message calls the encoding.
    :param trial: Accepts or refuses the encoder of an index that was made of vectors alone.
    :raises ArtefactError: When the encoder is damaged, is not there, or is another one.
    """
    place = place or document_encoder_of(details)
    is_directory = isinstance(place, Path)
    precision = details["precision"] if is_directory else None
    encoder = open_encoder(place, "passage", precision=precision)
    if trial is not None and not details["encoder_fingerprint"]:
        return trial(encoder).reading("passage")
    cosines = None
    if isinstance(encoder, FunctionEncoder):
        encoder, cosines = encoder.known_as(details), encoder.cosines(details)
    if encoder.manifest.fingerprint != details["encoder_fingerprint"]:
        name = encoder.manifest.details.get("name", "")
        found = f" is {name!r} ({encoder.manifest.fingerprint[:12]})"
        if cosines is not None:
            found = (
                f" gives other embeddings now: the cosines of {len(cosines)} texts with those of "
                f"then are {cosines.mean():.4f} on average and {cosines.min():.4f} at least, but "
                f"{SAME_COSINE} is expected"
            )
        raise ArtefactError(
            f"{made} by the encoder {details['encoder']!r} "
            f"({details['encoder_fingerprint'][:12]}), but {place}{found}: name that encoder, or "
            "encode again"
        )
    return encoder
