"""The index engines by name, and the details of an index in its manifest."""

from collections.abc import Mapping
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swiftlet.errors import CorruptIndexError, InvalidArgumentError, ManifestError, shown

if TYPE_CHECKING:  # NumPy is not loaded for a list of names
    from swiftlet.index.vectors.vector_index import Engine, VectorIndex

DEFAULT_ENGINE = "faiss"

ENGINES: dict[str, str] = {
    "faiss": "swiftlet.index.vectors.faiss_index:FaissIndex",
}
"""The class of each engine, which is imported when the engine is used."""


def find_engine(name: str = DEFAULT_ENGINE) -> "type[Engine]":
    """The engine of this name.

    :raises InvalidArgumentError: When there is none.
    """
    if not isinstance(name, str) or name not in ENGINES:
        raise InvalidArgumentError(
            f"there is no index engine {shown(name)}; there are {', '.join(ENGINES)}"
        )
    module, class_name = ENGINES[name].split(":")
    engine: type[Engine] = getattr(import_module(module), class_name)
    return engine


def of_vectors(index: "VectorIndex", vectors: int) -> "VectorIndex":
    """An index of passages with this number of vectors each, which are rows of `index`."""
    from swiftlet.index.vectors.multi_vector import MultiVectorIndex

    return index if vectors == 1 else MultiVectorIndex(index, vectors)


def index_details(engine: str, factory: str, index: "VectorIndex") -> dict[str, Any]:
    """The details of an index for its manifest; `open_index` reads them."""
    return {
        "engine": engine,
        "factory": factory,
        "search_effort": asdict(index.parameters),
    }


def open_index(directory: Path, details: Mapping[str, Any]) -> "VectorIndex":
    """Open the vector index of a verified index directory by the `details` of its manifest.

    :raises ManifestError: When the details lack the search parameters, or name an engine that this
        Swiftlet does not have.
    :raises CorruptIndexError: When the engine cannot read the index.
    """
    name = details.get("engine", DEFAULT_ENGINE)  # manifests had no engine while there was only one
    try:
        engine = find_engine(name)
    except InvalidArgumentError as error:
        raise ManifestError(f"the index in {directory} cannot be opened: {error}") from error
    try:
        parameters = engine.parameters_type(**details["search_effort"])
    except KeyError as error:
        raise ManifestError(f"the manifest of {directory} lacks {error}") from error
    except TypeError as error:
        raise CorruptIndexError(f"{directory} is damaged: {error}") from error
    index = of_vectors(engine.load(directory / engine.file_name), details.get("vectors", 1))
    index.parameters = parameters
    return index
