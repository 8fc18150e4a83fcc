"""Titles that the service suggests while a query is typed."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest

from service.live import suggestions
from service.opening import open_searcher
from service.settings import Settings
from service.wire.keys import ApiKey
from service.wire.requests import Limits
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.index.building.build import build_index
from swiftlet.index.documents.store import DocumentStore
from swiftlet.index.parts import FixedIndex
from swiftlet.search.searcher import Searcher
from swiftlet.types import Document
from tests.service.conftest import running

KEY = "the-write-key-of-the-tests"
BEARER = {"Authorization": f"Bearer {KEY}"}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    titles = {"tea": "Tea leaves", "ski": "Skiing downhill", "none": ""}
    documents = [Document(name, "A short text.", title) for name, title in titles.items()]
    out = tmp_path_factory.mktemp("titles") / "index"
    build_index(documents, DEFAULT_ENCODER, out)
    return out


@pytest.fixture(scope="module")
def client(index: Path) -> Iterator[httpx.Client]:
    with running(index, write_keys=KEY, threads=2) as server, server.client() as client:
        yield client


def suggested(client: httpx.Client, **fields: Any) -> list[str]:
    answer = client.get("/suggest", params=fields)
    assert answer.status_code == 200, answer.text
    return [suggestion["title"] for suggestion in answer.json()["suggestions"]]


def test_a_title_with_a_typing_error_is_suggested_with_its_document(client: httpx.Client) -> None:
    assert client.get("/suggest", params={"q": "skking down"}).json() == {
        "suggestions": [
            {"document_id": "ski", "title": "Skiing downhill", "highlights": [[0, 6], [7, 11]]}
        ]
    }
    assert client.head("/suggest?q=tea").status_code == 200
    metrics = client.get("/metrics").text
    assert 'swiftlet_requests_total{route="/suggest",status="200"} 2.0' in metrics
    assert 'swiftlet_requests_total{route="/suggest",status="504"} 0.0' in metrics


def test_titles_are_those_of_the_index_as_it_is_at_the_request(client: httpx.Client) -> None:
    def put(title: str) -> None:
        document = {"_id": "new", "title": title, "text": "A text."}
        answer = client.put("/documents", json={"documents": [document]}, headers=BEARER)
        assert answer.status_code == 200, answer.text

    assert suggested(client, q="coffee") == []
    for title, other in (("Coffee beans", "roasted"), ("Roasted beans", "coffee")):
        put(title)
        assert suggested(client, q="beans") == [title]
        assert suggested(client, q=other) == []
    assert client.delete("/documents/new", headers=BEARER).status_code == 200
    assert suggested(client, q="beans") == []
    assert suggested(client, q="tea") == ["Tea leaves"]


@pytest.mark.parametrize(
    ("query", "field", "detail"),
    [
        ("", "q", "q is missing; a text of 1 to 200 characters, not all blank is expected"),
        (f"q={'a' * 201}", "q", "q has 201 characters; a text of 1 to 200 characters"),
        ("q=tea&limit=21", "limit", "limit is 21; a whole number from 1 to 20 is expected"),
        ("q=tea&limit=x", "limit", 'limit is "x"; a whole number from 1 to 20 is expected'),
        ("q=tea&q=ski", "q", "q is given more than once"),
        ("q=tea&top_k=1", "top_k", "there is no field top_k; the fields are q, limit"),
    ],
)
def test_a_bad_request_is_refused_in_one_sentence(
    client: httpx.Client, query: str, field: str, detail: str
) -> None:
    answer = client.get(f"/suggest?{query}")
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert answer.json()["detail"].startswith(detail)


def test_a_reload_suggests_the_titles_of_the_other_index(
    make_application: Callable[..., Any], index: Path, small_index: Path, tmp_path: Path
) -> None:
    current = tmp_path / "current"
    current.symlink_to(small_index)
    load = partial(open_searcher, Settings(index=current, encoder=DEFAULT_ENCODER, threads=2))
    lock = ApiKey([KEY], variable="SWIFTLET_ADMIN_KEYS")
    application = make_application(load(), load=load, admin_key=lock)

    def titles(query: str) -> list[str]:
        answer = application.ask("GET", f"/suggest?q={query}")
        assert answer.is_success, answer.text
        found = answer.json()["suggestions"]
        return [each["title"] for each in found]

    assert titles("volcnao 20") == ["Volcano 20"]
    current.unlink()
    current.symlink_to(index)
    assert application.ask("POST", "/admin/reload", headers=BEARER).status_code == 200
    assert (titles("volcano"), titles("leav")) == ([], ["Tea leaves"])


def test_a_request_waits_for_the_titles_until_its_deadline_and_a_later_one_has_them(
    make_application: Callable[..., Any], small_searcher: Searcher
) -> None:
    go_on = Event()

    class SlowStore(DocumentStore):
        def all_titles(self) -> Iterator[list[tuple[str, str]]]:
            go_on.wait(60)
            return super().all_titles()

    parts = small_searcher.parts
    assert isinstance(parts.store, DocumentStore)
    slow = replace(parts, store=SlowStore(parts.store._path))
    searcher = Searcher(
        FixedIndex(slow, small_searcher.index_manifest), small_searcher.encoder_manifest
    )
    late = make_application(searcher, Limits(timeout_ms=30)).ask("GET", "/suggest?q=volcano")
    assert late.status_code == 504
    assert late.json()["detail"] == (
        "the titles of the documents are still being read: ask again later"
    )
    application = make_application(searcher)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(application.ask, "GET", "/suggest?q=volcano 20")
        assert application.ask("GET", "/search?q=volcano").status_code == 200
        assert not waiting.done()
        go_on.set()
        answer = waiting.result()
    assert [each["title"] for each in answer.json()["suggestions"]] == ["Volcano 20"]


def test_a_larger_index_has_no_suggestions_and_the_log_says_so(
    make_application: Callable[..., Any],
    small_searcher: Searcher,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(suggestions, "MOST_DOCUMENTS", small_searcher.num_documents - 1)
    application = make_application(small_searcher)
    for _ in range(2):
        assert application.ask("GET", "/suggest?q=volcano").json() == {"suggestions": []}
    assert caplog.text.count("no titles are suggested: the index has 60 documents") == 1
