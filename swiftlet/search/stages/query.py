"""A query to the best documents: its embedding, and both indexes."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from swiftlet.index.vectors.vector_index import Rows
from swiftlet.search.ranking import (
    Ranking,
    best_passages,
    reciprocal_ranks,
    score_of_last,
    weighted_sum,
)
from swiftlet.search.stages.state import SearchState
from swiftlet.types import Embeddings

_UNKNOWN_SCORE = np.float32(2)  # above every cosine
_UNKNOWN_OTHER = np.float32(1e37)  # above every other score
_DECIMALS = 6  # further ones depend on the index that a score comes from
_ROUNDING = 10.0**-_DECIMALS
# An approximate search misses 0.1 passages above the best quarter of its candidates.
_RELIABLE = 4
_LOWEST_SCORE = np.float32(-np.inf)


class Filter:
    """Selects the passages of the documents that pass the filter.

    docs/results/filters.md has the time of a first search and of those that follow.
    """

    name = "filter"
    repeats = False

    def run(self, search: SearchState) -> bool:
        """Set the selection, and what its passages gain by boosts."""
        asked, generation = search.request.filter, search.generation
        search.selection = generation.everything if asked is None else generation.select(asked)
        if search.boosts:
            is_default = search.request.boost is None
            search.gains = generation.gains(search.boosts, is_default=is_default)
        return asked is not None or search.gains is not None


class Tokenise:
    """Looks the query up in the cache; a query that is not there becomes token ids."""

    name = "tokenise"
    repeats = False

    def run(self, search: SearchState) -> bool:
        """Set `embedding` from the cache, or `token_ids`, unless it is given or not needed."""
        if search.mode == "lexical" or search.request.embedding is not None:
            return False
        if search.cache is not None:
            embedding = search.cache.get(search.request.query)
            if embedding is not None:
                search.embedding = embedding
                search.cached = True
                return False
        search.token_ids = search.generation.parts.encoder.tokenise(search.request.query)
        return True


class Encode:
    """Turns the token ids into the query's embedding, and puts it into the cache."""

    name = "encode"
    repeats = False

    def run(self, search: SearchState) -> bool:
        """Set `embedding`, unless it came from the cache or is not needed."""
        if search.token_ids is None:
            return False
        search.embedding = search.generation.parts.encoder.embed(search.token_ids)
        if search.cache is not None:
            search.cache.put(search.request.query, search.embedding)
        return True


class Dense:
    """Finds the nearest passages in the vector index."""

    name = "dense"
    repeats = True

    def run(self, search: SearchState) -> bool:
        """Set the nearest passages, unless the search is lexical."""
        if search.mode == "lexical":
            return False
        index = search.selection.index
        scores, rows = index.search(search.embedding, search.num_candidates)
        unseen = None
        if not index.has_all(search.num_candidates, len(scores)):
            unknown = _UNKNOWN_SCORE if search.scale is None else _UNKNOWN_OTHER
            unseen = scores[-1] if len(scores) else unknown
        search.dense = Ranking(scores, rows, unseen)
        return True


class Lexical:
    """Finds the passages with the best BM25 scores."""

    name = "lexical"
    repeats = True

    def run(self, search: SearchState) -> bool:
        """Set the passages that share words with the query, unless the search is dense."""
        index = search.selection.lexical
        if search.mode == "dense" or index is None:
            return False
        if search.lexical_query is None:
            search.lexical_query = index.parse(search.request.query, synonyms=search.synonyms)
        scores, rows = search.lexical_query.search(search.num_candidates)
        has_all = index.has_all(search.num_candidates, len(scores))
        search.lexical = Ranking(scores, rows, None if has_all else scores[-1])
        return True


