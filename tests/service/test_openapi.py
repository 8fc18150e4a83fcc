import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from retrieval.searcher import Searcher
from service.problems import PROBLEMS
from service.schemas import Limits

ROUTES = {
    "/search": {"get", "post"},
    "/search/batch": {"post"},
    "/v1/embeddings": {"post"},
    "/documents/{document_id}": {"get"},
    "/info": {"get"},
    "/health/live": {"get"},
    "/health/ready": {"get"},
    "/metrics": {"get"},
    "/openapi.json": {"get"},
    "/docs": {"get"},
    "/admin/reload": {"post"},
}
STATUSES = {
    ("post", "/search"): {200, 400, 413, 422, 429, 500, 503, 504},
    ("get", "/search"): {200, 422, 429, 500, 503, 504},
    ("post", "/search/batch"): {200, 400, 413, 422, 429, 500, 503, 504},
    ("post", "/v1/embeddings"): {200, 400, 413, 422, 429, 500, 503, 504},
    ("get", "/documents/{document_id}"): {200, 404, 429, 500, 503, 504},
    ("post", "/admin/reload"): {200, 400, 401, 403, 409, 413, 422, 500},
    ("get", "/info"): {200, 500, 503},
    ("get", "/health/live"): {200, 500},
    ("get", "/health/ready"): {200, 500, 503},
}


@pytest.fixture(scope="module")
def document(client: httpx.Client) -> dict[str, Any]:
    return client.get("/openapi.json").json()


def references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from references(item)


def test_every_route_documents_every_status_it_can_end_in(document: dict[str, Any]) -> None:
    assert {path: set(methods) for path, methods in document["paths"].items()} == ROUTES
    for (method, path), statuses in STATUSES.items():
        responses = document["paths"][path][method]["responses"]
        assert set(map(int, responses)) == statuses
        for status, response in responses.items():
            (media_type,) = response["content"]
            assert (media_type == "application/problem+json") == (status != "200")
            assert set(response["headers"]) == {"X-Request-Id", "Server-Timing"}


def test_the_document_holds_together(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")
    for reference in set(references(document)):
        assert reference.removeprefix("#/components/schemas/") in document["components"]["schemas"]
    operations = [op for path in document["paths"].values() for op in path.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    for path, methods in document["paths"].items():
        for operation in methods.values():
            declared = {p["name"] for p in operation.get("parameters", []) if p["in"] == "path"}
            assert declared == set(re.findall(r"{(\w+)}", path))


def test_the_document_states_the_bounds_at_work(
    make_application: Callable[..., Any], small_searcher: Searcher
) -> None:
    limits = Limits(max_query_chars=7, max_top_k=5, max_batch_queries=3)
    paths = make_application(small_searcher, limits).ask("GET", "/openapi.json").json()["paths"]
    body = paths["/search"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    query, top_k = body["properties"]["query"], body["properties"]["top_k"]
    assert (query["minLength"], query["maxLength"]) == (1, 7)
    assert (top_k["minimum"], top_k["maximum"], top_k["default"]) == (1, 5, 5)
    assert (body["required"], body["additionalProperties"]) == (["query"], False)
    batch = paths["/search/batch"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert batch["properties"]["queries"]["maxItems"] == 3
    assert batch["properties"]["queries"]["items"]["maxLength"] == 7
    parameters = {p["name"]: p for p in paths["/search"]["get"]["parameters"]}
    assert [name for name, p in parameters.items() if p["required"]] == ["q"]
    assert parameters["top_k"]["schema"]["maximum"] == 5


def test_the_page_of_the_document_needs_no_other_host(
    client: httpx.Client, document: dict[str, Any]
) -> None:
    page = client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert not re.search(r"(https?:)?//|<script", page.text)
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"{method.upper()} {path}" in page.text


def test_the_type_of_every_problem_leads_to_its_place_on_the_page(client: httpx.Client) -> None:
    page = client.get("/docs").text
    for kind in PROBLEMS.values():
        assert page.count(f'id="{kind.name}"') == 1
