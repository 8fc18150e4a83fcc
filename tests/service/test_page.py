"""The search page, in a real Chromium against a real server."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Error, Locator, Page, Route, expect

from service.routes.page import CONTENT_SECURITY_POLICY, PAGE_FILES
from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.index.building.build import BuildSettings, build_index
from swiftlet.search.stages import STAGE_NAMES
from swiftlet.types import Document
from tests.service.conftest import Server, running

pytestmark = pytest.mark.check

QUERY = "how is bread baked"
SCHEMES = ["light", "dark"]
STAGES = ["queue", *STAGE_NAMES]
TYPING_PAUSE_MS = 150
WAIT_MS = 60_000
HOSTILE_TITLE = "Foxes 🦊 <script>window.owned = 1</script>"
HOSTILE_TEXT = (
    "🎉 Fireworks 🎆 light the sky over the harbour at midnight. " * 30
    + "A fox 🦊 sleeps in its den <img src=x onerror='window.owned = 1'> below the old oak. " * 8
    + "🚂 Trains carry coal and passengers over the mountain pass. " * 30
)

LONG = " ".join(["of the night"] * 20)
MARKUP = "<img src=x onerror='window.owned = 1'>"
REVERSED = "\u202eShips sail"

OpenPage = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[OpenPage]:
    """Opens pages of the service; none may throw an error or violate its own policy."""
    expect.set_options(timeout=WAIT_MS)
    faults: list[str] = []
    contexts = []

    def open_one(
        address: str = "/", url: str = "", clock: bool = False, search: Any = None, **options: Any
    ) -> Page:
        url = url or request.getfixturevalue("server").url
        context = browser.new_context(base_url=url, viewport={"width": 1280, "height": 800})
        contexts.append(context)
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        if width := options.pop("width", None):
            page.set_viewport_size({"width": width, "height": 740})
        page.emulate_media(**options)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on(
            "console",
            lambda message: (
                faults.append(message.text) if "Content Security Policy" in message.text else None
            ),
        )
        if search is not None:
            page.route("**/search", search)
        if clock:
            page.clock.install()
        page.goto(address)
        if clock:
            page.clock.pause_at(page.evaluate("Date.now() + 1000"))
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert not faults


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service over a document that is full of markup and emoji, and a plain one; no words."""
    documents = [
        Document(
            document_id="den/1 ?&#",
            title=HOSTILE_TITLE,
            text=HOSTILE_TEXT,
            metadata={"note": "<b>bold</b>"},
        ),
        Document(document_id="plain", title="", text="Ships sail by the wind.", metadata={}),
    ]
    out = tmp_path_factory.mktemp("hostile") / "index"
    build_index(documents, DEFAULT_ENCODER, out, BuildSettings(language=None))
    with running(out) as server:
        yield server


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service over documents with addresses, numbers, code, odd fields and odd titles."""
    code = "Counts words.\n\n>>> count('a b')\n2\n\nThat is all."
    page = {"url": "https://example.org/a b?<c>", "year": 2024, "pages": 123456, "share": 0.5}
    documents = [
        Document("words", code, title="Words", metadata=page),
        Document("script", "A script.", metadata={"url": "javascript:window.owned = 1"}),
        Document("a", "Boats.", metadata={"__proto__": MARKUP, "x y": [True, "true", 1, " "]}),
        Document("nul", "Ships\0 sail by the wind.", title="Ships\0"),
        Document("long", f"{'Wind ' * 600}is strong.", title="Ships " * 500),
        Document(REVERSED, "Ships sail.", title=REVERSED, metadata={"url": "https://a.example"}),
        Document("blank", "\0 \0", title=" "),
        Document("deep/" * 50 + "last.txt", "Whales dive.", title="Whales"),
    ]
    out = tmp_path_factory.mktemp("odd") / "index"
    build_index(documents, DEFAULT_ENCODER, out, BuildSettings(facets=("__proto__", "x y")))
    with running(out) as server:
        yield server


def box(page: Page) -> Locator:
    return page.get_by_role("combobox", name="Search the documents")


def links(page: Page) -> Locator:
    return page.locator("#hits h3 a")


def fill(page: Page, query: str) -> None:
    """Type into the box of a page with a stopped clock, then advance the clock by the pause."""
    box(page).fill(query)
    page.clock.run_for(TYPING_PAUSE_MS)


def announcement(page: Page) -> Locator:
    return page.get_by_role("status")


def found(query: str) -> str:
    return f"/?q={quote(query)}"


def answer(
    route: Route, title: str = "Answer", status: int = 200, timing: str = "", **headers: str
) -> None:
    """Fulfil a search with one hit of that title, or with a problem of that title."""
    content: dict[str, Any] = {
        "title": title,
        "status": status,
        "detail": f"details of {title}",
        "request_id": "0123456789abcdef",
    }
    if status == 200:
        passage = {"passage_id": "a#0", "text": "Some text", "start": 0, "end": 9}
        hit = {"document_id": "a", "score": 0.25, "title": title, "passage": passage}
        content = {"hits": [{**hit, "metadata": {}}], "index": "0"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    kind = "application/json" if status == 200 else "application/problem+json"
    route.fulfill(
        status=status,
        body=json.dumps(content),
        headers={"Content-Type": kind, "Server-Timing": timing, **named},
    )


# Files and headers


def test_every_file_of_the_page_is_in_the_package_and_is_served() -> None:
    folder = files("service") / "page"
    assert {file.name for file in folder.iterdir()} == {name for name, _ in PAGE_FILES.values()}
    assert "/" in PAGE_FILES
    for file in folder.iterdir():
        assert 0 < len(file.read_bytes()) < 20_000


@pytest.mark.parametrize("path", PAGE_FILES)
def test_each_file_has_its_type_its_policy_and_is_sent_once(
    client: httpx.Client, path: str
) -> None:
    name, media_type = PAGE_FILES[path]
    first = client.get(path)
    assert first.content == (files("service") / "page" / name).read_bytes()
    assert first.headers["content-type"] == f"{media_type}; charset=utf-8"
    assert first.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert first.headers["cache-control"] == "no-cache"
    etag = first.headers["etag"]
    for tags in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        again = client.get(path, headers={"If-None-Match": tags})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == etag
        assert again.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert client.get(path, headers={"If-None-Match": '"other"'}).content == first.content
    head = client.head(path)
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", etag)
    assert client.post(path).status_code == 405


def test_the_page_is_counted_from_the_first_scrape_and_is_no_part_of_the_contract(
    client: httpx.Client,
) -> None:
    scrape = client.get("/metrics").text
    paths = client.get("/openapi.json").json()["paths"]
    for path in PAGE_FILES:
        assert f'swiftlet_requests_total{{route="{path}",status="304"}}' in scrape
        assert path not in paths


def test_the_markup_holds_no_script_style_or_handler_of_its_own(client: httpx.Client) -> None:
    markup = client.get("/").text
    assert re.findall(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=", markup) == []
    assert re.findall(r"(href|src|action)=.?/", markup) == []
    for path in PAGE_FILES:
        foreign = re.findall(r"(?:https?:)?//[a-z][^'\"\s]*", client.get(path).text)
        assert set(foreign) <= {"http://www.w3.org/2000/svg"}  # a name, which nothing fetches


# Searching


def test_the_page_sends_requests_only_to_its_own_service(open_page: OpenPage, server: Any) -> None:
    page = open_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(found(QUERY))
    expect(links(page)).to_have_count(10)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#passage")).to_be_visible()
    document = quote(page.locator("#document-metadata dd").first.inner_text())
    paths = {url.removeprefix(server.url).split("?")[0] for url in asked if url[:5] != "data:"}
    of_other_pages = {"/page/try.js", "/insight", "/page/insight.js"}
    of_other_pages |= {"/judge", "/page/judge.js", "/page/judge.css"}
    files = set(PAGE_FILES) - of_other_pages
    assert {*files, "/search", "/facets", "/info", "/weak", f"/documents/{document}"} == paths


def test_one_search_is_sent_when_typing_stops(open_page: OpenPage) -> None:
    asked: list[str] = []

    def search(route: Route) -> None:
        asked.append(route.request.post_data_json["query"])
        route.continue_()

    page = open_page(clock=True, search=search)
    expect(box(page)).to_be_focused()
    for letter in QUERY:
        page.keyboard.type(letter)
        page.clock.run_for(TYPING_PAUSE_MS - 1)
    assert asked == []
    page.clock.run_for(1)
    expect(links(page)).to_have_count(10)
    assert asked == [QUERY]
    fill(page, f"{QUERY}  ")  # the same query still
    fill(page, "violin")
    expect(links(page).first).to_have_text(re.compile("Violin"))
    assert asked == [QUERY, "violin"]


def test_hits_are_those_of_the_service_with_title_score_and_passage(
    open_page: OpenPage, client: httpx.Client
) -> None:
    hits = client.post("/search", json={"query": QUERY}).json()["hits"]
    page = open_page(found(QUERY))
    expect(links(page)).to_have_text([hit["title"] for hit in hits])
    expect(
        page.get_by_role("region", name=re.compile("^The first 10 documents in "))
    ).to_be_visible()
    for hit, passage in zip(hits, page.locator(".passage").all_inner_texts(), strict=True):
        sentences = passage.removeprefix("… ").removesuffix(" …")
        assert sentences.endswith(".")
        assert sentences in hit["passage"]["text"]
    expect(page.locator(".score")).to_have_text(
        [re.compile(rf"^Score\s*{hit['score']:.3f}$") for hit in hits]
    )
    for hit, bar in zip(hits, page.locator(".bar").all(), strict=True):
        widths = bar.evaluate("bar => [bar, bar.firstChild].map((e) => e.offsetWidth)")
        assert widths[1] == pytest.approx(max(0, hit["score"]) * widths[0], abs=1)
    names = [name.split()[0] for name in page.locator(".legend li").all_inner_texts()]
    # There is no filter, no boost, no sort and no re-ranker, and the embedding is cached.
    idle = {"filter", "tokenise", "encode", "boost", "sort", "rerank"}
    assert names == [*(stage for stage in STAGES if stage not in idle), "other"]


def test_the_stages_are_drawn_to_scale_and_read_aloud(open_page: OpenPage) -> None:
    timing = "queue;dur=1, tokenise;dur=1, encode;dur=6, dense;dur=2, total;dur=12.4"
    page = open_page(found("x"), search=lambda route: answer(route, timing=timing))
    expect(page.get_by_role("heading", level=2)).to_have_text("1 document in 12 ms")
    expect(announcement(page)).to_have_text("1 document found in 12 milliseconds")
    expect(page.locator(".legend li")).to_have_text(
        ["queue 1.0 ms", "tokenise 1.0 ms", "encode 6.0 ms", "dense 2.0 ms", "other 2.4 ms"]
    )
    widths = page.locator(".stacked span").evaluate_all("spans => spans.map((s) => s.offsetWidth)")
    shares = [width / sum(widths) for width in widths]
    assert shares == pytest.approx([1 / 12.4, 1 / 12.4, 6 / 12.4, 2 / 12.4, 2.4 / 12.4], abs=0.01)


def test_any_number_of_stages_is_drawn_with_a_colour_for_each(open_page: OpenPage) -> None:
    timing = ", ".join(f"stage{number};dur=1" for number in range(20)) + ", total;dur=20"
    page = open_page(found("x"), search=lambda route: answer(route, timing=timing))
    expect(page.locator(".legend li")).to_have_count(20)
    colours = page.locator(".stacked span, .swatch").evaluate_all(
        "spans => spans.map((span) => getComputedStyle(span).backgroundColor)"
    )
    assert len(colours) == 40
    assert "rgba(0, 0, 0, 0)" not in colours
    bar = colours[:20]
    assert bar == colours[20:]
    assert all(left != right for left, right in pairwise(bar))


def test_the_chosen_mode_is_searched_in_and_kept_in_the_address(
    open_page: OpenPage, client: httpx.Client
) -> None:
    page = open_page(found(QUERY))
    choice = page.get_by_role("radiogroup", name="Search by")
    expect(choice.locator("label")).to_have_text(["meaning and words", "meaning", "words"])
    expect(choice.get_by_role("radio", name="meaning and words")).to_be_checked()
    expect(links(page)).to_have_count(10)
    hits = client.post("/search", json={"query": QUERY, "mode": "lexical"}).json()["hits"]
    expect(page.locator(".passage mark").first).to_have_text(re.compile("^([Bb]read|[Bb]aked?)$"))
    choice.get_by_role("radio", name="words", exact=True).check()
    expect(page.locator(".score")).to_have_text([re.compile(f"{hit['score']:.3f}") for hit in hits])
    expect(page.locator(".legend li").nth(1)).to_have_text(re.compile("^lexical"))
    address = re.compile(r"\?q=how\+is\+bread\+baked&mode=lexical$")
    expect(page).to_have_url(address)
    links(page).first.click()
    expect(page).to_have_url(re.compile(r"&mode=lexical&document=bread-\d+$"))
    page.get_by_role("link", name="Results").click()
    expect(page).to_have_url(address)
    page.reload()
    expect(choice.get_by_role("radio", name="words", exact=True)).to_be_checked()
    expect(links(page)).to_have_text([hit["title"] for hit in hits])
    page.go_back()
    expect(page).to_have_url(re.compile("baked$"))
    expect(choice.get_by_role("radio", name="meaning and words")).to_be_checked()
    expect(links(page)).to_have_count(10)


def facet(page: Page, name: str) -> Locator:
    return page.get_by_role("group", name=name)


def test_chosen_values_filter_the_hits_and_the_counts_of_the_other_facets(
    open_page: OpenPage,
) -> None:
    page = open_page(found(QUERY))
    topic, length = facet(page, "topic"), facet(page, "length")
    expect(topic.locator("label")).to_have_count(12)
    expect(length.locator("label")).to_have_text([f"{n}12 documents" for n in (1, 2, 3, 8, 20)])
    expect(links(page)).to_have_count(10)
    topic.get_by_role("checkbox", name="bees").check()
    expect(links(page)).to_have_text([re.compile("^Bees")] * 5)
    expect(announcement(page)).to_have_text(re.compile("^5 documents found"))
    expect(length.locator("label")).to_have_text([f"{n}1 documents" for n in (1, 2, 3, 8, 20)])
    expect(topic.locator("label").first).to_have_text("bees5 documents")
    topic.get_by_role("checkbox", name="chess").check()  # any of both
    expect(topic.get_by_role("checkbox", name="chess")).to_be_focused()
    expect(length.locator("label").first).to_have_text("12 documents")
    expect(links(page)).to_have_count(10)
    length.get_by_role("checkbox", name=re.compile("^20 ")).check()  # and of this length
    expect(links(page)).to_have_text([re.compile("^(Bees|Chess) 20")] * 2)
    expect(topic.locator("label").nth(2)).to_have_text("bread1 documents")
    expect(length.locator("label").first).to_have_text("12 documents")
    expect(page.locator(".legend li").nth(1)).to_have_text(re.compile("^filter"))
    page.get_by_role("button", name="Remove the filter").click()
    expect(links(page)).to_have_count(10)
    expect(page.locator("#facets input:checked")).to_have_count(0)
    expect(page).to_have_url(re.compile("baked$"))


def test_the_chosen_values_are_kept_in_the_address(open_page: OpenPage) -> None:
    page = open_page(found(QUERY))
    tides = page.get_by_role("checkbox", name="tides")
    facet(page, "topic").get_by_text("4 more of topic").click()
    tides.check()
    expect(links(page)).to_have_text([re.compile("^Tides")] * 5)
    address = re.compile(r"baked&filter=" + re.escape(quote('{"topic":["tides"]}')) + "$")
    expect(page).to_have_url(address)
    links(page).first.click()
    expect(page.locator("#passage")).to_be_visible()
    expect(page.locator("#facets")).to_be_hidden()
    page.get_by_role("link", name="Results").click()
    expect(page).to_have_url(address)
    page.reload()
    expect(links(page)).to_have_count(5)
    expect(tides).to_be_checked()
    expect(tides).to_be_visible()  # unfolded
    box(page).fill("violin")
    expect(page).to_have_url(re.compile(r"\?q=violin&filter="))
    expect(links(page)).to_have_text([re.compile("^Tides")] * 5)
    page.go_back()
    page.go_back()
    expect(page).to_have_url(re.compile("baked$"))
    expect(links(page)).to_have_count(10)
    expect(tides).not_to_be_checked()


@pytest.mark.parametrize(
    "filter_",
    ["{", "3", '"x"', "[[1]]", '{"topic":{"gte":"a"}}', '{"topic":[{"a":1}],"colour":["red"]}'],
)
def test_what_no_check_box_can_show_is_taken_out_of_the_address(
    open_page: OpenPage, filter_: str
) -> None:
    page = open_page(f"{found(QUERY)}&filter={quote(filter_)}")
    remark = page.locator("#remark")
    expect(remark).to_have_text(
        "Left out, because the page cannot show it: the filter, or a part of it."
    )
    expect(page).to_have_url(re.compile(r"baked$"))
    expect(links(page)).to_have_count(10)
    links(page).first.click()
    expect(page).to_have_url(re.compile(r"baked&document=bread-\d+$"))
    expect(page.locator("#remark")).to_be_hidden()


def test_a_filter_with_a_single_value_is_shown_and_an_unknown_mode_left_out(
    open_page: OpenPage,
) -> None:
    single = quote('{"topic":"bees"}')
    page = open_page(f"{found(QUERY)}&mode=foo&filter={single}")
    expect(page.locator("#remark")).to_have_text(
        "Left out, because the page cannot show it: the mode."
    )
    expect(links(page)).to_have_text([re.compile("^Bees")] * 5)
    expect(facet(page, "topic").get_by_role("checkbox", name="bees")).to_be_checked()
    expect(page).to_have_url(re.compile("filter=" + re.escape(quote('{"topic":["bees"]}')) + "$"))
    page.goto(f"{found(QUERY)}&filter={single}")
    expect(links(page)).to_have_text([re.compile("^Bees")] * 5)
    expect(page.locator("#remark")).to_be_hidden()


def test_values_without_documents_stay_and_can_be_taken_back(open_page: OpenPage) -> None:
    chosen = quote('{"topic":["bread"],"length":[99]}')
    page = open_page(f"{found(QUERY)}&filter={chosen}")
    notice = page.get_by_role("region", name="Nothing found")
    expect(notice).to_contain_text("No document has the chosen values.")
    facet(page, "length").get_by_role("checkbox", name="99").click()
    expect(links(page)).to_have_text([re.compile("^Bread")] * 5)
    page.get_by_role("radio", name="words", exact=True).check()
    box(page).fill("zzz")
    expect(notice).to_contain_text("No document with the chosen values shares a word")
    page.get_by_role("button", name="Remove the filter").click()
    expect(notice).to_contain_text("No document shares a word")
    page.get_by_role("radio", name="meaning", exact=True).check()
    expect(links(page)).to_have_count(10)


def test_facets_are_folded_on_a_narrow_screen(open_page: OpenPage) -> None:
    page = open_page(found(QUERY), width=360)
    expect(links(page)).to_have_count(10)
    expect(facet(page, "topic")).to_be_hidden()
    page.locator("#facets > summary").click()
    page.get_by_role("checkbox", name="bees").check()
    expect(links(page)).to_have_count(5)
    expect(page.locator("#facets > summary")).to_have_text("Filter 1 chosen")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_an_index_without_facets_and_with_one_mode_offers_no_choice(
    open_page: OpenPage, hostile: Server
) -> None:
    page = open_page('/?q=ships&mode=lexical&filter={"note":["x"]}', url=hostile.url)
    expect(links(page)).to_have_count(2)
    expect(page).to_have_url(re.compile(r"\?q=ships$"))
    expect(page.locator("#facets")).to_be_hidden()
    expect(page.get_by_role("radiogroup")).to_be_hidden()


def test_the_forms_of_docs_send_requests_and_show_answers(
    open_page: OpenPage, locked_server: Any
) -> None:
    page = open_page("/docs", url=locked_server.url)
    page.get_by_text("Try POST /search", exact=True).click()
    form = page.locator('form[data-path="/search"][data-method="POST"]')
    form.get_by_role("button", name="Send").click()
    answer = form.get_by_role("status")
    expect(answer).to_contain_text("401 Unauthorized")
    page.get_by_label("The key that the forms send").fill(locked_server.settings["search_keys"])
    form.get_by_role("button", name="Send").click()
    expect(answer).to_contain_text('"document_id": "bread-')
    page.get_by_text("Try GET /documents/{document_id}", exact=True).click()
    form = page.locator('form[data-path="/documents/{document_id}"][data-method="GET"]')
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    form.get_by_label("document_id").fill("bread-1")
    form.get_by_role("button", name="Send").click()
    expect(form.get_by_role("status")).to_contain_text('"title": "Bread 1"')


def test_every_link_works_below_a_path_prefix_that_a_proxy_takes_off(
    open_page: OpenPage, server: Any
) -> None:
    page = open_page("/health/live")
    prefix = f"{server.url}/below"

    def forward(route: Route) -> None:
        assert route.request.url.startswith(f"{prefix}/"), route.request.url
        url = route.request.url.replace(prefix, server.url)
        route.fulfill(response=route.fetch(url=url))

    page.route(re.compile("^http"), forward)
    page.goto(f"/below{found(QUERY)}")
    links(page).first.click()
    expect(page.locator("#passage")).to_be_visible()
    page.get_by_role("link", name="Results").click()
    expect(links(page)).to_have_count(10)
    page.locator("#home-link").click()
    expect(page).to_have_url(f"{prefix}/")
    page.get_by_role("link", name="The service’s routes").click()
    expect(page).to_have_url(f"{prefix}/docs")
    page.get_by_text("Try GET /info", exact=True).click()
    form = page.locator('form[data-path="/info"]')
    form.get_by_role("button", name="Send").click()
    expect(form.get_by_role("status")).to_contain_text("200 OK")
    page.get_by_role("link", name="openapi.json").click()
    expect(page.locator("body")).to_contain_text('"openapi":"3.1')


def test_markup_in_a_facet_is_shown_as_text(open_page: OpenPage, odd: Server) -> None:
    page = open_page("/?q=boats", url=odd.url)
    expect(facet(page, "proto").locator(".value")).to_have_text(MARKUP)
    expect(facet(page, "x y").locator(".value")).to_have_text(["true", "1", "(blank)", "true"])
    facet(page, "x y").get_by_role("checkbox").nth(3).check()
    page.get_by_role("checkbox", name=MARKUP).check()
    expect(page.locator("#facets input:checked")).to_have_count(2)
    page.reload()
    expect(links(page)).to_have_count(1)
    expect(page.locator("#facets input:checked")).to_have_count(2)
    assert page.evaluate("window.owned") is None


def test_an_older_search_is_given_up_and_its_answer_never_shown(open_page: OpenPage) -> None:
    held: list[Route] = []

    def search(route: Route) -> None:
        if route.request.post_data_json["query"] == "old":
            held.append(route)
        else:
            answer(route, "New")

    page = open_page(search=search)
    with page.expect_event("requestfailed", lambda each: each.method == "POST") as failed:
        with page.expect_request("**/search"):
            box(page).fill("old")
        box(page).fill("new")
    assert failed.value.post_data_json == {"query": "old", "highlight": "words"}
    expect(links(page)).to_have_text(["New"])
    with suppress(Error):  # Chromium may have aborted the request already
        answer(held[0], "Old")
    box(page).fill("newer")
    expect(page).to_have_url(re.compile(r"q=newer$"))
    expect(links(page)).to_have_text(["New"])


def test_titles_of_documents_are_examples_of_queries(
    open_page: OpenPage, client: httpx.Client
) -> None:
    titles = client.get("/info").json()["index"]["examples"]
    assert 3 <= len(set(titles)) == len(titles) <= 5
    page = open_page()
    examples = page.get_by_role("list", name="Examples").get_by_role("link")
    expect(examples).to_have_text(titles)
    examples.nth(1).click()
    expect(box(page)).to_have_value(titles[1])
    expect(links(page).first).to_have_text(titles[1])
    page.go_back()
    expect(examples).to_have_count(len(titles))
    box(page).fill("bread")
    expect(links(page)).to_have_count(10)
    box(page).fill(" ")
    expect(page.get_by_role("heading", level=2)).to_have_text("Find documents by what they mean.")
    expect(page.locator("#home-size")).to_have_text(re.compile("^60 documents in [0-9]+ passages"))
    expect(page).to_have_url(re.compile("/$"))


def test_a_misspelt_title_is_offered_and_taken_by_keys_and_by_the_mouse(
    open_page: OpenPage,
) -> None:
    page = open_page()
    options = page.get_by_role("listbox", name="Titles").get_by_role("option")
    box(page).press_sequentially("volcnao 2")
    expect(options).to_have_text(["Volcano 2", "Volcano 20"])
    expect(options.first.locator("mark")).to_have_text(["Volcano", "2"])
    expect(box(page)).to_have_attribute("aria-expanded", "true")
    expect(page.locator("#suggestions-count")).to_have_text("2 titles below the box")
    expect(links(page)).to_have_count(10)  # the search for what was typed goes on
    for key, active in (("ArrowUp", 1), ("ArrowDown", None), ("ArrowDown", 0)):
        page.keyboard.press(key)
        chosen = [str(number == active).lower() for number in range(2)]
        found = options.evaluate_all("all => all.map((option) => option.ariaSelected)")
        assert found == chosen
        pointed = box(page).get_attribute("aria-activedescendant")
        assert pointed == (None if active is None else options.nth(active).get_attribute("id"))
        expect(box(page)).to_be_focused()
    page.keyboard.press("Enter")
    expect(box(page)).to_have_value("Volcano 2")
    expect(options).to_have_count(0)
    expect(box(page)).to_have_attribute("aria-expanded", "false")
    expect(page).to_have_url(re.compile(r"\?q=Volcano\+2$"))
    expect(links(page).first).to_have_text("Volcano 2")
    page.keyboard.press("ArrowDown")
    expect(links(page).first).to_be_focused()
    box(page).fill("glacier 20")
    expect(options).to_have_text(["Glacier 20"])
    options.first.click()
    expect(page).to_have_title("Glacier 20 · Swiftlet")
    expect(box(page)).to_have_value("Glacier 20")
    expect(options).to_have_count(0)


def test_suggestions_are_asked_for_once_from_two_letters_on_and_closed_by_escape(
    open_page: OpenPage,
) -> None:
    page = open_page(clock=True)
    asked: list[str] = []
    held: list[Route] = []

    def suggest(route: Route) -> None:
        asked.append(route.request.url.partition("?q=")[2].partition("&")[0])
        if asked[-1] == "he":
            held.append(route)
        else:
            route.continue_()

    page.route("**/suggest?*", suggest)
    options = page.locator("#suggestions li")
    for typed in ("h", "he"):
        fill(page, typed)
    box(page).fill("vol")
    page.clock.run_for(TYPING_PAUSE_MS - 1)
    fill(page, "volc")
    expect(options).to_have_count(5)
    with suppress(Error):  # the page has given it up
        held[0].fulfill(json={"suggestions": [{"document_id": "", "title": "A", "highlights": []}]})
    assert asked == ["he", "volc"]
    page.keyboard.press("Escape")
    expect(options).to_have_count(0)
    expect(box(page)).to_have_value("volc")
    fill(page, "volca")
    expect(options).to_have_count(5)
    page.locator("#about-open").focus()
    expect(options).to_have_count(0)
    page.unroute("**/suggest?*")
    page.route("**/suggest?*", lambda route: route.fulfill(status=504, body="no JSON"))
    box(page).focus()
    fill(page, "volcano")
    expect(links(page).first).to_have_text(re.compile("Volcano"))
    expect(options).to_have_count(0)


def test_markup_in_a_suggestion_is_shown_as_text_and_marked_after_emoji(
    open_page: OpenPage, hostile: Server
) -> None:
    page = open_page(url=hostile.url)
    box(page).press_sequentially("foxse scr")
    option = page.get_by_role("option")
    expect(option).to_have_text(HOSTILE_TITLE)
    marks = option.locator("mark").all_inner_texts()
    assert marks == ["Foxes", "scr", "scr"]
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(box(page)).to_have_value(HOSTILE_TITLE)
    expect(links(page).first).to_have_text(HOSTILE_TITLE)
    assert page.locator("main script, form script").count() == 0
    assert page.evaluate("window.owned") is None


def test_more_results_follow_without_repeats_until_there_are_no_more(open_page: OpenPage) -> None:
    page = open_page(f"{found('flour')}&mode=dense")
    more = page.get_by_role("button", name="More results")
    for count in range(20, 70, 10):
        links(page).nth(7).click()
        page.get_by_role("link", name="Results").click()
        more.click()
        expect(links(page)).to_have_count(count)
        expect(links(page).nth(count - 10)).to_be_focused()
        expect(page.locator("#count")).to_have_text(f"The first {count} documents")
    titles = links(page).all_inner_texts()
    assert len(set(titles)) == 60
    more.click()
    expect(more).to_be_hidden()
    expect(page.locator("#count")).to_have_text("60 documents")
    links(page).nth(42).click()
    expect(page.locator("#passage")).to_be_visible()
    page.get_by_role("link", name="Results").click()
    expect(links(page)).to_have_text(titles)
    expect(links(page).nth(42)).to_be_focused()
    box(page).fill("violin")
    expect(links(page)).to_have_count(10)
    expect(more).to_be_visible()


def test_hits_stay_while_the_index_reloads_and_more_can_be_asked_for_again(
    open_page: OpenPage,
) -> None:
    page = open_page(found(QUERY))
    expect(links(page)).to_have_count(10)
    page.route("**/search", lambda route: answer(route, "Loading", 503))
    more = page.get_by_role("button", name="More results")
    more.click()
    expect(page.get_by_role("alert")).to_have_text("Not ready for searches. Details of Loading.")
    why = page.get_by_role("button", name="Why this hit").first
    why.click()
    expect(page.locator(".reasons")).to_contain_text("Not ready for searches.")
    expect(links(page)).to_have_count(10)
    page.unroute("**/search")
    more.click()
    expect(links(page)).to_have_count(20)
    expect(page.get_by_role("alert")).to_be_empty()
    why.click()
    why.click()
    expect(page.locator(".reasons dt").first).to_have_text("by meaning")


def test_why_a_hit_was_found_is_told_by_both_scores_and_the_nearest_sentence(
    open_page: OpenPage, client: httpx.Client
) -> None:
    page = open_page(found(QUERY))
    name = links(page).nth(2).inner_text()
    expected = []
    for mode in ("dense", "lexical"):
        hits = client.post("/search", json={"query": QUERY, "mode": mode}).json()["hits"]
        place = [hit["title"] for hit in hits].index(name)
        expected.append(f"{hits[place]['score']:.3f}, place {place + 1}")
    body = {"query": QUERY, "highlight": "sentence"}
    passage = client.post("/search", json=body).json()["hits"][2]["passage"]
    [[start, end]] = passage["highlights"]
    why = page.get_by_role("button", name=f"Why this hit {name}", exact=True)
    why.click()
    reasons = page.locator(".reasons dd")
    assert client.get("/info").json()["index"]["weight"] == 0.72
    expected.append("0.72 · meaning + 0.28 · words, both of the same passage")
    expect(reasons).to_have_text([*expected, passage["text"][start:end]])
    expect(why).to_have_attribute("aria-expanded", "true")
    expect(page).to_have_url(re.compile("baked$"))
    page.keyboard.press("Enter")
    expect(reasons).to_have_count(0)


def test_a_search_can_be_copied_as_a_command_and_as_a_program_without_the_key(
    open_page: OpenPage, locked_server: Any
) -> None:
    key = str(locked_server.settings["search_keys"])
    query, chosen = """it's "bread" \\ $HOME 🦊""", '{"topic":["bread"]}'
    address = f"{found(query)}&mode=dense&filter={quote(chosen)}"
    page = open_page(address, url=locked_server.url)
    page.get_by_label("Search key").fill(key)
    page.keyboard.press("Enter")
    expect(links(page)).to_have_count(5)
    ids = page.locator(".identity").all_inner_texts()
    page.get_by_text("This search with curl or Python").click()
    expect(page.locator("#code pre")).to_have_count(2)
    curl, program = page.locator("#code pre").all_inner_texts()
    assert key not in curl + program
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy as Python").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == program
    environment = {**os.environ, "SWIFTLET_KEY": key}
    output = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert [line.split()[1] for line in output.splitlines()] == ids
    command, silent, url, *options = shlex.split(curl)
    assert (command, silent, url, options[:2]) == (
        "curl", "-s", f"{locked_server.url}/search", ["-H", "Authorization: Bearer $SWIFTLET_KEY"]
    )  # fmt: skip
    assert json.loads(options[3]) == {
        "query": query, "mode": "dense", "filter": json.loads(chosen)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Add:\n>>> 1 + 1\n2\n\nThat is all.", [">>> 1 + 1\n2"]),
        ("Run\n```sh\nls\n\npwd\n```\nnow.", ["```sh\nls\n\npwd\n```"]),
        ("csv.reader(file)\nReads it.", ["csv.reader(file)"]),
        ("For example:\n\n    x = f(y)\n\nbut (this) is\n    prose.", ["    x = f(y)"]),
        ("A | B, or a + b (c).", []),
    ],
)
def test_code_is_found_by_its_lines(open_page: OpenPage, text: str, code: list[str]) -> None:
    spans = open_page().evaluate(
        "text => import('/page/text.js').then((m) => m.codeSpans(text))", text
    )
    assert [text[start:end] for start, end in spans] == code


