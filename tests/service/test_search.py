import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

import pytest

from service.wire.answers import BatchAnswer, DocumentAnswer, FacetsAnswer, InfoAnswer, SearchAnswer
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.index.building.build import build_index
from swiftlet.index.building.settings import BuildSettings
from swiftlet.search.searcher import Searcher
from swiftlet.types import Document, Hit

QUERIES = ["how is bread baked", "what makes the sea rise", "ICE ❄ café", "who dances\tfor honey?"]


def plain(hits: list[Hit], marks: str | None = None) -> list[dict[str, object]]:
    return [
        {
            "document_id": hit.document_id,
            "score": hit.score,
            "title": hit.title,
            "passage": {
                "passage_id": hit.passage.passage_id,
                "start": hit.passage.start,
                "end": hit.passage.end,
                "text": hit.passage.text,
                **(
                    {} if marks is None else {"highlights": [list(span) for span in hit.highlights]}
                ),
            },
            "metadata": hit.metadata,
        }
        for hit in hits
    ]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize(
    "options",
    [{}, {"mode": "dense"}, {"mode": "lexical"}, {"mode": "hybrid", "weight": 0}, {"weight": 0.25},
     {"fusion": "rrf"}, {"offset": 2}, {"offset": 59, "mode": "dense"}, {"min_score": 0.3},
     {"top_k": 1000}, {"highlight": "words"}, {"highlight": "sentence", "mode": "dense"},
     {"filter": None}, {"filter": {"topic": "bread", "length": {"gte": 8}}},
     {"filter": {"length": [1, 2]}, "offset": 2},
     {"filter": {"not": {"topic": {"prefix": "b"}}}, "mode": "lexical"},
     {"sort": "length:desc"}, {"sort": "topic:asc", "offset": 2, "min_score": 0}],
)  # fmt: skip
def test_every_way_of_asking_gives_the_searchers_own_hits(client, small_searcher, query, options):
    asked = {"top_k": 3, **options}
    hits = small_searcher.search(query, **asked).hits
    expected = plain(hits, options.get("highlight"))
    answer = client.post("/search", json={"query": query, **asked})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["hits"] == expected
    link = {"q": query, **asked}
    if "filter" in link:
        link["filter"] = json.dumps(link["filter"])
    assert client.get("/search", params=link).content == answer.content
    batch = client.post("/search/batch", json={"queries": ["other", query], **asked}).json()
    assert batch["results"][1] == {"hits": expected}
    assert batch["index"] == answer.json()["index"]


def test_a_context_is_the_searchers_own(client, small_searcher):
    asked = {"format": "context", "max_tokens": 300}
    expected = small_searcher.context(QUERIES[0], 300)
    answer = client.post("/search", json={"query": QUERIES[0], **asked})
    body = SearchAnswer.model_validate_json(answer.content)
    assert body.context is not None
    assert body.context.model_dump() == asdict(expected)
    assert body.hits == []
    assert body.next == ""
    assert client.get("/search", params={"q": QUERIES[0], **asked}).content == answer.content
    few = client.post("/search", json={"query": QUERIES[0], "top_k": 2, **asked}).json()
    assert len({each["document_id"] for each in few["context"]["excerpts"]}) == 2
    refused = client.post("/search", json={"query": "ice", **asked, "group_by": "topic"})
    assert (refused.status_code, refused.json()["field"]) == (422, "group_by")
    assert "context" not in client.post("/search", json={"query": "ice"}).json()


@pytest.mark.parametrize("chosen", [None, {"length": {"gte": 8}, "topic": ["bees", "chess"]}])
def test_facets_are_counted_by_the_searcher(client, small_searcher, chosen):
    expected = small_searcher.facets(chosen)
    answer = client.get("/facets", params={"filter": json.dumps(chosen)} if chosen else {}).json()
    assert answer["facets"] == {
        field: [{"value": value, "count": count} for value, count in values]
        for field, values in expected.items()
    }
    assert answer["index"] == client.get("/search?q=x").json()["index"]


