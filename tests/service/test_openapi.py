import re
import sys
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from service.routes.documentation import BODIES
from service.wire.keys import ApiKey
from service.wire.problems import PROBLEMS
from service.wire.requests import Limits
from swiftlet.errors import QueryError
from swiftlet.text import check_query

STATUSES = {
    ("post", "/search"): {200, 400, 408, 413, 422, 429, 500, 503, 504},
    ("get", "/search"): {200, 422, 429, 500, 503, 504},
    ("post", "/search/batch"): {200, 400, 408, 413, 422, 429, 500, 503, 504},
    ("post", "/v1/embeddings"): {200, 400, 408, 413, 422, 429, 500, 503, 504},
    ("post", "/rerank"): {200, 400, 408, 413, 422, 429, 500, 503, 504},
    ("get", "/documents/{document_id}"): {200, 404, 429, 500, 503, 504},
    ("post", "/admin/reload"): {200, 400, 401, 403, 408, 409, 413, 422, 429, 500, 503},
    ("put", "/documents"): {200, 400, 401, 403, 408, 409, 413, 422, 429, 500, 503, 504, 507},
    ("post", "/documents/delete"): {
        200, 400, 401, 403, 408, 409, 413, 422, 429, 500, 503, 504, 507
    },
    ("delete", "/documents/{document_id}"): {
        200, 401, 403, 404, 409, 413, 422, 429, 500, 503, 504, 507
    },
    ("get", "/facets"): {200, 422, 429, 500, 503, 504},
    ("get", "/suggest"): {200, 422, 429, 500, 503, 504},
    ("get", "/info"): {200, 500, 503},
    ("get", "/weak"): {200, 500, 503},
    ("get", "/v1/models"): {200, 500, 503},
    ("get", "/health/live"): {200, 500},
    ("get", "/health/ready"): {200, 500, 503},
    ("get", "/metrics"): {200, 500},
    ("get", "/openapi.json"): {200, 500},
    ("get", "/docs"): {200, 500},
}  # fmt: skip
SEARCHING = [
    ("post", "/search"),
    ("get", "/search"),
    ("post", "/search/batch"),
    ("post", "/v1/embeddings"),
    ("get", "/v1/models"),
    ("post", "/rerank"),
    ("get", "/documents/{document_id}"),
    ("get", "/facets"),
    ("get", "/suggest"),
    ("get", "/info"),
    ("get", "/weak"),
]


@pytest.fixture(scope="module")
def document(client) -> dict[str, Any]:
    return client.get("/openapi.json").json()


def references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from references(item)


def test_every_route_documents_every_status_it_can_end_in(document):
    paths = document["paths"].items()
    assert {(method, path) for path, methods in paths for method in methods} == STATUSES.keys()
    for (method, path), statuses in STATUSES.items():
        responses = document["paths"][path][method]["responses"]
        assert set(map(int, responses)) == statuses
        for status, response in responses.items():
            (media_type,) = response["content"]
            assert (media_type == "application/problem+json") == (status != "200")
            headers = {"X-Request-Id", "Server-Timing"}
            headers |= {"Retry-After"} if status in {"429", "503"} else set()
            headers |= {"Connection"} if status == "408" else set()
            headers |= {"WWW-Authenticate"} if status == "401" else set()
            assert set(response["headers"]) == headers