def test_a_snippet_has_whole_sentences_from_where_the_words_are(open_page: OpenPage) -> None:
    sentences = [f"{'Nothing is said here at all. ' * 20}", "Foxes sleep. ", "Foxes eat.\n\nEnd"]
    text = "".join(sentences)
    marks = [[at.start(), at.end()] for at in re.finditer("Foxes", text)]
    snippet = "([text, marks]) => import('/page/text.js').then((m) => m.snippetOf(text, marks))"
    page = open_page()
    start, end = page.evaluate(snippet, [text, marks])
    assert "Foxes" in text[start:end]
    assert text[start:end].startswith("Nothing is")
    assert text[start:end].endswith("End")
    start, end = page.evaluate(snippet, [text, []])
    assert start == 0
    assert 250 < end <= 320
    assert text[:end].endswith(".")
    assert page.evaluate(snippet, [" ", []]) == [0, 0]


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("a.md", "here than there. Foxes sleep.", "… Foxes sleep."),
        ("a.txt", "here than there. Foxes sleep.", "… Foxes sleep."),
        ("a.md", "foxes here than there. Foxes sleep.", "foxes here than there. Foxes sleep."),
        ("a.md", "here than there", "here than there"),
        ("a.md", "47 | 170 |\n| Foxes | 1 |", "…Foxes1"),
        ("a.md", "Birds fly. Foxes sleep.", "Birds fly. Foxes sleep."),
        ("a.md", f"Owls {LONG} fly", f"Owls {LONG} fly …"),
        ("a.txt", f"Owls {LONG} fly", f"Owls {LONG} fly …"),
        ("a.md", f"- Owls {LONG} fly", f"Owls {LONG} fly"),
        ("a.md", f"Owls {LONG} fly.", f"Owls {LONG} fly."),
        ("a.py", "count(x). Foxes\n    y = f(x)", "count(x). Foxes\n    y = f(x)"),
    ],
)
def test_a_passage_that_begins_or_ends_within_a_sentence_shows_so(
    open_page: OpenPage, name: str, text: str, shown: str
) -> None:
    marks = [[at.start(), at.end()] for at in re.finditer("foxes", text)]
    passage = {"text": text, "start": 9, "highlights": marks}
    hit = {"document_id": name, "title": "A", "score": 1, "metadata": {}, "passage": passage}
    draw = (
        "(hit) => import('/page/drawing.js')"
        ".then((m) => m.drawHit(hit, { query: 'x' }).querySelector('.passage').textContent)"
    )
    assert open_page().evaluate(draw, hit) == shown


