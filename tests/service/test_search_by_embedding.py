import json
from typing import Any

import httpx
import numpy as np
import pytest

from swiftlet.search.client import Client

QUERIES = ["how is bread baked", "what makes the sea rise"]
NUMBERS = json.dumps([0.5] * 384)


@pytest.fixture(scope="module")
def embeddings(shipped_encoder) -> list[list[float]]:
    return shipped_encoder.encode(QUERIES).tolist()


def found(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [hit["document_id"] for hit in answer.json()["hits"]]


@pytest.mark.parametrize(
    "options",
    [{}, {"filter": {"length": 8}}, {"offset": 5}, {"highlight": "sentence"},
     {"group_by": "topic", "top_k": 3}, {"weight": 0.5, "mode": "dense"}],
)  # fmt: skip
def test_an_embedding_finds_what_its_query_finds(client, embeddings, options):
    by_text = client.post("/search", json={"query": QUERIES[0], "mode": "dense", **options})
    by_embedding = client.post("/search", json={"embedding": embeddings[0], **options})
    assert found(by_embedding) == found(by_text)
    both = client.post("/search", json={"query": "x", "embedding": embeddings[0], "mode": "dense"})
    assert found(both)[:1] == found(client.post("/search", json={"embedding": embeddings[0]}))[:1]


def test_a_batch_takes_queries_embeddings_or_both(client, embeddings):
    def answers(**asked: Any) -> list[list[str]]:
        answer = client.post("/search/batch", json=asked)
        assert answer.status_code == 200, answer.text
        return [[hit["document_id"] for hit in each["hits"]] for each in answer.json()["results"]]

    assert answers(embeddings=embeddings) == answers(queries=QUERIES, mode="dense")
    assert answers(queries=QUERIES, embeddings=embeddings) == answers(queries=QUERIES)
    large = np.random.default_rng(0).normal(size=(64, 384)).tolist()
    assert len(answers(embeddings=large, top_k=1)) == 64


def test_a_cursor_holds_for_the_embedding_that_it_came_from(client, embeddings):
    asked = {"embedding": embeddings[0], "top_k": 4}
    first = client.post("/search", json=asked)
    second = client.post("/search", json={**asked, "cursor": first.json()["next"]})
    whole = client.post("/search", json={**asked, "top_k": 8})
    assert found(first) + found(second) == found(whole)
    other = {"embedding": embeddings[1], "top_k": 4, "cursor": first.json()["next"]}
    assert client.post("/search", json=other).json()["field"] == "cursor"


def test_the_client_sends_embeddings(server, embeddings):
    with Client(server.url) as client:
        hits = client.search(embedding=embeddings[0]).hits
        assert hits == client.search(QUERIES[0], mode="dense").hits
        assert client.search(QUERIES[0], embedding=embeddings[0], top_k=1).hits


@pytest.mark.parametrize(
    ("route", "body", "field", "sentence"),
    [
        ("/search", "{}", "query", "query is missing; a text of 1 to 10000 characters, not all"),
        ("/search", '{"embedding":[]}', "embedding", "embedding has 0 numbers, but a list of 1"),
        ("/search", '{"embedding":null}', "embedding", "embedding is null; a list of as many"),
        ("/search", '{"embedding":"AAAA"}', "embedding", "embedding is a text; a list of as many"),
        ("/search", '{"embedding":[0.5,true]}', "embedding", "embedding[1] is True, but a number"),
        ("/search", '{"embedding":[[0.5]]}', "embedding", "embedding[0] is [0.5], but a number"),
        ("/search", '{"embedding":[1e300]}', "embedding", "embedding[0] is 1e+300, but a number"),
        ("/search", '{"embedding":[1%s]}' % ("0" * 400), "embedding", "number beyond 1e17"),
        ("/search", '{"embedding":[1%s]}' % ("0" * 5000), "embedding", "embedding[0] is inf"),
        ("/search", '{"embedding":[0.5,0]}', "embedding", "2 numbers, but those of the index have"),
        ("/search", '{"embedding":[0,0]}', "embedding", "embedding has only zeros"),
        ("/search", '{"embedding":[%s0]}' % ("0," * 30_000), "embedding", "has 30,001 numbers"),
        ("/search", '{"embedding":NUMBERS,"mode":"hybrid"}', "mode", "the words of a query"),
        ("/search", '{"embedding":NUMBERS,"highlight":"words"}', "highlight", "the words of"),
        ("/search", '{"embedding":NUMBERS,"rerank":{"top_n":2}}', "rerank", "the words of"),
        ("/search", '{"query":"a","embedding":[1],"mode":"lexical"}', "embedding", "no embedding"),
        ("/search/batch", '{"embeddings":[]}', "embeddings", "is empty; a list of 1 to 64 embedd"),
        ("/search/batch", '{"embeddings":[1]}', "embeddings[0]", "embeddings[0] is 1; a list of"),
        ("/search/batch", '{"embeddings":[NUMBERS,["a"]]}', "embeddings[1]",
         "embeddings[1]: embedding[0] is 'a', but a number is expected"),
        ("/search/batch", '{"embeddings":[NUMBERS,[1]]}', "embeddings[1]", "has 1 numbers"),
        ("/search/batch", '{"queries":["a"],"embeddings":[[1],[2]]}', "embeddings",
         "there are 1 queries, but 2 embeddings; one for each query is expected"),
    ],
)  # fmt: skip
def test_a_bad_embedding_is_refused_in_one_sentence(attacker, route, body, field, sentence):
    attacker.refused(route, body.replace("NUMBERS", NUMBERS), 422, field, sentence)


def test_too_many_embeddings_are_refused(attacker):
    many = '{"embeddings":[%s[1]]}' % ("[1]," * 64)
    attacker.refused("/search/batch", many, 413, "embeddings", "embeddings has 65 entries")
    numbers = '{"embeddings":[[%s0]]}' % ("0," * 40_000)
    attacker.refused("/search/batch", numbers, 413, None, "more than 32768 values")