class Fuse:
    """Gives each passage that either index found one score of both."""

    name = "fuse"
    repeats = True

    def run(self, search: SearchState) -> bool:
        """Set the candidates; a search of one index has nothing to fuse."""
        if search.mode != "hybrid":
            search.candidates = search.dense if search.mode == "dense" else search.lexical
            return False
        found = search.dense
        if (scale := search.scale) is not None:
            unseen = found.highest_unseen
            if unseen is not None and unseen < _UNKNOWN_OTHER:
                unseen = scale.of(np.array([unseen]), search.embedding)[0]
            found = Ranking(scale.of(found.scores, search.embedding), found.rows, unseen)
        rows, at_dense, at_lexical = _united(found.rows, search.lexical.rows)
        dense, has_dense = _scores_at(len(rows), at_dense, found)
        lexical, has_lexical = _scores_at(len(rows), at_lexical, search.lexical)
        weight = search.weight
        unseen = found.highest_unseen
        if unseen is not None and len(found.scores):
            # Not the last score: an approximate search misses passages that are above it.
            dense[~has_dense] = found.scores[len(found.scores) // _RELIABLE]
        # At most these: a lexical search is exact.
        highest = weighted_sum(dense, lexical, weight)
        kept = np.ones(len(rows), dtype=bool)
        if search.request.fusion == "weighted" and unseen is not None:
            least = weighted_sum(dense, lexical * has_lexical, weight)
            numbers = search.generation.parts.passage_to_document
            last = score_of_last(least[at_dense], numbers[found.rows], search.depth)
            kept = highest > last - _ROUNDING - search.most_gain
        # The other index gives the exact score of a passage that only one has found.
        if (asked := kept & ~has_dense).any():
            exact = search.generation.parts.index.scores(search.embedding, rows[asked])
            dense[asked] = exact if scale is None else scale.of(exact, search.embedding)
        if search.lexical_query is not None and (asked := kept & ~has_lexical).any():
            lexical[asked] = search.lexical_query.scores(rows[asked])
        if search.request.fusion == "rrf":
            scores = reciprocal_ranks(dense, lexical)
            unseen = None if unseen is None else _LOWEST_SCORE
        else:
            scores = weighted_sum(dense[kept], lexical[kept], weight).round(_DECIMALS)
            if unseen is not None:
                other = search.lexical.highest_unseen or np.float32(0)
                unseen = highest[~kept].max(initial=weighted_sum(unseen, other, weight))
        rows = rows[kept]
        best_first = np.argsort(-scores, kind="stable")
        search.candidates = Ranking(scores[best_first], rows[best_first], unseen)
        return True


def _united(dense: Rows, lexical: Rows) -> tuple[Rows, Rows, Rows]:
    """All rows (n,), ascending, and the places of both rankings' rows in them."""
    both = np.concatenate((dense, lexical))
    order = np.argsort(both)
    ordered = both[order]
    first = np.ones(len(both), dtype=bool)  # `np.unique` takes three times as long
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    places = np.empty_like(order)
    places[order] = np.cumsum(first) - 1
    return ordered[first], places[: len(dense)], places[len(dense) :]


def _scores_at(count: int, at: Rows, found: Ranking) -> tuple[Embeddings, NDArray[np.bool]]:
    """The scores (count,) as far as they are known, `at` their places, and whether they are.

    An unknown score is the score of the best unseen passage. If no passage is unseen, it is 0, and
    counts as known.
    """
    highest_unseen = found.highest_unseen
    scores = np.full(count, highest_unseen or 0, dtype=np.float32)
    known = np.full(count, highest_unseen is None)
    scores[at], known[at] = found.scores, True
    return scores, known


class Aggregate:
    """Reduces passages to documents: a document has the score of its best passage (maxP)."""

    name = "aggregate"
    repeats = True

    def run(self, search: SearchState) -> bool:
        """Set the best passage of each document that has at least the least score."""
        found, numbers = search.candidates, search.generation.parts.passage_to_document
        best = Ranking(*best_passages(found.scores, found.rows, numbers))
        search.documents = best.at(best.scores >= search.least_score)
        return True


class Boost:
    """Orders documents by their scores and what they gain by their metadata.

    All passages of a document gain the same, so its best passage stays the best.
    """

    name = "boost"
    repeats = True

    def run(self, search: SearchState) -> bool:
        """Set the boosted scores of the documents, and their order, if there is a boost."""
        if search.gains is None:
            return False
        found, numbers = search.documents, search.generation.parts.passage_to_document
        boosted = found.scores + search.gains.by_row[found.rows]
        best_first = np.lexsort((numbers[found.rows], -boosted))
        search.documents = replace(found, boosted=boosted).at(best_first)
        return True