def test_text_files_are_added_with_a_key_that_the_address_does_not_keep(
    open_page: OpenPage, start_server: Callable[..., Any], small_index: Path, tmp_path: Path
) -> None:
    key = "the-write-key-of-the-tests"
    index = shutil.copytree(small_index, tmp_path / "index")
    url = start_server(index=index, write_keys=key).url
    file = tmp_path / "zebras.md"
    file.write_text("Zebras have stripes <b>black</b> and white.")
    page = open_page(url=url)
    expect(page.locator("#examples")).to_be_visible()
    files, outcome = page.get_by_label("Add text files to this index"), page.locator("#add-outcome")
    expect(files).to_be_hidden()
    page.goto(f"/#write={key}x")
    page.reload()
    files.set_input_files(file)
    expect(outcome).to_have_text(re.compile("^This key is not accepted"))
    page.goto(f"/#write={key}")
    page.reload()
    expect(page).to_have_url(f"{url}/")
    small = {"name": "small.txt", "mimeType": "text/plain", "buffer": b"Small."}
    bad = {
        "empty.txt": (b" \n", "has no text"),
        "image.txt": (b"PNG\0", "is not a text file in UTF-8"),
        "latin.txt": ("é".encode("latin-1"), "is not a text file in UTF-8"),
        "big.txt": (
            b"x" * 10_000_000,
            "makes 10,000,072 bytes to send, and the service takes at most 4,194,304 bytes at once",
        ),
    }
    for name, (content, reason) in bad.items():
        files.set_input_files([small, {**small, "name": name, "buffer": content}])  # type: ignore[list-item]
        expect(outcome).to_have_text(f"“{name}” {reason}. Nothing was added.")
    files.set_input_files(file)
    # Encoding has a lower priority than everything else on this machine.
    expect(outcome).to_have_text("Added zebras.md.", timeout=3 * WAIT_MS)
    expect(page.locator("#home-size")).to_have_text(re.compile("^61 documents"))
    page.reload()
    expect(files).to_be_visible()
    box(page).fill("striped zebras")
    expect(links(page).first).to_have_text("zebras.md")
    expect(page.locator(".passage").first).to_contain_text("<b>black</b>")
    # The index changes while its hits are on the screen.
    box(page).fill("how is bread baked")
    expect(links(page).first).to_have_text(re.compile("^Bread"))
    with httpx.Client(
        base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=100
    ) as writer:
        loaf = {"_id": "loaf", "title": "Loaf", "text": "How is bread baked? As a loaf."}
        assert writer.put("/documents", json={"documents": [loaf]}).is_success
        page.get_by_role("button", name="Why this hit").first.click()
        reasons = page.locator(".reasons").first
        expect(reasons).to_contain_text("The index has changed since this search.")
        reasons.get_by_role("button", name="Search again").click()
        remark = page.locator("#remark")
        expect(remark).to_have_text("The index has changed. These are its first documents.")
        expect(links(page).first).to_have_text("Loaf")
        box(page).fill("bread")
        expect(remark).to_be_hidden()
        expect(page).to_have_title("bread · Swiftlet")
        assert writer.delete("/documents/loaf").is_success
    page.get_by_role("button", name="More results").click()
    expect(remark).to_be_visible()
    expect(links(page)).to_have_count(10)
    expect(links(page).filter(has_text="Loaf")).to_have_count(0)
    # A file in Markdown has its heading as title, and the sentence leads to the document.
    box(page).fill("")
    file.write_text("\n# Zebra crossings \n\nThey have stripes too.")
    files.set_input_files(file)
    outcome.get_by_role("link", name="Zebra crossings").click(timeout=3 * WAIT_MS)
    expect(page.get_by_role("heading", level=2)).to_have_text("Zebra crossings")


