"""A service of vectors that were made elsewhere: by embeddings, and by words."""

from collections.abc import Iterator

import httpx
import numpy as np
import pytest

from tests.service.conftest import running
from tests.vector_indexes import with_vectors

DIM = 8
PLACE = [1.0] * DIM


@pytest.fixture(scope="module")
def service(small_index, tmp_path_factory) -> Iterator[httpx.Client]:
    vectors = np.random.default_rng(1).normal(size=(89, DIM)).astype(np.float32)
    index = with_vectors(small_index, tmp_path_factory.mktemp("v") / "index", vectors, metric="l2")
    with running(index, encoder="", cache_bytes=1_000_000) as server, server.client() as client:
        yield client


def test_it_is_ready_and_describes_itself(service):
    assert service.get("/health/ready").status_code == 200
    assert service.get("/openapi.json").status_code == 200
    info = service.get("/info").json()
    assert (info["encoder"]["name"], info["encoder"]["max_tokens"]) == ("", 0)
    assert info["index"]["modes"] == ["lexical", "hybrid", "dense"]
    assert service.get("/v1/models").json()["data"] == []


def test_it_finds_by_an_embedding_by_words_and_by_both(service):
    by_words = service.post("/search", json={"query": "honey", "highlight": "words"}).json()["hits"]
    assert by_words[0]["metadata"]["topic"] == "bees"
    assert by_words[0]["passage"]["highlights"]
    assert service.get("/search", params={"q": "honey"}).json()["hits"][0]["score"] > 0
    dense = service.post("/search", json={"embedding": PLACE, "top_k": 60}).json()["hits"]
    scores = [hit["score"] for hit in dense]
    assert len(dense) == 60
    assert scores == sorted(scores, reverse=True)
    assert max(scores) < 0  # a squared distance, with a minus
    both = service.post("/search", json={"query": "honey", "embedding": PLACE}).json()["hits"]
    assert len(both) == 10
    batch = service.post("/search/batch", json={"queries": ["honey"], "embeddings": [PLACE]})
    assert batch.json()["results"][0]["hits"] == both
    metrics = service.get("/metrics").text
    for found in ("hit", "miss"):
        assert f'swiftlet_cache_lookups_total{{result="{found}"}} 0.0' in metrics


@pytest.mark.parametrize(
    ("route", "body", "field"),
    [
        ("/search", {"query": "honey", "mode": "dense"}, "query"),
        ("/search", {"query": "honey", "mode": "hybrid"}, "query"),
        ("/search/batch", {"queries": ["honey", "bread"], "mode": "dense"}, "queries[0]"),
        ("/search", {"query": "honey", "highlight": "sentence"}, None),
    ],
)
def test_a_text_that_needs_an_encoder_is_refused_with_the_ways_out(service, route, body, field):
    answer = service.post(route, json=body)
    assert (answer.status_code, answer.json().get("field")) == (422, field)
    for way in ("give the embedding", "SWIFTLET_ENCODER", "swiftlet distill --index"):
        assert way in answer.json()["detail"]


def test_no_model_of_embeddings_is_said_without_advice_for_searches(service):
    answer = service.post("/v1/embeddings", json={"input": "honey"})
    assert answer.status_code == 422
    detail = answer.json()["detail"]
    assert "has no model of embeddings: name an encoder" in detail
    assert "search by words" not in detail


def test_an_embedding_of_another_width_is_refused(service):
    answer = service.post("/search", json={"embedding": [1.0] * 9})
    assert answer.json()["detail"].startswith("embedding has 9 numbers, but those of the index")
