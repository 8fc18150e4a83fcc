"""Judging in a service: the routes, and the page in a real Chromium."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect

from swiftlet.corpora.trec import read_qrels
from swiftlet.progress import Silence
from swiftlet.relevance.judgements import read_judgements
from swiftlet.relevance.pool import Pool, PooledQuery, new_pool, pooled, read_pool, write_pool
from swiftlet.search.searcher import Searcher
from tests.polling import wait_until
from tests.service.conftest import Server, running
from tests.small_disk import small_disk  # noqa: F401 - a fixture

KEY = "an-admin-key-of-tests"
ADMIN = {"Authorization": f"Bearer {KEY}"}
QUERIES = ["where is lava?", "how is bread baked", "who dances for honey?"]
WAIT_MS = 100_000


@pytest.fixture(scope="module")
def pool(small_searcher: Searcher) -> Pool:
    return pooled(new_pool(QUERIES), [small_searcher], 5, Silence())


@pytest.fixture(scope="module")
def folder(pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("judging") / "judgements"
    write_pool(place, pool)
    return place


@pytest.fixture(scope="module")
def judging(small_index: Path, folder: Path) -> Iterator[Server]:
    with running(small_index, judgements=folder, admin_keys=KEY) as server:
        yield server


def grades(folder: Path, judge: str) -> dict[tuple[str, str], int]:
    return read_judgements(folder, read_pool(folder).pairs).of(judge)


def give(server: Server, judge: str, pair: Any, grade: Any) -> httpx.Response:
    body = {"judge": judge, "query_id": pair[0], "document_id": pair[1], "grade": grade}
    with server.client() as client:
        return client.post("/judge/judgements", json=body, headers=ADMIN)


def pool_of(server: Server, judge: str) -> httpx.Response:
    with server.client() as client:
        return client.get("/judge/pool", params={"judge": judge}, headers=ADMIN)


def test_a_judge_gets_the_pool_with_the_own_grades_alone(judging: Server, pool: Pool) -> None:
    assert give(judging, "Ann", pool.pairs[0], 3).json() == {"judged": 1}
    assert give(judging, "Bob", pool.pairs[1], 0).json() == {"judged": 1}
    answer = pool_of(judging, " Ann ").json()
    assert (answer["judge"], answer["left_out"]) == ("Ann", 0)
    assert [each["query"] for each in answer["queries"]] == [each.text for each in pool.queries]
    documents = [each for query in answer["queries"] for each in query["documents"]]
    assert [each["document_id"] for each in documents] == [name for _, name in pool.pairs]
    assert [each["grade"] for each in documents] == [3, *[None] * (len(pool) - 1)]
    first = next(pool.documents)[1]
    assert documents[0]["passage"] == first.passage
    assert documents[0]["highlights"] == [[*each] for each in first.highlights]


def test_grades_are_kept_taken_back_and_among_the_qrels(
    judging: Server, folder: Path, pool: Pool
) -> None:
    pairs = pool.pairs[2:4]
    answers = [give(judging, "Cid", pair, 2).json() for pair in pairs]
    assert answers == [{"judged": 1}, {"judged": 2}]
    assert give(judging, "Cid", pairs[1], None).json() == {"judged": 1}
    assert grades(folder, "Cid") == {pairs[0]: 2}
    query_id, document_id = pairs[0]
    qrels = read_qrels(folder / "qrels" / "test.tsv")
    assert qrels[query_id][document_id] == 2
    assert pairs[1][1] not in qrels.get(pairs[1][0], {})


def test_many_requests_at_once_lose_nothing(judging: Server, folder: Path, pool: Pool) -> None:
    names = [f"Judge {number}" for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        answers = threads.map(
            lambda name: [give(judging, name, pair, 1).status_code for pair in pool.pairs[:5]],
            names,
        )
        assert {status for each in answers for status in each} == {200}
    assert [len(grades(folder, name)) for name in names] == [5] * 8


@pytest.mark.parametrize(
    ("judge", "pair", "grade", "sentence"),
    [
        ("llm:m", None, 1, "the judge is 'llm:m', but a name of 1 to 64 characters"),
        ("", None, 1, "judge is empty; the name of a judge"),
        ("Ann", None, 4, "a grade from 0 to 3, or null to take it back, is expected"),
        ("Ann", None, True, "grade is true; a grade from 0 to 3"),
        ("Ann", ("q", "d"), 1, "the pool has no document 'd' for the query 'q'"),
    ],
)
def test_bad_judgements_are_refused_in_one_sentence(
    judging: Server, pool: Pool, judge: str, pair: Any, grade: Any, sentence: str
) -> None:
    answer = give(judging, judge, pair or pool.pairs[0], grade)
    assert answer.status_code == 422
    assert sentence in answer.json()["detail"]


def test_both_routes_need_the_admin_key(judging: Server) -> None:
    with judging.client() as client:
        assert client.get("/judge/pool?judge=Ann").status_code == 401
        assert client.post("/judge/judgements", json={}).status_code == 401
        assert client.get("/judge/pool", headers=ADMIN).status_code == 422


def test_without_the_setting_there_are_no_judgements(client: httpx.Client) -> None:
    assert client.get("/judge/pool?judge=Ann").status_code == 404


def test_documents_that_the_index_lacks_are_left_out_and_counted(
    small_index: Path, pool: Pool, tmp_path: Path
) -> None:
    def renamed(query: PooledQuery, count: int) -> PooledQuery:
        documents = [
            replace(each, document_id=f"gone {n}") if n < count else each
            for n, each in enumerate(query.documents)
        ]
        return replace(query, documents=documents)

    write_pool(tmp_path, Pool([renamed(each, 2) for each in pool.queries]))
    with running(small_index, judgements=tmp_path, admin_keys=KEY) as server:
        answer = pool_of(server, "Ann").json()
        assert answer["left_out"] == 2 * len(pool.queries)
        assert "gone 0" not in str(answer["queries"])
        write_pool(tmp_path, Pool([renamed(each, 100) for each in pool.queries]))
        refused = pool_of(server, "Ann")
        assert refused.status_code == 503
        assert "it is the pool of another index" in refused.json()["detail"]
        (tmp_path / "pool.json").unlink()
        refused = pool_of(server, "Ann")
        assert refused.status_code == 503
        assert "there is no pool.json to judge" in refused.json()["detail"]


def fill(disk: Path) -> None:
    with suppress(OSError), (disk / "rest").open("wb", buffering=0) as rest:
        while True:
            rest.write(b"x" * 4_096)


def test_a_full_disk_is_said_and_loses_nothing(
    small_index: Path,
    pool: Pool,
    small_disk: Path,  # noqa: F811
) -> None:
    write_pool(small_disk, pool)
    with running(small_index, judgements=small_disk, admin_keys=KEY) as server:
        assert give(server, "Ann", pool.pairs[0], 1).status_code == 200
        fill(small_disk)
        long = "Ann with a name that is long " * 2
        for pair in [*pool.pairs] * 10:
            refused = give(server, long, pair, 1)
            if refused.status_code != 200:
                break
        assert refused.status_code == 507
        assert "No space left on device" in refused.json()["detail"]
        assert grades(small_disk, "Ann") == {pool.pairs[0]: 1}
        (small_disk / "rest").unlink()
        assert give(server, "Ann", pool.pairs[1], 2).json() == {"judged": 2}
        assert read_judgements(small_disk, pool.pairs).num_damaged == 0


# The page


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    expect.set_options(timeout=WAIT_MS)
    faults: list[str] = []
    contexts = []

    def open_one(server: Server, width: int = 1280, **options: Any) -> Page:
        context = browser.new_context(
            base_url=server.url, viewport={"width": width, "height": 740}, **options
        )
        contexts.append(context)
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on(
            "console",
            lambda message: (
                faults.append(message.text) if "Content Security Policy" in message.text else None
            ),
        )
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert faults == []


def begin(page: Page, judge: str) -> None:
    """Begin by keys alone."""
    page.goto("/judge")
    page.get_by_label("Your name").focus()
    page.keyboard.type(judge)
    page.keyboard.press("Tab")
    page.keyboard.type(KEY)
    page.keyboard.press("Enter")
    expect(page.locator("#query")).to_be_visible()


@pytest.mark.check
def test_a_judge_needs_one_key_for_each_document(
    judging: Server, folder: Path, pool: Pool, open_page: Callable[..., Page]
) -> None:
    page = open_page(judging)
    begin(page, "Keys")
    words = page.locator("#progress-words")
    for number, (query, document) in enumerate(pool.documents):
        expect(page.locator("#query")).to_have_text(query.text)
        expect(page.locator("#title")).to_have_text(document.title)
        expect(page.locator("#passage")).to_have_text(document.passage)
        expect(words).to_have_text(f"Keys: {number} of {len(pool)} judged")
        page.keyboard.press("1234"[number % 4])
    expect(page.locator("#state")).to_have_text("All is judged. Thank you!")
    expected = {pair: number % 4 for number, pair in enumerate(pool.pairs)}
    assert wait_until(lambda: grades(folder, "Keys") == expected)


@pytest.mark.check
def test_undo_skip_stop_and_go_on(
    judging: Server, folder: Path, pool: Pool, open_page: Callable[..., Page]
) -> None:
    page = open_page(judging)
    begin(page, "Undoer")
    passage = page.locator("#passage")
    first, second, third = (each.passage for _, each in [*pool.documents][:3])
    page.keyboard.press("4")
    expect(passage).to_have_text(second)
    page.keyboard.press("u")
    expect(passage).to_have_text(first)
    expect(page.locator("#progress-words")).to_have_text(f"Undoer: 0 of {len(pool)} judged")
    page.keyboard.press("1")
    page.keyboard.press("s")
    expect(passage).to_have_text(third)
    page.keyboard.press("Backspace")
    expect(passage).to_have_text(second)
    page.keyboard.press("s")
    page.keyboard.press("2")
    assert wait_until(lambda: grades(folder, "Undoer") == {pool.pairs[0]: 0, pool.pairs[2]: 1})
    page.reload()  # it goes on, and what was skipped comes again
    expect(passage).to_have_text(second)
    for _ in range(len(pool) - 2):
        page.keyboard.press("s")
    expect(page.locator("#state")).to_contain_text("which you skipped")
    page.keyboard.press("Enter")  # on the button that goes through them
    expect(passage).to_have_text(second)
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_label("Your name")).to_be_visible()
    expect(page.get_by_label("Your name")).to_have_value("")


@pytest.mark.check
def test_the_next_document_is_there_before_the_grade_is_kept(
    judging: Server, folder: Path, pool: Pool, open_page: Callable[..., Page]
) -> None:
    page = open_page(judging)
    begin(page, "Fast")
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/judge/judgements", hold)
    page.keyboard.press("2")
    expect(page.locator("#passage")).to_have_text([*pool.documents][1][1].passage)
    page.keyboard.press("3")
    expect(page.locator("#passage")).to_have_text([*pool.documents][2][1].passage)
    assert len(held) == 1
    held[0].abort()
    expect(page.locator("#unkept")).to_contain_text("2 grades are not kept yet")
    page.unroute("**/judge/judgements")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#unkept")).to_be_empty()
    assert grades(folder, "Fast") == {pool.pairs[0]: 1, pool.pairs[1]: 2}


@pytest.mark.check
def test_a_wrong_key_and_a_service_without_judgements_are_said(
    judging: Server, server: Server, open_page: Callable[..., Page]
) -> None:
    for service, sentence in ((judging, "not accepted"), (server, "Set SWIFTLET_JUDGEMENTS")):
        page = open_page(service)
        page.goto("/judge")
        page.get_by_label("Your name").fill("Ann")
        page.get_by_label("Admin key").fill("a-wrong-key-of-the-tests")
        page.get_by_role("button", name="Begin").click()
        expect(page.locator("#state")).to_contain_text(sentence)
        expect(page.get_by_label("Admin key")).to_be_visible()


@pytest.mark.check
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_the_page_is_accessible(
    judging: Server,
    open_page: Callable[..., Page],
    scheme: Literal["light", "dark"],
    width: int,
) -> None:
    page = open_page(judging, width, color_scheme=scheme)
    page.goto("/judge")
    for view in ("form", "task"):
        if view == "task":
            begin(page, f"Axe {scheme}")
        violations = Axe().run(page)
        assert not violations.violations_count, violations.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