# The document


def test_web_addresses_are_links_code_is_monospaced_and_numbers_are_as_they_were_given(
    open_page: OpenPage, odd: Server
) -> None:
    page = open_page("/?q=count+words", url=odd.url)
    expect(links(page).first).to_have_text("Words")
    outside = page.locator(".outside").first
    expect(outside).to_have_text("https://example.org/a b?<c>")
    for name, value in {
        "href": "https://example.org/a%20b?%3Cc%3E",
        "target": "_blank",
        "rel": "noopener noreferrer",
    }.items():
        expect(outside).to_have_attribute(name, value)
    expect(page.locator(".passage code").first).to_have_text(">>>")
    links(page).first.click()
    metadata = page.locator("#document-metadata dd")
    expect(metadata).to_have_text(["words", "https://example.org/a b?<c>", "2024", "123456", "0.5"])
    expect(page.locator("#document-metadata a")).to_have_count(1)
    text = page.locator("#document-text code")
    expect(text).to_have_text(">>> count('a b') 2")
    assert "mono" in text.evaluate("code => getComputedStyle(code).fontFamily")
    page.go_back()
    links(page).filter(has_text="script").click()
    expect(metadata).to_have_text(["script", "javascript:window.owned = 1"])
    expect(page.locator("#document-metadata a")).to_have_count(0)


