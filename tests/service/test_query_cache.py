from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from service.live.state import QueryCache
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.search.searcher import Searcher
from swiftlet.types import Embeddings
from tests.service.conftest import with_encoder

ENTRY = 2 * 4 + 250 + 50
"""About the size of an entry with two numbers and one letter."""


def numbers(first: float) -> Embeddings:
    return np.array([first, 0], dtype=np.float32)


def test_the_least_recently_used_goes_first():
    cache = QueryCache(3 * ENTRY)
    for position, name in enumerate("abc"):
        cache.put(name, numbers(position))
    assert cache.get("a") is not None
    cache.put("d", numbers(3))
    assert [name for name in "abcd" if cache.get(name) is not None] == ["a", "c", "d"]


def test_the_cache_never_exceeds_its_bytes():
    cache = QueryCache(10 * ENTRY)
    for position in range(100):
        cache.put("x" * (position % 7) + str(position), numbers(position))
    assert 5 <= len(cache) <= 10
    cache.put("y" * 100_000, numbers(0))
    assert len(cache) == 0
    cache.put("z", numbers(1))
    assert cache.get("z") is not None


def test_cached_embeddings_are_read_only():
    cache = QueryCache(1000)
    cache.put("a", numbers(1))
    with pytest.raises(ValueError, match="read-only"):
        cache.get("a")[0] = 2


def test_many_threads_may_use_it_at_once():
    cache = QueryCache(5 * ENTRY)

    def use(seed: int) -> bool:
        for step in range(500):
            name = (seed + step) * 7 % 20
            found = cache.get(chr(97 + name))
            if found is not None and found[0] != name:
                return False
            cache.put(chr(97 + name), numbers(name))
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(use, range(8)))
    assert 0 < len(cache) <= 5


class CountingEncoder(OnnxEncoder):
    runs = 0

    def embed(self, token_ids: Sequence[int]) -> Embeddings:
        self.runs += 1
        return super().embed(token_ids)


@pytest.fixture
def counting_searcher(small_searcher) -> Searcher:
    return with_encoder(small_searcher, CountingEncoder.load(DEFAULT_ENCODER, verify=False))


def test_a_query_that_comes_again_is_not_encoded_again_and_has_the_same_answer(
    make_application, counting_searcher
):
    application = make_application(counting_searcher, cache_bytes=100_000)
    answers = [
        application.ask("POST", "/search", json={"query": query})
        for query in ("bread\tand salt", "bread and salt", "bread\nand salt", "bread and  salt")
    ]
    assert counting_searcher.encoder.runs == 2
    assert answers[0].content == answers[1].content == answers[2].content
    assert "encode;dur=0.000" in answers[2].headers["server-timing"]
    text = application.ask("GET", "/metrics").text
    assert 'swiftlet_cache_lookups_total{result="hit"} 2.0' in text
    assert 'swiftlet_cache_lookups_total{result="miss"} 2.0' in text
    assert 'swiftlet_stage_seconds_count{stage="encode"} 2.0' in text
    assert 'swiftlet_stage_seconds_count{stage="dense"} 4.0' in text


def test_a_lexical_search_neither_encodes_nor_looks_into_the_cache(
    make_application, small_searcher
):
    application = make_application(small_searcher, cache_bytes=100_000)
    assert application.ask("GET", "/search?q=bread&mode=lexical").json()["hits"]
    text = application.ask("GET", "/metrics").text
    assert 'swiftlet_cache_lookups_total{result="miss"} 0.0' in text
    assert 'swiftlet_stage_seconds_count{stage="encode"} 0.0' in text
    assert 'swiftlet_stage_seconds_count{stage="lexical"} 1.0' in text


def test_without_a_cache_each_query_is_encoded(make_application, counting_searcher):
    application = make_application(counting_searcher, cache_bytes=0)
    for _ in range(3):
        application.ask("GET", "/search?q=bread")
    assert counting_searcher.encoder.runs == 3
    assert 'lookups_total{result="miss"} 0.0' in application.ask("GET", "/metrics").text


def test_no_embedding_outlives_the_searcher_that_it_was_made_for(
    make_application, counting_searcher
):
    application = make_application(counting_searcher, cache_bytes=100_000)
    application.ask("GET", "/search?q=bread")
    application.state.publish(counting_searcher)
    application.ask("GET", "/search?q=bread")
    assert counting_searcher.encoder.runs == 2
