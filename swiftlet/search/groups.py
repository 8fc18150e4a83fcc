"""Documents grouped by a field of their metadata."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain

from swiftlet.index.columns.columns import Value, keys_of, one_key, value_of
from swiftlet.index.columns.facets import values_of
from swiftlet.index.columns.filters import Condition, Every, Filter, Without
from swiftlet.search.request import DEFAULT_GROUP_SIZE, SearchRequest
from swiftlet.types import Embeddings, Hit, SearchResult


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


class KeptEmbeddings(dict[str, Embeddings]):
    """Keeps the embedding of the query of several searches."""

    put = dict.__setitem__


def find_groups(
    search: Callable[[SearchRequest], SearchResult], asked: SearchRequest, path: str
) -> GroupedResult:
    """The `top_k` best groups by the values at `path`, each with its `group_size` best documents.

    There are fewer groups if the index has fewer. The group with the best document comes first; a
    smaller group has all of its documents. Searches with filters find them, so the result is as
    exact as these searches: each leaves out the groups that are known, and once there are enough
    groups, a search in each group completes it.
    """
    count, size = asked.top_k, asked.group_size
    passing = Every(()) if asked.filter is None else asked.filter
    some = values_of(path)

    def search_for(wanted: int, *conditions: Filter) -> SearchResult:
        chosen = Every((passing, *conditions))
        return search(
            replace(
                asked,
                top_k=wanted,
                filter=chosen,
                group_by=None,
                group_size=DEFAULT_GROUP_SIZE,
            )
        )

    hits_of: dict[bytes, list[Hit]] = {}
    # An earlier index may have the value of a group in several forms of Unicode.
    forms: dict[bytes, set[bytes]] = {}
    results = []
    while len(hits_of) < count:
        known = Condition(path, tuple(map(one_key, chain.from_iterable(forms.values()))))
        wanted = size * (count - len(hits_of))
        results.append(search_for(wanted, some, Without(known)))
        for hit in results[-1].hits:
            key = _key(path, hit)
            hits_of.setdefault(key, []).append(hit)
            forms.setdefault(key, {key}).add(_key(path, hit, composed=False))
        if len(results[-1].hits) < wanted:
            break
    groups = []
    for key, hits in [*hits_of.items()][:count]:
        if len(hits) < size:
            results.append(
                search_for(size, Condition(path, tuple(map(one_key, sorted(forms[key])))))
            )
            hits = results[-1].hits  # noqa: PLW2901
        groups.append(Group(value_of(key), hits[:size]))
    seconds = tuple(map(sum, zip(*(result.stage_seconds for result in results), strict=True)))
    return GroupedResult(groups, seconds, results[0].cached, results[0].generation)


def _key(path: str, hit: Hit, *, composed: bool = True) -> bytes:
    ranges, keys = values_of(path).keys, keys_of(hit.metadata, composed=composed)
    (key,) = (key for key in keys if any(first <= key < end for first, end in ranges))
    return key