def test_the_title_stays_in_sight_and_a_button_leads_back_to_the_passage(
    open_page: OpenPage, hostile: Server
) -> None:
    for width in (1280, 360):
        page = open_page(found("a fox sleeps in its den"), url=hostile.url)
        page.set_viewport_size({"width": width, "height": 500})
        links(page).first.click()
        title, mark = page.get_by_role("heading", level=2), page.locator("#passage")
        expect(mark).to_be_in_viewport()
        expect(title).to_be_in_viewport(ratio=1)
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        expect(mark).not_to_be_in_viewport()
        expect(title).to_be_in_viewport(ratio=1)
        page.get_by_role("button", name="To the passage").click()
        expect(mark).to_be_in_viewport()


def test_similar_documents_are_others_and_lead_back_to_the_results(open_page: OpenPage) -> None:
    page = open_page(found(QUERY))
    title = links(page).first.inner_text()
    links(page).first.click()
    similar = page.locator("#similar a")
    page.get_by_text("Similar documents").click()
    expect(similar).to_have_count(5)
    assert title not in similar.all_inner_texts()
    others = similar.all_inner_texts()
    assert sum(other.startswith("Bread") for other in others) == 4
    similar.first.click()
    expect(page.get_by_role("heading", level=2)).to_have_text(others[0])
    expect(similar).to_have_count(0)
    page.get_by_text("Similar documents").click()
    similar.first.click()
    expect(page.get_by_role("heading", level=2)).not_to_have_text(others[0])
    page.keyboard.press("Escape")
    expect(links(page).first).to_be_focused()
    expect(links(page)).to_have_count(10)


