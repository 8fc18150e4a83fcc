"""Titles that the service suggests while a query is typed."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event

from service.live import suggestions
from service.wire.requests import Limits
from swiftlet.index.documents.store import DocumentStore
from swiftlet.index.parts.search_parts import FixedIndex
from swiftlet.search.searcher import Searcher


def test_a_title_with_a_typing_error_is_suggested_with_its_document(
    make_application, small_searcher
):
    application = make_application(small_searcher)
    assert application.ask("GET", "/suggest?q=volcnao+20").json() == {
        "suggestions": [
            {"document_id": "volcano-20", "title": "Volcano 20", "highlights": [[0, 7], [8, 10]]}
        ]
    }
    assert application.ask("HEAD", "/suggest?q=tea").status_code == 200
    metrics = application.ask("GET", "/metrics").text
    assert 'swiftlet_requests_total{route="/suggest",status="200"} 2.0' in metrics
    assert 'swiftlet_requests_total{route="/suggest",status="504"} 0.0' in metrics


def test_a_request_waits_for_the_titles_until_its_deadline_and_a_later_one_has_them(
    make_application, small_searcher
):
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
    make_application, small_searcher, monkeypatch, caplog
):
    monkeypatch.setattr(suggestions, "MOST_DOCUMENTS", small_searcher.num_documents - 1)
    application = make_application(small_searcher)
    for _ in range(2):
        assert application.ask("GET", "/suggest?q=volcano").json() == {"suggestions": []}
    assert caplog.text.count("no titles are suggested: the index has 60 documents") == 1