def test_facets_have_all_digits_of_integers(tmp_path, make_application):
    numbers = [-(2**53) - 1, 2.5, 8, 2**53 + 1, 2**63 - 1]
    documents = [Document(f"{each}", "text", metadata={"number": each}) for each in numbers]
    build_index(documents, DEFAULT_ENCODER, tmp_path / "index", BuildSettings(facets=("number",)))
    with Searcher.open(tmp_path / "index", DEFAULT_ENCODER) as searcher:
        answer = make_application(searcher).ask("GET", "/facets")
    written = [f'{{"value":{each},"count":1}}' for each in numbers]
    assert f'{{"number":[{",".join(written)}]}}' in answer.text
    read = FacetsAnswer.model_validate_json(answer.text).facets["number"]
    assert [each.value for each in read] == numbers


def test_an_index_without_facets_has_none_to_count(tmp_path, make_application):
    build_index([Document("a", "text")], DEFAULT_ENCODER, tmp_path / "index")
    with Searcher.open(tmp_path / "index", DEFAULT_ENCODER) as searcher:
        ask = make_application(searcher).ask
        assert ask("GET", "/facets").json()["facets"] == {}
        index = ask("GET", "/info").json()["index"]
        assert (index["facets"], index["fields"]) == ([], [])
        refused = ask("GET", '/facets?filter={"a":1}').json()
        assert refused["detail"] == "the filter names 'a', but no document has metadata"


def test_leaving_out_the_text_leaves_out_nothing_else(client):
    asked = {"query": QUERIES[0], "top_k": 60}
    whole = client.post("/search", json=asked).json()
    bare = client.post("/search", json={**asked, "include_text": False}).json()
    assert all(hit["passage"].pop("text") for hit in whole["hits"])
    assert bare == whole
    by_link = client.get("/search", params={"q": QUERIES[0], "top_k": 60, "include_text": "false"})
    assert by_link.json() == whole


def test_answers_have_exactly_the_fields_of_their_schemas(client):
    answers = {
        SearchAnswer: client.post("/search", json={"query": "x"}),
        BatchAnswer: client.post("/search/batch", json={"queries": QUERIES}),
        DocumentAnswer: client.get("/documents/bread-20"),
        InfoAnswer: client.get("/info"),
        FacetsAnswer: client.get("/facets"),
    }
    for model, answer in answers.items():
        read = model.model_validate_json(answer.content, strict=True)
        assert read.model_dump(exclude_unset=True) == answer.json()


def test_a_batch_answers_in_the_order_of_its_queries(client):
    queries = [f"{query} {number}" for number in range(16) for query in QUERIES]
    batch = client.post("/search/batch", json={"queries": queries}).json()["results"]
    assert batch == [
        {"hits": client.post("/search", json={"query": query}).json()["hits"]} for query in queries
    ]


def test_the_same_query_gives_the_same_bytes_under_load(client):
    def ask(number: int) -> tuple[int, bytes]:
        which = number % len(QUERIES)
        if number % 10 == 9:
            client.post("/search/batch", json={"queries": QUERIES * 4})
        return which, client.post("/search", json={"query": QUERIES[which]}).content

    alone = dict(map(ask, range(len(QUERIES))))
    with ThreadPoolExecutor(8) as pool:
        assert all(content == alone[which] for which, content in pool.map(ask, range(120)))


@pytest.mark.parametrize("length", [1, 20])
def test_a_stored_document_comes_back_whole(client, small_documents, length):
    document = next(d for d in small_documents if d.document_id == f"violin-{length}")
    assert client.get(f"/documents/{document.document_id}").json() == {
        "document_id": document.document_id,
        "title": document.title,
        "text": document.text,
        "metadata": document.metadata,
    }


def test_any_id_and_any_metadata_are_returned_unchanged(tmp_path, make_application):
    ids = ["a/b//c d?é#%2F+", "/health/live", "ü" * 80, "x/"]
    metadata = {"nan": float("nan"), "big": 2**80, "deep": [{"é\u2028": None}]}
    documents = [Document(name, f"text of {name}", metadata=metadata) for name in ids]
    build_index(documents, DEFAULT_ENCODER, tmp_path / "index")
    searcher = Searcher.open(tmp_path / "index", DEFAULT_ENCODER)
    application = make_application(searcher)
    for name in ids:
        answer = application.ask("GET", f"/documents/{quote(name, safe='')}")
        assert answer.json()["document_id"] == name
    hits = application.ask("POST", "/search", json={"query": "text"})
    # Strictly JSON, which has no NaN.
    json.loads(hits.content, parse_constant=pytest.fail)
    assert hits.json()["hits"][0]["metadata"] == {**metadata, "nan": None}
    searcher.close()