def test_long_titles_control_characters_and_changed_directions_disturb_nothing(
    open_page: OpenPage, odd: Server
) -> None:
    page = open_page("/?q=ships", url=odd.url, width=360)
    origin = page.locator(".identity", has_text="https://a.example")
    places = origin.evaluate("p => [p.firstChild, p.lastChild].map((e) => e.offsetLeft)")
    assert places == sorted(places)
    page.goto("/?q=whales+dive")
    path = page.locator(".identity", has_text="last.txt")
    assert path.inner_text().startswith("deep/deep/")
    assert path.bounding_box()["height"] < 100  # type: ignore[index]
    page.goto("/?q=ships")
    page.locator('[data-document-id="nul"]').first.click()
    page.get_by_text("Similar documents").click()
    similar = page.locator("#similar li")
    expect(similar).to_have_count(5)
    assert max(item.bounding_box()["height"] for item in similar.all()) < 60  # type: ignore[index]
    item = similar.filter(has_text="sail")
    assert item.evaluate("li => getComputedStyle(li.firstChild).unicodeBidi") == "isolate"
    page.goto("/?document=blank")
    expect(page.locator("#document-text")).to_be_visible()
    expect(page.locator("#similar")).to_be_hidden()


def test_the_passage_is_marked_where_it_stands_after_emoji_and_markup(
    open_page: OpenPage, hostile: Server
) -> None:
    query = "a fox sleeps in its den"
    with hostile.client() as client:
        hit = client.post("/search", json={"query": query}).json()["hits"][0]
    passage = hit["passage"]
    assert 0 < passage["start"] < passage["end"] < len(HOSTILE_TEXT)
    page = open_page(found(query), url=hostile.url)
    expect(links(page).first).to_have_text(HOSTILE_TITLE)
    # A document without a title is shown by its id.
    expect(links(page).nth(1)).to_have_text("plain")
    links(page).first.click()
    mark = page.locator("mark")
    expect(mark).to_be_in_viewport()
    assert mark.evaluate("mark => mark.textContent") == passage["text"]
    text = page.locator("#document-text")
    assert text.evaluate("text => text.textContent") == HOSTILE_TEXT
    before = text.evaluate("text => text.firstChild.data")
    assert before == HOSTILE_TEXT[: passage["start"]]
    expect(page.get_by_role("heading", level=2)).to_have_text(HOSTILE_TITLE)
    expect(page.locator("#document-metadata")).to_contain_text("<b>bold</b>")
    assert page.locator("main :is(script, img, b)").count() == 0
    assert page.evaluate("window.owned") is None
    page.reload()
    expect(mark).to_be_in_viewport()


