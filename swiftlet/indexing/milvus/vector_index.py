"""The index of the embeddings on a Milvus server: made, awaited, and its searches tuned."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import sqrt
from time import sleep
from typing import Any, Literal, get_args

import numpy as np

from swiftlet.indexing.progress import Progress
from swiftlet.indexing.sample_queries import span_of
from swiftlet.indexing.tuning import NEAR, TARGET
from swiftlet.retrieval.encoder import OnnxEncoder
from swiftlet.retrieval.encoding import encode_texts
from swiftlet.retrieval.errors import IndexServerError, InvalidArgumentError, shown
from swiftlet.retrieval.milvus.collection import METRIC, Collection
from swiftlet.retrieval.milvus.schema import (
    EMBEDDING,
    FAST,
    TEXT,
    THOROUGH,
    WORDS,
    facet_columns,
)
from swiftlet.retrieval.types import Embeddings

IndexType = Literal["FLAT", "IVF_FLAT", "IVF_SQ8", "HNSW"]

EXACT_UP_TO = 50_000
"""Up to this many passages, a search compares a query with every embedding."""

_WORDS_TYPE = "SPARSE_INVERTED_INDEX"
_FACETS_TYPES = ("INVERTED", "INVERTED", "INVERTED")
_OLD_FACETS_TYPES = ("Trie", "STL_SORT", "STL_SORT")
_LISTS_PER_ROOT = 1  # more take the server longer to make
_LINKS, _EF_CONSTRUCTION = 32, 200
_SECONDS_BETWEEN_LOOKS = 0.5
_MOST_PROBES = 65_536  # a server takes no more, and visits no more lists than there are
_MOST_EF = 32_768
_SAMPLE = 100
_NEAREST = 10
_SEED = 0
_BLOCK_ROWS = 8_192


@dataclass(frozen=True, slots=True)
class VectorIndexPlan:
    """How the server indexes embeddings; a search visits at most `most` lists, or nodes of a graph.

    `parameter` is what says how many; it is empty if every passage is compared.
    """

    index_type: IndexType
    parameters: dict[str, int]
    parameter: str = ""
    least: int = 1
    most: int = 1


def check_index_type(index_type: str | None) -> None:
    """Refuse a type that is unknown; None stands for the default.

    :raises InvalidArgumentError: When it is unknown.
    """
    if index_type is not None and index_type not in get_args(IndexType):
        raise InvalidArgumentError(
            f"the type of the index is {shown(index_type)}, but one of "
            f"{', '.join(get_args(IndexType))} is expected"
        )


def plan_index(size: int, index_type: IndexType | None) -> VectorIndexPlan:
    """The index of so many passages; without a type, the default one for their number."""
    if index_type is None:
        index_type = "FLAT" if size <= EXACT_UP_TO else "IVF_SQ8"
    if index_type == "FLAT":
        return VectorIndexPlan(index_type, {})
    if index_type == "HNSW":
        parameters = {"M": _LINKS, "efConstruction": _EF_CONSTRUCTION}
        return VectorIndexPlan(index_type, parameters, "ef", _NEAREST, _MOST_EF)
    lists = max(1, int(_LISTS_PER_ROOT * sqrt(size)))
    return VectorIndexPlan(index_type, {"nlist": lists}, "nprobe", 1, lists)


def make_index(collection: Collection, plan: VectorIndexPlan, *, facets: int, hybrid: bool) -> None:
    """Have the server index the embeddings, so many facets, and words if it is `hybrid`.

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


def tuned(
    collection: Collection,
    plan: VectorIndexPlan,
    encoder: OnnxEncoder,
    embeddings: Iterator[Embeddings],
) -> tuple[dict[str, Any], float | None]:
    """The parameters of fast and thorough searches, and what share of the nearest fast ones find.

    The queries are short spans of words, and a passage is found if it is near enough, as for an
    index on this machine. There are neither if a search compares every passage.

    :param embeddings: Those (dim,) of all passages.
    """
    if not plan.parameter:
        return {}, None
    # The order of rows, which are hashes, is random.
    sample = collection.call("query", filter="", limit=_SAMPLE, output_fields=[TEXT])
    random = np.random.default_rng(_SEED)
    queries = encode_texts(encoder, [span_of(row[TEXT], random) for row in sample])
    least = _last_of_nearest(embeddings, queries)
    least -= (1 - NEAR) * np.abs(least)
    effort = plan.least
    while True:
        found = _found_scores(collection, queries, {plan.parameter: effort})
        recall = float((found >= least[:, np.newaxis]).mean())
        if recall >= TARGET or effort >= plan.most:
            thorough = _MOST_PROBES if plan.parameter == "nprobe" else _MOST_EF
            parameters = {FAST: effort, THOROUGH: thorough}
            return {name: {plan.parameter: value} for name, value in parameters.items()}, recall
        effort *= 2


def _last_of_nearest(embeddings: Iterator[Embeddings], queries: Embeddings) -> Embeddings:
    """The score (q,) of the last of the nearest passages of each of `queries` (q, dim)."""
    best = np.full((len(queries), _NEAREST), -1, np.float32)
    while block := [*islice(embeddings, _BLOCK_ROWS)]:
        scores = np.concatenate((best, queries @ np.stack(block).T), axis=1)
        best = np.partition(scores, -_NEAREST, axis=1)[:, -_NEAREST:]
    last: Embeddings = best.min(axis=1)
    return last


def _found_scores(
    collection: Collection, queries: Embeddings, parameters: dict[str, Any]
) -> Embeddings:
    """The scores (q, nearest) of the rows that a search finds, best first; -1 where none is."""
    found = collection.call(
        "search",
        slow=True,
        data=[*queries],
        anns_field=EMBEDDING,
        limit=_NEAREST,
        search_params={"params": parameters},
    )
    scores = ([hit.distance for hit in hits] for hits in found)
    return np.array([each + [-1.0] * (_NEAREST - len(each)) for each in scores], np.float32)
