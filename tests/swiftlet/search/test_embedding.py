"""Searches by the embedding of a query, which may come from anywhere."""

from dataclasses import replace

import numpy as np
import pytest

from swiftlet.errors import InvalidArgumentError, QueryError
from swiftlet.search.request import SearchRequest
from swiftlet.types import Embeddings

QUERY = "how is bread baked"


@pytest.fixture(scope="module")
def embedding(shipped_encoder) -> Embeddings:
    return shipped_encoder.encode([QUERY])[0]


@pytest.mark.parametrize("given", [np.asarray, np.float64, list, tuple, lambda each: 1000 * each])
@pytest.mark.parametrize("options", [{}, {"filter": {"length": [1, 2]}}, {"offset": 3, "top_k": 7}])
def test_an_embedding_finds_what_its_query_finds(small_searcher, embedding, given, options):
    found = small_searcher.search(embedding=given(embedding), **options).hits
    expected = small_searcher.search(QUERY, mode="dense", **options).hits
    assert [hit.passage for hit in found] == [hit.passage for hit in expected]
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected], abs=1e-6)


def test_a_hybrid_search_takes_both(small_searcher, embedding):
    expected = small_searcher.search(QUERY, highlight="sentence")
    found = small_searcher.search(QUERY, embedding=embedding, highlight="sentence")
    assert [hit.document_id for hit in found.hits] == [hit.document_id for hit in expected.hits]
    assert [hit.highlights for hit in found.hits] == [hit.highlights for hit in expected.hits]
    other = small_searcher.search("who dances for honey", embedding=embedding, weight=1)
    dense = small_searcher.search(QUERY, weight=1)
    assert [hit.document_id for hit in other.hits] == [hit.document_id for hit in dense.hits]


def test_an_embedding_is_not_taken_for_the_cached_one(small_searcher, embedding):
    class Cache(dict[str, Embeddings]):
        put = dict.__setitem__

    cache = Cache({QUERY: -embedding})
    found = small_searcher.search(QUERY, embedding=embedding, mode="dense", cache=cache)
    assert (found.cached, found.hits[0].metadata["topic"], len(cache)) == (False, "bread", 1)
    small_searcher.search("another", embedding=embedding, cache=cache)
    assert len(cache) == 1


def test_groups_are_found_by_an_embedding(small_searcher, embedding):
    found = small_searcher.search_groups(embedding=embedding, top_k=3, group_by="topic")
    expected = small_searcher.search_groups(QUERY, top_k=3, group_by="topic", mode="dense")
    assert [group.value for group in found.groups] == [group.value for group in expected.groups]


def test_an_embedding_is_part_of_the_ranking(small_searcher, embedding):
    by_words = SearchRequest(QUERY)
    assert "embedding" not in small_searcher.ranking(by_words)
    rankings = {
        small_searcher.ranking(replace(by_words, embedding=each))
        for each in (None, embedding, -embedding)
    }
    assert len(rankings) == 3
    assert hash(SearchRequest(embedding=embedding)) == hash(SearchRequest(embedding=[*embedding]))


NAN, INFINITE = [1.0, float("nan")], [float("-inf"), 1]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"embedding": NAN}, r"embedding\[1\] is nan, but a number from -1e17 to 1e17 is expected"),
        ({"embedding": INFINITE}, r"embedding\[0\] is -inf, but a number from"),
        ({"embedding": [1, 10**400]}, "embedding has a number beyond 1e17"),
        ({"embedding": [0.0, 0]}, "embedding has only zeros, and so no direction"),
        ({"embedding": []}, "embedding has 0 numbers, but a list of 1 to 16,384 numbers"),
        ({"embedding": [0.5] * 16_385}, "embedding has 16,385 numbers, but a list of 1 to"),
        ({"embedding": [1, "a"]}, r"embedding\[1\] is 'a', but a number is expected"),
        ({"embedding": [1, True]}, r"embedding\[1\] is True, but a number is expected"),
        ({"embedding": np.ones((2, 3))}, r"embedding\[0\] is \[1.0, 1.0, 1.0\], but a number"),
        ({"embedding": "abc"}, "embedding is 'abc', but a list of 1 to 16,384 numbers"),
        ({"embedding": 7}, "embedding is 7, but a list"),
        ({"embedding": [1, 2, 3]}, "embedding has 3 numbers, but those of the index have 384"),
        ({"embedding": [1], "mode": "hybrid"}, "mode is 'hybrid', which needs the words of a"),
        ({"embedding": [1], "mode": "lexical"}, "mode is 'lexical', which needs the words of a"),
        ({"embedding": [1], "highlight": "words"}, "highlight is 'words', which needs the words"),
        ({"embedding": [1], "rerank": 3}, "rerank is 3, which needs the words of a query"),
        ({"embedding": [1], "weight": 0.5}, 'mode is "dense", but a weight is for "hybrid"'),
        ({"query": "a", "embedding": [1], "mode": "lexical"}, "which takes no embedding: leave"),
    ],
)
def test_what_cannot_be_searched_is_refused_in_one_sentence(small_searcher, options, sentence):
    with pytest.raises(InvalidArgumentError, match=sentence):
        small_searcher.search(options.pop("query", ""), **options)


def test_a_search_needs_a_query_or_an_embedding(small_searcher):
    with pytest.raises(QueryError, match="the query is empty"):
        small_searcher.search()
