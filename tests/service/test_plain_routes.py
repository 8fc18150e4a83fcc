"""Routes written by FastAPI's manual alone, with no field of the service's own models."""

from typing import Annotated

import pytest
from fastapi import Header, HTTPException, Path, Query
from fastapi.testclient import TestClient
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.routing import Mount

MEDIA_TYPE = "application/json"


class Item(BaseModel):
    name: str
    count: int = 0


@pytest.fixture
def client(make_application, small_searcher) -> TestClient:
    app = make_application(small_searcher).app

    @app.get("/items/{number}")
    async def item(
        number: Annotated[int, Path()],
        least: Annotated[int, Query(ge=0)] = 0,
        x_mark: Annotated[int, Header()] = 0,
    ) -> dict[str, int]:
        return {"number": number, "least": least, "mark": x_mark}

    @app.post("/items")
    async def add(item: Item) -> Item:
        return item

    @app.post("/pairs")
    async def pair(first: Item, second: Item) -> Item:
        return first

    @app.get("/refused/{status}")
    async def refused(status: int) -> None:
        raise HTTPException(status, "there is no such thing", {"X-Reason": "none"})

    return TestClient(app)


def test_they_answer_and_are_documented(client):
    with client:
        assert client.get("/items/3?least=2").json() == {"number": 3, "least": 2, "mark": 0}
        assert client.post("/items", json={"name": "a"}).json() == {"name": "a", "count": 0}
        assert "/items/{number}" in client.get("/openapi.json").json()["paths"]
        assert "/items/{number}" in client.get("/docs").text


@pytest.mark.parametrize(
    ("ask", "status", "detail"),
    [
        (lambda it: it.get("/items/x"), 422, "number: Input should be a valid integer"),
        (lambda it: it.get("/items/1?least=abc"), 422, "least: Input should be a valid integer"),
        (lambda it: it.get("/items/1?least=-1"), 422, "least: Input should be greater than or"),
        (lambda it: it.get("/items/1", headers={"x-mark": "a"}), 422, "x-mark: Input should be"),
        (lambda it: it.post("/items", json={}), 422, "name: Field required"),
        (lambda it: it.post("/items", json={"name": 1}), 422, "name: Input should be a valid str"),
        (
            lambda it: it.post("/items", content=b"{", headers={"content-type": MEDIA_TYPE}),
            400,
            "the body is not JSON: ",
        ),
        (lambda it: it.post("/pairs", json={"first": {"name": "a"}}), 422, "second: Field"),
        (
            lambda it: it.post("/pairs", json={"first": {"name": "a"}, "second": {}}),
            422,
            "second.name: Field required",
        ),
    ],
)
def test_a_bad_value_is_a_problem_that_names_its_field(client, ask, status, detail):
    answer = ask(client)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"].startswith(detail)


@pytest.mark.parametrize("status", [400, 401, 404, 405, 409, 418, 500, 503])
def test_an_http_exception_keeps_its_status_detail_and_headers(client, status):
    answer = client.get(f"/refused/{status}")
    assert answer.status_code == answer.json()["status"] == status
    assert answer.json()["detail"] == "there is no such thing"
    assert answer.headers["x-reason"] == "none"


def test_it_can_be_mounted_below_a_path(make_application, small_searcher):
    client = TestClient(Starlette(routes=[Mount("/below", make_application(small_searcher).app)]))
    for path in ("", "docs", "openapi.json", "search?q=bread", "page/page.js"):
        assert client.get(f"/below/{path}").status_code == 200
    refused = client.post("/below/info")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")
    assert refused.json()["type"] == "/below/docs#method-not-allowed"
    assert client.get("/below/openapi.json").json()["servers"] == [{"url": "/below"}]