def test_info_describes_the_index_and_the_encoder_in_use(client, small_searcher):
    info = client.get("/info").json()
    assert info["index"]["num_documents"] == 60
    assert info["index"]["num_passages"] == small_searcher.num_passages
    assert info["index"]["recall"]["recall@10"] == 1.0
    assert info["index"]["modes"] == list(small_searcher.modes)
    assert info["index"]["weight"] == small_searcher.weight
    assert info["index"]["facets"] == ["topic", "length"]
    assert info["index"]["fields"] == ["length", "topic"]
    assert info["embedding_space"] == small_searcher.encoder.embedding_space
    assert info["encoder"]["dim"] == small_searcher.encoder.dim
    assert info["limits"]["max_top_k"] == 1000
    assert client.get("/search?q=x").json()["index"] == info["index"]["fingerprint"]
    assert small_searcher.index_manifest.fingerprint.startswith(info["index"]["fingerprint"])


@pytest.mark.parametrize("order", [{}, {"sort": "length:asc", "min_score": 0.1}])
def test_a_search_is_continued_by_its_cursor_without_repeats_and_gaps(client, order):
    asked: dict[str, Any] = {"query": "How do volcanoes erupt?", "top_k": 7, **order}
    whole = client.post("/search", json=asked | {"top_k": 60}).json()["hits"]
    answer = client.post("/search", json=asked).json()
    found = answer["hits"]
    while "next" in answer:
        answer = client.post("/search", json=asked | {"cursor": answer["next"]}).json()
        found += answer["hits"]
    assert found == whole
    lengths = [hit["metadata"].get("length") for hit in found]
    assert (lengths == sorted(lengths)) == ("sort" in order)
    link = "/search?q=volcanoes&top_k=2"
    cursor = client.get(link).json()["next"]
    assert len(client.get(f"{link}&cursor={cursor}").json()["hits"]) == 2
    assert "next" not in client.post("/search", json=asked | {"fusion": "rrf"}).json()


@pytest.mark.parametrize(
    "other",
    [
        {"query": "tea"},
        {"mode": "dense"},
        {"weight": 0.1},
        {"filter": {"topic": "tea"}},
        {"min_score": 0.0},
        {"sort": "length:asc"},
    ],
)
def test_a_cursor_continues_only_its_own_search(client, other):
    asked: dict[str, Any] = {"query": "bread", "top_k": 3}
    cursor = client.post("/search", json=asked).json()["next"]
    asked["cursor"] = cursor
    same = {"top_k": 5, "mode": "hybrid", "filter": {}}
    assert client.post("/search", json=asked | same).is_success
    answer = client.post("/search", json=asked | other)
    assert answer.status_code == 422
    assert "the cursor is of another search" in answer.json()["detail"]
    answer = client.post("/search", json=asked | {"cursor": f"{cursor}0"})
    assert answer.status_code == 422
    assert "the index has changed since it gave this cursor" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("plain", "idle"), [({"mode": "dense"}, {"weight": 0.3}), ({}, {"group_size": 5})]
)
def test_clients_may_send_values_without_an_effect(client, plain, idle):
    asked = {"query": "bread", **plain}
    expected = client.post("/search", json=asked).json()
    assert client.post("/search", json=asked | idle).json() == expected


def test_groups_have_the_best_documents_of_each_value(client):
    asked = {"query": "How do volcanoes erupt?", "group_by": "topic", "group_size": 2, "top_k": 4}
    answer = client.post("/search", json=asked).json()
    whole = client.post("/search", json={"query": asked["query"], "top_k": 60}).json()["hits"]
    expected: dict[str, list[Any]] = {}
    for hit in whole:
        expected.setdefault(hit["metadata"]["topic"], []).append(hit)
    groups = [{"value": value, "hits": hits[:2]} for value, hits in expected.items()]
    assert answer["groups"] == groups[:4]
    assert answer["hits"] == [group["hits"][0] for group in groups[:4]]
    assert "groups" not in client.post("/search", json={"query": "bread"}).json()