def test_an_unknown_document_shows_an_error_and_a_link_back(open_page: OpenPage) -> None:
    page = open_page(f"{found(QUERY)}&document=nothing")
    expect(page.get_by_role("heading", level=2)).to_have_text("There is no such document")
    expect(page.get_by_role("button", name="Try again")).to_be_hidden()
    page.get_by_role("link", name="Results").click()
    expect(links(page)).to_have_count(10)
    expect(page).to_have_url(re.compile(r"\?q=how\+is\+bread\+baked$"))


# Keys and addresses


def test_the_page_can_be_used_by_keys_alone(open_page: OpenPage) -> None:
    page = open_page(found(QUERY))
    expect(links(page)).to_have_count(10)
    page.get_by_role("button", name="About this index").focus()
    page.keyboard.press("/")
    expect(box(page)).to_be_focused()
    expect(box(page)).to_have_value(QUERY)
    page.keyboard.press("ArrowDown")
    expect(links(page).nth(0)).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(links(page).nth(1)).to_be_focused()
    title = links(page).nth(1).inner_text()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=2)).to_have_text(title)
    expect(page.get_by_role("heading", level=2)).to_be_focused()
    page.keyboard.press("Escape")
    expect(links(page).nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(box(page)).to_be_focused()
    for _ in range(12):
        page.keyboard.press("ArrowDown")
    expect(links(page).last).to_be_focused()
    page.keyboard.press("Escape")
    expect(box(page)).to_be_focused()


def test_each_query_that_was_read_has_an_address_to_go_back_to(open_page: OpenPage) -> None:
    page = open_page(clock=True)
    fill(page, "how is")
    expect(page).to_have_url(re.compile(r"\?q=how\+is$"))
    expect(links(page)).to_have_count(10)
    page.clock.run_for(1500)
    fill(page, "how is bread made & sold?")  # the same thought, typed on
    expect(page).to_have_url(re.compile(r"\?q=how\+is\+bread\+made\+%26\+sold%3F$"))
    page.keyboard.press("Enter")
    expect(links(page).first).to_have_text(re.compile("Bread"))
    fill(page, "tides")
    expect(links(page).first).to_have_text(re.compile("Tides"))
    page.clock.run_for(3000)  # read for a while
    fill(page, "who dances for honey")
    expect(page).to_have_url(re.compile("dances"))
    expect(links(page).first).to_have_text(re.compile("Bees"))
    links(page).first.click()
    expect(page).to_have_url(re.compile(r"dances.*&document=bees-\d+$"))
    expect(page.locator("#passage")).to_be_visible()
    page.go_back()
    expect(links(page).first).to_be_visible()
    page.go_forward()
    expect(page.locator("#passage")).to_be_visible()
    page.go_back()
    page.go_back()
    expect(box(page)).to_have_value("tides")
    page.go_back()
    expect(box(page)).to_have_value("how is bread made & sold?")
    expect(links(page).first).to_have_text(re.compile("Bread"))
    page.go_back()
    expect(box(page)).to_have_value("")
    expect(page.locator("#home")).to_be_visible()


# States


def test_a_slow_search_shows_a_message_and_keeps_the_old_hits(open_page: OpenPage) -> None:
    held: list[Route] = []
    page = open_page(found(QUERY))
    expect(links(page)).to_have_count(10)
    page.route("**/search", lambda route: held.append(route))  # noqa: PLW0108 Playwright marks it
    page.clock.install()
    page.clock.pause_at(page.evaluate("Date.now() + 1000"))
    with page.expect_request("**/search"):
        fill(page, "slow")
    slow = page.get_by_text("Still searching. The service is slower than usual.")
    page.clock.run_for(399)
    expect(slow).to_be_hidden()
    page.clock.run_for(1)
    expect(slow).to_be_visible()
    expect(announcement(page)).to_have_text("Still searching")
    expect(page.get_by_role("main")).to_have_attribute("aria-busy", "true")
    expect(links(page)).to_have_count(10)
    answer(held[0], "Late")
    expect(links(page)).to_have_text(["Late"])
    expect(slow).to_be_hidden()
    expect(page.get_by_role("main")).to_have_attribute("aria-busy", "false")


@pytest.mark.parametrize(("status", "heading"), [(429, "is busy"), (503, "Not ready")])
def test_overload_counts_down_and_asks_again_ever_later_and_in_the_end_by_the_button_alone(
    open_page: OpenPage, status: int, heading: str
) -> None:
    refusals = 6
    asked: list[Route] = []

    def search(route: Route) -> None:
        asked.append(route)
        if len(asked) > refusals:
            answer(route)
        else:
            answer(route, "Too much is waiting", status, Retry_After="3")

    page = open_page(clock=True, search=search)
    fill(page, "x")
    expect(page.get_by_role("heading", level=2)).to_have_text(re.compile(heading))
    countdown = page.locator("#countdown")
    expect(announcement(page)).to_have_text(re.compile("Trying again in 3 seconds$"))
    for seconds in ("3 seconds", "2 seconds", "1 second"):
        expect(countdown).to_have_text(f"Trying again in {seconds}")
        assert len(asked) == 1
        page.clock.run_for(1000)
    for refused in range(2, refusals):
        seconds = 3 * 2 ** (refused - 1)
        expect(countdown).to_have_text(f"Trying again in {seconds} seconds")
        assert len(asked) == refused
        page.clock.run_for(1000 * seconds)
    expect(countdown).to_have_text("")
    page.clock.run_for(600_000)
    assert len(asked) == refusals
    page.get_by_role("button", name="Try again").click()
    expect(links(page)).to_have_text(["Answer"])


@pytest.mark.parametrize(
    ("status", "heading", "again"),
    [
        (422, "Problem", False),
        (500, "Problem", True),
        (504, "The search ran out of time", True),
        (0, "The service cannot be reached", True),
    ],
)
def test_an_error_is_shown_with_a_retry_button_if_a_retry_may_help(
    open_page: OpenPage, status: int, heading: str, again: bool
) -> None:
    failing = True

    def search(route: Route) -> None:
        if not failing:
            answer(route)
        elif status:
            answer(route, "Problem", status)
        else:
            route.abort()

    page = open_page(found("x"), search=search)
    notice = page.get_by_role("region", name=heading)
    expect(notice).to_be_visible()
    expect(announcement(page)).to_have_text(heading)
    if status:
        expect(notice).to_contain_text("Details of Problem.")
        expect(notice).to_contain_text("0123456789abcdef")
    button = page.get_by_role("button", name="Try again")
    failing = False
    if again:
        button.click()
    else:
        expect(button).to_be_hidden()
        box(page).fill("shorter")
    expect(links(page)).to_have_text(["Answer"])
    expect(notice).to_be_hidden()


@pytest.mark.parametrize(
    ("sent", "heading", "said"),
    [
        ({"status": 502, "body": "<h1>Bad gateway</h1>"}, "The service answered 502", "answered"),
        ({"json": {"hits": []}}, "Nothing found", "^0 documents found"),
    ],
)
def test_an_answer_without_problem_or_hits_is_reported_too(
    open_page: OpenPage, sent: dict[str, Any], heading: str, said: str
) -> None:
    page = open_page(found("x"), search=lambda route: route.fulfill(**sent))
    expect(page.get_by_role("heading", level=2)).to_have_text(heading)
    expect(announcement(page)).to_have_text(re.compile(said))


def test_the_page_asks_for_a_key_and_keeps_it_in_this_tab_only(open_page: OpenPage) -> None:
    sent: list[str | None] = []

    def search(route: Route) -> None:
        sent.append(route.request.headers.get("authorization"))
        if sent[-1] == "Bearer right":
            route.continue_()
        else:
            answer(route, "Key", 401 if sent[-1] is None else 403)

    page = open_page(found(QUERY), search=search)
    field = page.get_by_label("Search key")
    expect(page.get_by_role("heading", level=2)).to_have_text("This service asks for a key")
    expect(field).to_be_focused()
    expect(field).to_have_attribute("type", "password")
    field.fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=2)).to_have_text("This key is not accepted")
    expect(field).to_have_value("")
    field.fill("right")
    page.get_by_role("button", name="Use this key").click()
    expect(links(page)).to_have_count(10)
    assert sent == [None, "Bearer wrong", "Bearer right"]
    kept = page.evaluate("[Object.values(sessionStorage), localStorage.length, document.cookie]")
    assert kept == [["right"], 0, ""]
    assert "right" not in page.url
    page.reload()
    expect(links(page)).to_have_count(10)
    assert sent[-1] == "Bearer right"