def test_the_openapi_document_is_consistent(document):
    assert document["openapi"].startswith("3.1")
    for reference in set(references(document)):
        _, components, kind, name = reference.split("/")
        assert name in document[components][kind]
    operations = [op for path in document["paths"].values() for op in path.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    for path, methods in document["paths"].items():
        for operation in methods.values():
            declared = {p["name"] for p in operation.get("parameters", []) if p["in"] == "path"}
            assert declared == set(re.findall(r"{(\w+)}", path))


@pytest.mark.parametrize(
    ("prefix", "named"),
    [
        (None, ""), ("/swiftlet", "/swiftlet"), ("/a/b-1.2/", "/a/b-1.2"), ("//other.example", ""),
        ("https://other.example", ""), ("/a b", ""), ("/" + "a" * 200, ""), ("", ""),
    ],
)  # fmt: skip
def test_a_proxy_may_name_its_prefix(client, prefix, named):
    headers = {} if prefix is None else {"X-Forwarded-Prefix": prefix}
    servers = client.get("/openapi.json", headers=headers).json()["servers"]
    assert servers == [{"url": named or "."}]
    refused = client.get("/none", headers=headers).json()
    assert refused["type"] == f"{named}/docs#unknown-route"


def test_the_document_states_the_bounds_at_work(make_application, small_searcher):
    limits = Limits(max_query_chars=7, max_top_k=5, max_batch_queries=3, max_embeddings=4)
    document = make_application(small_searcher, limits).ask("GET", "/openapi.json").json()
    schemas = document["components"]["schemas"]
    body = schemas["SearchRequest"]
    query, top_k = body["properties"]["query"], body["properties"]["top_k"]
    assert (query["minLength"], query["maxLength"]) == (1, 7)
    assert (top_k["minimum"], top_k["maximum"], top_k["default"]) == (1, 5, 5)
    assert body["additionalProperties"] is False
    assert "required" not in body  # either a query or an embedding
    queries = schemas["BatchRequest"]["properties"]["queries"]
    assert (queries["maxItems"], queries["items"]["maxLength"]) == (3, 7)
    text, texts = schemas["EmbeddingRequest"]["properties"]["input"]["anyOf"]
    assert (text["type"], text["maxLength"]) == ("string", 7)
    assert (texts["type"], texts["maxItems"], texts["items"]) == ("array", 4, text)
    parameters = {p["name"]: p for p in document["paths"]["/search"]["get"]["parameters"]}
    assert [name for name, p in parameters.items() if p["required"]] == ["q"]
    assert parameters["top_k"]["schema"]["maximum"] == 5


def test_a_filter_is_an_object_in_a_body_and_json_in_a_link(document):
    for name in ("SearchRequest", "BatchRequest"):
        chosen = document["components"]["schemas"][name]["properties"]["filter"]
        assert [kind["type"] for kind in chosen["anyOf"]] == ["object", "null"]
        assert "docs/search.md" in chosen["description"]
    for path in ("/search", "/facets"):
        (schema,) = (
            parameter["schema"]
            for parameter in document["paths"][path]["get"]["parameters"]
            if parameter["name"] == "filter"
        )
        assert (schema["type"], schema["contentMediaType"]) == ("string", "application/json")


def is_searchable(text: str) -> bool:
    try:
        check_query(text)
    except QueryError:
        return False
    return True


def test_the_schema_s_pattern_of_a_query_accepts_the_same_texts_as_the_searcher(document):
    pattern = re.compile(
        document["components"]["schemas"]["SearchRequest"]["properties"]["query"]["pattern"]
    )
    characters = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF]
    for text in [*characters, "", "a\0", "\0a", " a\n", "\n \n"]:
        assert bool(pattern.search(text)) == is_searchable(text), ascii(text)


def test_the_openapi_document_names_the_key_of_each_route(make_application, small_searcher):
    search, admin = (
        ApiKey(["key"], variable=f"SWIFTLET_{who}_KEYS") for who in ("SEARCH", "ADMIN")
    )
    application = make_application(
        small_searcher, load=pytest.fail, search_key=search, admin_key=admin
    )
    document = application.ask("GET", "/openapi.json").json()
    locked = {
        (method, path): operation["security"]
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if "security" in operation
    }
    assert locked.pop(("post", "/admin/reload")) == [{admin.scheme_name: []}]
    assert locked == {route: [{search.scheme_name: []}] for route in SEARCHING}
    schemes = document["components"]["securitySchemes"]
    assert {(scheme["type"], scheme["scheme"]) for scheme in schemes.values()} == {
        ("http", "bearer")
    }
    page = application.ask("GET", "/docs").text
    assert page.count("Needs a key, one of SWIFTLET_SEARCH_KEYS.") == len(SEARCHING)


def test_the_page_of_the_document_needs_no_other_host(client, document):
    page = client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert not re.search(r"(https?:)?//|(href|src|action)=.?/", page.text)  # also below a prefix
    assert re.findall("<script.*?>", page.text) == ['<script type="module" src="page/try.js">']
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"{method.upper()} {path}" in page.text


def test_every_form_begins_with_a_body_that_its_route_takes(client, document):
    schemas = {
        path: operation["requestBody"]["content"]["application/json"]["schema"]
        for path, methods in document["paths"].items()
        for operation in methods.values()
        if "requestBody" in operation
    }
    assert BODIES.keys() == schemas.keys()
    assert client.get("/docs").text.count("<textarea") == len(BODIES)
    for path, body in BODIES.items():
        jsonschema.validate(body, {**schemas[path], "components": document["components"]})


def test_the_type_of_every_problem_leads_to_its_place_on_the_page(client):
    page = client.get("/docs").text
    for kind in PROBLEMS.values():
        assert page.count(f'id="{kind.name}"') == 1
