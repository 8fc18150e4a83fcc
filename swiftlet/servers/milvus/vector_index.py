"""The index of the embeddings on a Milvus server: planned, made and awaited."""

from dataclasses import dataclass
from math import sqrt
from time import sleep
from typing import Any

from swiftlet.errors import IndexServerError
from swiftlet.progress import Progress
from swiftlet.servers.milvus.collection import METRIC, Collection
from swiftlet.servers.milvus.filter_fields import facet_columns
from swiftlet.servers.milvus.schema import EMBEDDING, WORDS
from swiftlet.servers.state import EXACT_UP_TO

_WORDS_TYPE = "SPARSE_INVERTED_INDEX"
_FACETS_TYPES = ("INVERTED", "INVERTED", "INVERTED")
_OLD_FACETS_TYPES = ("Trie", "STL_SORT", "STL_SORT")
_LISTS_PER_ROOT = 1  # more take the server longer to make
_LINKS, _EF_CONSTRUCTION = 32, 200
_SECONDS_BETWEEN_LOOKS = 0.5
_LEAST_EF = 10
MOST_VISITED = {"nprobe": 65_536, "ef": 32_768}
"""The most that a server takes for a parameter; it visits no more lists than there are."""


@dataclass(frozen=True, slots=True)
class VectorIndexPlan:
    """How the server indexes embeddings; a search visits at most `most` lists, or nodes of a graph.

    `parameter` is what says how many; it is empty if every passage is compared.
    """

    index_type: str
    parameters: dict[str, int]
    parameter: str = ""
    least: int = 1
    most: int = 1


def plan_index(size: int, index_type: str | None) -> VectorIndexPlan:
    """The index of `size` passages; without a type, the default one for this size."""
    if index_type is None:
        index_type = "FLAT" if size <= EXACT_UP_TO else "IVF_SQ8"
    if index_type == "FLAT":
        return VectorIndexPlan(index_type, {})
    if index_type == "HNSW":
        parameters = {"M": _LINKS, "efConstruction": _EF_CONSTRUCTION}
        return VectorIndexPlan(index_type, parameters, "ef", _LEAST_EF, MOST_VISITED["ef"])
    lists = max(1, int(_LISTS_PER_ROOT * sqrt(size)))
    return VectorIndexPlan(index_type, {"nlist": lists}, "nprobe", 1, lists)


def make_index(collection: Collection, plan: VectorIndexPlan, *, facets: int, hybrid: bool) -> None:
    """Have the server index the embeddings, the facets, and words if it is `hybrid`.

    What it has indexed already, before an interruption, stays.
    """
    wanted: dict[str, dict[str, Any]] = {
        EMBEDDING: {
            "index_type": plan.index_type, "metric_type": METRIC, "params": plan.parameters
        }
    }  # fmt: skip
    if hybrid:
        wanted[WORDS] = {"index_type": _WORDS_TYPE, "metric_type": METRIC}
    types = _OLD_FACETS_TYPES if collection.is_old() else _FACETS_TYPES
    for place in range(facets):
        columns = zip(facet_columns(place), types, strict=True)
        wanted |= {column: {"index_type": its_type} for column, its_type in columns}
    parameters = collection.client.prepare_index_params()
    for name, settings in wanted.items():
        if not collection.call("list_indexes", field_name=name):
            parameters.add_index(field_name=name, **settings)
    if len(parameters):
        collection.call("create_index", slow=True, index_params=parameters, sync=False)


def await_index(collection: Collection, total: int, progress: Progress) -> None:
    """Wait until the server has indexed all rows; it may take hours."""
    progress.begin("Indexing on the server", total)
    done, state = 0, ""
    while state != "Finished":
        sleep(_SECONDS_BETWEEN_LOOKS)
        found = collection.call("describe_index", index_name=EMBEDDING)
        state = found["state"]
        if state == "Failed":
            raise IndexServerError(f"{collection.address.server} cannot index the embeddings")
        now = min(total, int(found["indexed_rows"]))
        progress.advance(max(0, now - done))
        done = max(done, now)