def test_the_drawer_describes_the_index_and_returns_the_focus(
    open_page: OpenPage, client: httpx.Client
) -> None:
    info = client.get("/info").json()
    page = open_page()
    button = page.get_by_role("button", name="About this index")
    button.focus()
    page.keyboard.press("Enter")
    drawer = page.get_by_role("dialog", name="About this index")
    expect(drawer.locator("dt", has_text=re.compile("^documents$"))).to_be_visible()
    for value in ("60", info["encoder"]["name"], info["index"]["fingerprint"]):
        expect(drawer).to_contain_text(value)
    page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    expect(button).to_be_focused()


# Accessibility


def every_view(page: Page) -> Iterator[str]:
    """Show one view after the other, and name it."""
    expect(page.locator("#home-size")).to_contain_text("documents")
    yield "home"
    box(page).fill(QUERY)
    expect(links(page)).to_have_count(10)
    links(page).first.hover()
    page.get_by_role("button", name="Why this hit").first.click()
    expect(page.locator(".reasons dd").first).to_be_visible()
    page.locator("#code summary").click()
    expect(page.locator("#code pre")).to_have_count(2)
    yield "results"
    box(page).fill("bread")
    expect(page.get_by_role("option")).to_have_count(5)
    page.keyboard.press("ArrowDown")
    yield "suggestions"
    page.keyboard.press("Escape")
    expect(page).to_have_title("bread · Swiftlet")
    links(page).first.click()
    expect(page.locator("#passage")).to_be_visible()
    page.locator("#similar summary").click()
    expect(page.locator("#similar a")).to_have_count(5)
    yield "document"
    page.get_by_role("button", name="About this index").click()
    expect(page.locator("#about-content h3").first).to_be_visible()
    page.locator("#about-content summary").click()
    yield "drawer"
    page.keyboard.press("Escape")
    page.route("**/search", lambda route: answer(route, "X" * 200, 401))
    box(page).fill("x")
    expect(page.get_by_label("Search key")).to_be_visible()
    yield "notice"


def test_every_view_is_accessible_in_both_schemes_and_no_wider_than_a_narrow_phone(
    open_page: OpenPage,
) -> None:
    page, axe = open_page("/#write=any", reduced_motion="reduce"), Axe()
    expect(page.locator("#add")).to_be_visible()
    too_wide = """[...document.querySelectorAll("body *")].filter((e) => e.checkVisibility()
      && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML)"""
    for view in every_view(page):
        for scheme, width in zip(SCHEMES, (1280, 360), strict=True):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
            page.set_viewport_size({"width": width, "height": 800})
            background = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
            assert (background == "rgb(21, 24, 28)") == (scheme == "dark")
            found = axe.run(page, options={"resultTypes": ["violations", "incomplete"]})
            assert not found.violations_count, (view, scheme, width, found.generate_report())
            assert len(found.response["passes"]) > 15, view
            unknown = {
                check["data"]["messageKey"]
                for rule in found.response["incomplete"] if rule["id"] == "color-contrast"
                for node in rule["nodes"] for check in node["any"]
            }  # fmt: skip
            # Single signs, such as arrows, and what lies below the suggestions.
            assert unknown <= {"shortTextContent", "nonBmp", "bgOverlap"}, view
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, view
        assert page.evaluate(too_wide) == [], view
        page.set_viewport_size({"width": 1280, "height": 800})


def test_the_focused_element_is_marked(open_page: OpenPage) -> None:
    page = open_page(found(QUERY))
    expect(links(page)).to_have_count(10)
    shown = """() => {
      const at = document.activeElement;
      if (at === document.body) return ["", false];
      const parts = [at, at.closest(".field"), at.closest(".hit")].filter(Boolean);
      const shows = (e) => getComputedStyle(e).outlineStyle !== "none"
        || getComputedStyle(e).boxShadow !== "none";
      return [at.id || at.textContent.trim(), parts.some(shows)];
    }"""
    seen = {}
    page.locator("#home-link").focus()
    while True:
        name, shows = page.evaluate(shown)
        if name in seen or not name:
            break
        seen[name] = shows
        page.keyboard.press("Tab")
    assert {"about-open", "query"} < set(seen)
    assert len(seen) >= 14
    assert all(seen.values()), seen


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_nothing_moves_with_reduced_motion(open_page: OpenPage, motion: str) -> None:
    page = open_page(found("x"), search=lambda route: None, reduced_motion=motion)
    expect(page.locator("#slow")).to_be_visible()
    page.get_by_role("button", name="About this index").click()
    moving = page.evaluate("document.getAnimations().length")
    assert (moving == 0) == (motion == "reduce")
