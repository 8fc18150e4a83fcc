"""The details of an index in its manifest, and the index that they describe."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swiftlet.errors import CorruptIndexError, ManifestError, shown

if TYPE_CHECKING:
    from swiftlet.index.vectors.vector_index import Engine, VectorIndex
    from swiftlet.manifest import Manifest


def engine_of(details: Mapping[str, Any]) -> "type[Engine]":
    """The engine that made an index, by the `details` of its manifest.

    :raises ManifestError: When this Swiftlet does not have it.
    """
    # FAISS and NumPy are loaded when an index is opened, and not before.
    from swiftlet.index.vectors.faiss_file import FaissFile
    from swiftlet.index.vectors.faiss_index import FaissIndex

    name = details.get("engine", FaissIndex.name)  # old manifests name no engine
    found = next((each for each in (FaissIndex, FaissFile) if each.name == name), None)
    if found is None:
        raise ManifestError(f"there is no index engine {shown(name)}; there is {FaissIndex.name}")
    return found


def of_vectors(index: "VectorIndex", vectors: int) -> "VectorIndex":
    """An index of passages with this number of vectors each, which are rows of `index`."""
    from swiftlet.index.vectors.multi_vector import MultiVectorIndex

    return index if vectors == 1 else MultiVectorIndex(index, vectors)


def index_details(engine: "type[Engine]", factory: str, index: "VectorIndex") -> dict[str, Any]:
    """The details of an index for its manifest; `open_index` reads them."""
    return {
        "engine": engine.name,
        "factory": factory,
        "search_effort": asdict(index.parameters),
    }


def open_index(directory: Path, manifest: "Manifest") -> "VectorIndex":
    """Open the vector index of a verified index directory as its manifest describes it.

    :raises ManifestError: When the details lack the search parameters, or name an engine that this
        Swiftlet does not have.
    :raises CorruptIndexError: When the engine cannot read the index, or it has other embeddings
        than the manifest says.
    """
    details = manifest.details
    try:
        engine = engine_of(details)
    except ManifestError as error:
        raise ManifestError(f"the index in {directory} cannot be opened: {error}") from error
    manifest.check_listed(directory, engine.file_name)
    try:
        parameters = engine.parameters_type(**details["search_effort"])
        expected = manifest.vectors * details["num_passages"]
    except KeyError as error:
        raise ManifestError(f"the manifest of {directory} lacks {error}") from error
    except TypeError as error:
        raise CorruptIndexError(f"{directory} is damaged: {error}") from error
    found = engine.load(directory / engine.file_name)
    manifest.check_listed(directory, *found.files)
    if (found.size, found.dim) != (expected, manifest.dim):
        raise CorruptIndexError(
            f"{directory / engine.file_name} has {found.size:,} embeddings of {found.dim} "
            f"dimensions, but its manifest says {expected:,} of {manifest.dim}: restore "
            f"{directory} from a copy, or make it again"
        )
    if found.metric != manifest.metric:
        raise CorruptIndexError(
            f"{directory / engine.file_name} compares by {found.metric}, but its manifest says "
            f"{manifest.metric}: make {directory} again"
        )
    index = of_vectors(found, manifest.vectors)
    index.parameters = parameters
    return index
