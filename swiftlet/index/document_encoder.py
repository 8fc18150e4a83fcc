"""The document encoder that an index remembers in the details of its manifest."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swiftlet.encoders import DEFAULT_ENCODER, SHIPPED, find_shipped
from swiftlet.errors import ArtefactError
from swiftlet.manifest import read_manifest

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
