"""Documents grouped by a field of their metadata."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from swiftlet.errors import GroupingError, shown
from swiftlet.index.columns.columns import (
    Columns,
    Value,
    field_keys,
    keys_of,
    one_key,
    value_of,
)
from swiftlet.index.columns.filters import Condition, Every, Filter, Without
from swiftlet.index.vectors.vector_index import Mask
from swiftlet.types import Embeddings, Hit

_KINDS = (b"b", b"n", b"s")  # the text of a date has a second key, of another kind


@dataclass(frozen=True, slots=True)
class Group:
    """The best documents with one value of a field, the best one first."""

    value: Value | None
    hits: list[Hit]


@dataclass(frozen=True, slots=True)
class GroupedResult:
    """The groups that a search found, the one with the best document first.

    `stage_seconds` are summed over the searches that it took; the rest is as in `SearchResult`.
    """

    groups: list[Group]
    stage_seconds: tuple[float, ...]
    cached: bool
    generation: str


class OneEmbedding:
    """Keeps the embedding of the query of several searches."""

    def __init__(self) -> None:
        self._embedding: Embeddings | None = None

    def get(self, query: str) -> Embeddings | None:  # noqa: ARG002 - there is only one
        """The embedding (dim,), once there is one."""
        return self._embedding

    def put(self, query: str, embedding: Embeddings) -> None:  # noqa: ARG002
        """Keep the embedding (dim,)."""
        self._embedding = embedding


def find_groups(
    search: Callable[..., Any], path: str, passing: Filter, *, count: int, size: int
) -> GroupedResult:
    """The `count` best groups, or as many as there are, each with its `size` best documents.

    The group with the best document comes first; a smaller group has all of its documents. Searches
    with filters find them, so the result is as exact as theirs: each search leaves the groups out
    that are known, and once there are enough groups, a search in each one completes it.

    :param search: `Searcher.search` with its query, for a number of documents and a `filter`.
    """
    some = values_of(path)
    hits_of: dict[bytes, list[Hit]] = {}
    results = []
    while len(hits_of) < count:
        known = Condition(path, tuple(map(one_key, hits_of)))
        wanted = size * (count - len(hits_of))
        results.append(search(wanted, filter=Every((passing, some, Without(known)))))
        for hit in results[-1].hits:
            hits_of.setdefault(_key(path, hit), []).append(hit)
        if len(results[-1].hits) < wanted:
            break
    groups = []
    for key, hits in [*hits_of.items()][:count]:
        if len(hits) < size:
            of_group = Condition(path, (one_key(key),))
            results.append(search(size, filter=Every((passing, of_group))))
            hits = results[-1].hits  # noqa: PLW2901
        groups.append(Group(value_of(key), hits[:size]))
    seconds = tuple(map(sum, zip(*(result.stage_seconds for result in results), strict=True)))
    return GroupedResult(groups, seconds, results[0].cached, results[0].generation)


def check_single_values(path: str, parts: Iterable[tuple[Columns, Mask]]) -> None:
    """Refuse a field without a value in any document, or with several in one document.

    :param parts: Columns, and which of their documents (n,) can be found.
    :raises GroupingError: When it is one.
    """
    exists = several = False
    for columns, mask in parts:
        found = [columns.documents(columns.codes(keys)) for keys in values_of(path).keys]
        counts = np.bincount(np.concatenate(found), minlength=len(mask))
        exists |= bool(counts.any())
        several |= bool((counts[mask] > 1).any())
    check_values(path, exists=exists, several=several)


def check_values(path: str, *, exists: bool, several: bool) -> None:
    """Refuse a field unless values of it exist, and no document has several.

    :raises GroupingError: When it cannot be grouped by.
    """
    if several:
        raise GroupingError(
            f"group_by is {shown(path)}, but a document has several values of it; a field with one "
            "value is expected"
        )
    if not exists:
        raise GroupingError(f"group_by is {shown(path)}, but no document has a value of it")


def values_of(path: str) -> Condition:
    """The documents with a value of a field, each value by one key."""
    return Condition(path, tuple(field_keys(path, kind) for kind in _KINDS))


def _key(path: str, hit: Hit) -> bytes:
    ranges = values_of(path).keys
    (key,) = (
        key for key in keys_of(hit.metadata) if any(first <= key < end for first, end in ranges)
    )
    return key
