"""The search page over files: Markdown and tables, originals, weak hits, progress; in Chromium."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from swiftlet.corpora.files.code import LANGUAGES
from swiftlet.encoders import DEFAULT_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.index.building.build import BuildSettings, build_index
from swiftlet.types import Document
from tests.service.conftest import Server, running
from tests.service.test_page import found, links, open_page  # noqa: F401 - a fixture

pytestmark = pytest.mark.check

MARKDOWN = """# Ovens 🔥

The **stage bread** needs `hot_air`. Read [the manual](https://example.org/a?b=<c>) first,
not [this](javascript:window.owned=1) or ![a picture](https://example.org/picture.png).

1. Mix *flour*
2. Bake it <img src=x onerror='window.owned = 1'>

| Loaf | Degrees |
|---|--:|
| Rye 🍞 | **230** |
| White | 220 |

```sh
bake --degrees 230 <b>
```

<script>window.owned = 1</script>
"""
OTHERS = (
    "tides", "bees", "chess", "glacier", "printing", "compiler", "violin", "harbour", "mountain",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Iterator[Server]:
    """A service over a folder with a Markdown file and plain ones, with their originals."""
    root = tmp_path_factory.mktemp("page-files")
    (root / "files").mkdir()
    files = {
        f"{name}.txt": f"A text about {name} and {name} alone, from last year." for name in OTHERS
    }
    files["the oven.md"] = MARKDOWN
    documents = []
    for number, (name, text) in enumerate(files.items()):
        (root / "files" / name).write_text(text, "utf-8")
        kind = "markdown" if name.endswith(".md") else "text"
        days = timedelta(days=100 + number if kind == "text" else 0)
        modified = (datetime.now(UTC) - days).isoformat()
        language = "de" if kind == "text" else "en"
        metadata = {"path": name, "kind": kind, "language": language, "modified": modified}
        documents.append(Document(name, text, name.partition(".")[0], metadata))
    settings = BuildSettings(facets=("language",))
    build_index(documents, DEFAULT_ENCODER, root / "index", settings)
    with running(root / "index", files=root / "files") as server:
        yield server


def test_markdown_is_drawn_as_elements_and_its_markup_as_text(
    open_page,  # noqa: F811
    folder,
):
    page = open_page(found("degrees of rye bread in the oven"), url=folder.url)
    hit = page.locator(".hit").first
    expect(hit.locator(".passage h3")).to_have_count(0)  # only titles of hits are headings
    links(page).first.click()
    text = page.locator("#document-text")
    expect(text.locator("h3")).to_have_text("Ovens 🔥")
    expect(text.locator("strong").first).to_have_text("stage bread")
    assert text.locator("a").evaluate_all("all => all.map((a) => a.href)") == [
        "https://example.org/a?b=%3Cc%3E",
        "https://example.org/picture.png",
    ]
    assert text.locator("ol li").all_inner_texts() == [
        "Mix flour",
        "Bake it <img src=x onerror='window.owned = 1'>",
    ]
    assert text.locator("th").all_inner_texts() == ["Loaf", "Degrees"]
    assert text.locator("td").all_inner_texts() == ["Rye 🍞", "230", "White", "220"]
    expect(text.locator("pre")).to_have_text("bake --degrees 230 <b>")
    expect(text).to_contain_text("<script>window.owned = 1</script>")
    assert text.locator("img, script, b").count() == 0
    assert page.evaluate("window.owned") is None
    assert "Rye 🍞" in text.locator("mark").all_text_contents()
    assert page.locator("#passage").count() == 1


def test_one_of_several_times_is_chosen_since_which_files_were_modified(
    open_page,  # noqa: F811
    folder,
):
    page = open_page(found("degrees of rye bread in the oven"), url=folder.url)
    modified = page.get_by_role("group", name="modified")
    modified.get_by_role("checkbox", name="past month").check()
    expect(links(page)).to_have_text(["the oven"])
    modified.get_by_role("checkbox", name="past year").check()
    expect(links(page)).to_have_count(10)
    expect(modified.locator("input:checked")).to_have_count(1)
    page.reload()
    expect(modified.get_by_role("checkbox", name="past year")).to_be_checked()
    earlier = quote('{"modified":{"gte":"2001-02-03"}}')
    page.goto(f"{page.url.partition('&')[0]}&filter={earlier}")
    expect(modified.get_by_role("checkbox", name="since 2001-02-03")).to_be_checked()
    both = quote('{"modified":{"gte":"2001-02-03","lt":"2002-01-01"}}')
    page.goto(f"{page.url.partition('&')[0]}&filter={both}")
    expect(page.locator("#remark")).to_contain_text("Left out, because the page cannot show it")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_markdown_and_weak_hits_are_accessible(
    open_page,  # noqa: F811
    folder,
    scheme,
    width,
):
    address = found("degrees of rye bread in the oven")
    page = open_page(address, url=folder.url, color_scheme=scheme, width=width)
    expect(page.locator(".weaker")).to_have_text("Weaker matches")
    for view in ("hits", "document"):
        if view == "document":
            links(page).first.click()
            expect(page.locator("#document-text table")).to_be_visible()
        violations = Axe().run(page)
        assert not violations.violations_count, violations.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_original_is_opened_as_text_at_the_passage(
    open_page,  # noqa: F811
    folder,
):
    page = open_page(found("degrees of rye bread in the oven"), url=folder.url)
    links(page).first.click()
    original = page.get_by_role("link", name="Original file")
    assert (original.get_attribute("href") or "").startswith("files/the%20oven.md#:~:text=")
    with page.context.expect_page() as opened:
        original.click()
    expect(opened.value.locator("body")).to_contain_text("<script>window.owned = 1</script>")
    assert opened.value.evaluate("document.contentType") == "text/plain"


def test_hits_below_what_random_words_reach_stand_below_a_line(
    open_page,  # noqa: F811
    folder,
):
    with folder.client() as client:
        line = client.get("/weak").json()["weak_below"]["hybrid"]
        asked = {"query": "tides", "top_k": 10}
        scores = [hit["score"] for hit in client.post("/search", json=asked).json()["hits"]]
    strong = sum(score >= line for score in scores)
    assert 0 < strong < len(scores)
    page = open_page(found("tides"), url=folder.url)
    expect(page.locator(".weaker")).to_be_visible()
    names = page.locator("#hits > li").evaluate_all("all => all.map((li) => li.className)")
    assert names.index("weaker") == strong
    expect(page.get_by_role("group", name="language").locator(".value")).to_have_text(
        ["German", "English"]
    )


def test_the_page_says_how_far_an_index_is_until_it_is_final(
    open_page,  # noqa: F811
    folder,
):
    states = [{"passages": 1200, "of": 10000}, {"passages": 9000, "of": 10000}, None]

    def info(route):  # type: ignore[no-untyped-def]
        state = states.pop(0) if len(states) > 1 else states[0]
        route.fulfill(json={**route.fetch().json(), "refining": state})

    page = open_page("about:blank")
    page.route("**/info", info)
    page.goto(folder.url)
    line = page.locator("#refining")
    expect(line).to_contain_text("1,200 of 10,000 passages")
    expect(line).to_contain_text("9,000 of 10,000 passages")
    expect(line).to_be_hidden()


def test_the_newest_of_what_answers_come_first_where_files_have_a_time(
    open_page,  # noqa: F811
    folder,
):
    page = open_page(found("a text from last year"), url=folder.url)
    newest = page.get_by_role("checkbox", name="Newest first")
    expect(links(page)).to_have_count(10)
    by_score = links(page).all_inner_texts()
    newest.check()
    expect(links(page)).not_to_have_text(by_score)
    expect(page).to_have_url(re.compile("sort=modified%3Adesc$"))
    expect(page.locator(".weaker")).to_have_count(0)
    by_time = links(page).all_inner_texts()
    assert len(by_time) > 4
    assert by_time == [name for name in ("the oven", *OTHERS) if name in by_time]
    page.locator(".why").first.click()
    expect(page.locator("dl.reasons")).to_contain_text("by words")
    page.reload()
    expect(newest).to_be_checked()
    expect(links(page)).to_have_text(by_time)
    links(page).first.click()
    page.get_by_role("link", name="Results").click()
    expect(newest).to_be_checked()
    page.go_back()
    expect(newest).not_to_be_checked()
    expect(links(page)).to_have_text(by_score)


def test_an_order_that_the_page_cannot_show_is_taken_out_of_the_address(
    open_page,  # noqa: F811
    folder,
    server,
):
    for address, url in (("year:asc", folder.url), ("modified:desc", server.url)):
        page = open_page(f"{found('bread')}&sort={address}", url=url)
        expect(page.locator("#remark")).to_contain_text("cannot show it: the order.")
        expect(page).to_have_url(re.compile("q=bread$"))
        expect(links(page).first).to_be_visible()


def test_a_boost_is_shown_beside_the_score(
    open_page,  # noqa: F811
    folder,
):
    def boosted(route):  # type: ignore[no-untyped-def]
        found_hits = route.fetch().json()
        found_hits["hits"][0] |= {"score": 0.5, "boosted_score": 0.6}
        route.fulfill(json=found_hits)

    page = open_page(found("tides"), url=folder.url, search=boosted)
    expect(page.locator(".score").first).to_contain_text("0.500 + 0.100")


def test_source_code_keeps_its_lines_and_indentation(
    open_page,  # noqa: F811
    tmp_path,
):
    code = "def heat(oven):\n    if oven.cold:\n\n        oven.fire = 'birch'\n    return oven\n"
    documents = [
        Document("a.py", f"{code}\n\n{'# ash ' * 90}", "", {"path": "a.py", "kind": "python"})
    ]
    build_index(documents, LOOKUP_QUERY_ENCODER, tmp_path / "index")
    with running(tmp_path / "index") as server:
        page = open_page(found("fire of birch"), url=server.url)
        drawn = page.locator(".hit .passage code").first
        expect(drawn).to_have_css("white-space-collapse", "preserve")
        assert (
            "def heat(oven):\n    if oven.cold:\n\n        oven.fire"
            in page.locator(".hit .passage").first.inner_text()
        )
        links(page).first.click()
        expect(page.locator("#document-text code").first).to_be_visible()
        assert "\n        oven.fire = 'birch'\n" in page.locator("#document-text").inner_text()


def test_the_page_knows_every_kind_of_source_code():
    script = files("service").joinpath("page", "text.js").read_text("utf-8")
    listed = script.partition("SOURCES = new Set(")[2].partition(".split")[0]
    kinds = " ".join(re.findall(r'"([^"]*)"', listed)).split()
    assert {*kinds} == {*LANGUAGES.values()} - {"text"}
