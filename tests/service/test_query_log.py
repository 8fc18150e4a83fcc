"""What a service keeps of searches and clicks, if it is asked to keep a log."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect
from prometheus_client import CollectorRegistry

from service.live.query_log import QueryLog
from swiftlet.relevance.log import Log, LoggedSearch, LogWriter
from tests.polling import wait_until
from tests.service.conftest import Server, running

KEY = "an-admin-key-of-tests"
WAIT_MS = 100_000
ADMIN = {"Authorization": f"Bearer {KEY}"}


def read(folder: Path) -> list[LoggedSearch]:
    return [*Log(folder).searches()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("query-log") / "log"


@pytest.fixture(scope="module")
def keeper(small_index, folder) -> Iterator[Server]:
    with running(small_index, query_log=folder, admin_keys=KEY) as server:
        yield server


def logged(keeper: Server, folder: Path, query: str, **further: Any) -> LoggedSearch:
    """The entry of a search, once it is written."""
    with keeper.client() as client:
        client.post("/search", json={"query": query, **further}).raise_for_status()
    return wait_until(lambda: next((each for each in read(folder) if each.query == query), None))


def test_a_search_is_logged_with_its_hits_its_fields_and_its_stages(keeper, folder):
    body = {"query": "where is lava?", "filter": {"topic": "volcanoes"}, "top_k": 2}
    with keeper.client() as client:
        answer = client.post("/search", json=body, headers={"X-Request-Id": "the-search"})
    entry = wait_until(
        lambda: next((each for each in read(folder) if each.id == "the-search"), None)
    )
    hits = answer.json()["hits"]
    assert [name for name, _ in entry.hits] == [hit["document_id"] for hit in hits]
    assert [score for _, score in entry.hits] == pytest.approx(
        [hit["score"] for hit in hits], abs=1e-5
    )
    assert (entry.query, entry.mode, entry.filter) == (body["query"], "hybrid", ["topic"])
    assert "volcanoes" not in str(entry.filter)
    assert {"encode", "dense"} <= set(entry.milliseconds)
    assert entry.index == answer.json()["index"]
    assert entry.is_plain


def test_scores_by_another_weight_or_fusion_are_marked(keeper, folder):
    assert not logged(keeper, folder, "by ranks", fusion="rrf").is_plain
    assert not logged(keeper, folder, "by a field", sort="length:asc").is_plain
    assert not logged(keeper, folder, "by a weight", weight=0.25).is_plain


def test_searches_of_one_client_have_one_session_and_no_address(keeper, folder):
    entries = [logged(keeper, folder, query) for query in ("first of two", "second of two")]
    with keeper.client() as client:
        client.get("/search?q=of another client", headers={"X-Forwarded-For": "10.0.0.7"})
    other = wait_until(
        lambda: next((each for each in read(folder) if each.query == "of another client"), None)
    )
    assert len({each.session for each in entries}) == 1 or entries[0].time // 3600 != (
        entries[1].time // 3600
    )
    assert other.session != entries[1].session
    written = "".join(path.read_text() for path in folder.iterdir())
    assert "10.0.0.7" not in written
    assert "127.0.0.1" not in written


def test_addresses_and_long_numbers_are_cut_out(keeper, folder):
    with keeper.client() as client:
        client.post("/search", json={"query": "mail of ann@example.org or +49 151 23456789, 2024"})
    assert (
        wait_until(
            lambda: next((each for each in read(folder) if each.query.startswith("mail")), None)
        ).query
        == "mail of … or …, 2024"
    )


def test_a_click_is_noted_by_the_id_of_the_search(keeper, folder):
    with keeper.client() as client:
        answer = client.post("/search", json={"query": "lava"})
        click = {
            "request_id": answer.headers["x-request-id"],
            "document_id": answer.json()["hits"][0]["document_id"],
        }
        answered = client.post("/feedback", json=click)
        assert answered.status_code == 204
        assert client.get("/info").json()["feedback"]
    assert wait_until(
        lambda: [each for each in Log(folder).clicks() if each.id == click["request_id"]]
    )


@pytest.mark.parametrize(
    "body", [{}, {"request_id": "a"}, {"request_id": "", "document_id": "a"},
             {"request_id": "a", "document_id": "x" * 10_000}]
)  # fmt: skip
def test_a_click_without_what_it_needs_is_refused(keeper, body):
    with keeper.client() as client:
        answer = client.post("/feedback", json=body)
    assert answer.status_code == 422
    assert answer.json()["detail"]


def test_the_report_needs_the_admin_key_and_names_what_was_searched(keeper, folder):
    logged(keeper, folder, "what is reported")
    with keeper.client() as client:
        assert client.get("/insight/report").status_code == 401
        report = client.get("/insight/report", headers=ADMIN).json()
    frequent = next(each for each in report["tables"] if each["name"] == "frequent")
    assert "what is reported" in [row[0] for row in frequent["rows"]]
    assert report["plot"].startswith("<svg")
    assert keeper.value('swiftlet_query_log_entries_total{outcome="dropped"}') == 0
    assert keeper.value('swiftlet_query_log_entries_total{outcome="written"}') > 0


def test_without_a_folder_nothing_is_logged_and_no_click_is_taken(client):
    click = {"request_id": "a", "document_id": "b"}
    assert client.post("/feedback", json=click).status_code == 404
    assert not client.get("/info").json()["feedback"]


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def make_log(tmp_path, registry) -> Callable[..., QueryLog]:
    def make(**options: Any) -> QueryLog:
        writer = LogWriter(tmp_path, most_bytes=2**20, days=30)
        return QueryLog(writer, registry, secret=b"secret", **options)

    return make


def click(log: QueryLog, number: int) -> None:
    log.clicked(f"search {number}", "a")


def test_what_the_disk_refuses_is_dropped_with_one_warning_until_it_can_be_written(
    make_log, registry, tmp_path, monkeypatch, caplog
):
    caplog.set_level(logging.INFO)
    log, append = make_log(), LogWriter.append
    is_full = True

    def refuse(writer: LogWriter, entries: list[Any]) -> None:
        if is_full:
            raise OSError(28, "No space left on device")
        append(writer, entries)

    monkeypatch.setattr(LogWriter, "append", refuse)
    click(log, 1)
    wait_until(lambda: "cannot be written: No space left" in caplog.text)
    click(log, 2)
    dropped = "swiftlet_query_log_entries_total", {"outcome": "dropped"}
    wait_until(lambda: registry.get_sample_value(*dropped) == 2)
    is_full = False
    click(log, 3)
    wait_until(lambda: "written again" in caplog.text)
    log.close()
    assert caplog.text.count("cannot be written") == 1
    assert [each.id for each in Log(tmp_path).clicks()] == ["search 3"]


def test_what_waits_is_written_at_the_end(make_log, tmp_path):
    log = make_log()
    for number in range(1_000):
        click(log, number)
    log.close()
    assert len([*Log(tmp_path).clicks()]) == 1_000


def test_hashed_queries_are_the_same_for_the_same_query_and_key_alone(small_index, tmp_path):
    with running(small_index, query_log=tmp_path, query_log_key="k") as server:
        with server.client() as client:
            for query in ("Rain ", "rain", "snow"):
                client.post("/search", json={"query": query}).raise_for_status()
        entries = wait_until(lambda: len(found := read(tmp_path)) == 3 and found)
    assert len({each.query for each in entries}) == 2
    assert not [path for path in tmp_path.iterdir() if "rain" in path.read_text().casefold()]


@pytest.mark.check
def test_the_page_reports_what_was_opened_and_shows_the_report(keeper, folder, browser):
    expect.set_options(timeout=WAIT_MS)
    page = browser.new_page(base_url=keeper.url)
    page.set_default_timeout(WAIT_MS)
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto("/?q=volcano")
    page.locator("#hits a").first.click()
    expect(page.locator("#document-title")).to_be_visible()
    assert wait_until(
        lambda: [
            each for each in Log(folder).clicks()
            if each.id in {search.id for search in read(folder) if search.query == "volcano"}
        ]
    )  # fmt: skip
    page.goto("/insight")
    page.get_by_label("Admin key").fill("a-wrong-key-of-the-tests")
    page.get_by_role("button", name="Show the report").click()
    expect(page.locator("#state")).to_contain_text("not accepted")
    page.get_by_label("Admin key").fill(KEY)
    page.get_by_role("button", name="Show the report").click()
    expect(page.get_by_role("heading", name="The most frequent queries")).to_be_visible()
    expect(page.locator("#frequent")).to_contain_text("volcano")
    themes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for theme in themes:
        page.emulate_media(color_scheme=theme)
        assert Axe().run(page).response["violations"] == []
    page.close()
    assert faults == []
